#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a release. It changes files and writes archives. It makes no commit and no tag, and sends nothing.
#
# release.sh prepare VERSION   writes the version, today's date and the project's address into the files that name them.
#                              CHANGELOG.md needs a section "## VERSION (unreleased)".
# release.sh archive DIR       writes into DIR, from the commit HEAD: hooksess-VERSION.tar.gz, SHA256SUMS, and NOTES.md, which is the
#                              section of CHANGELOG.md. The archive contains the code that protoc-c generates, so that a build needs
#                              no protoc-c. Prints the commands that publish the release.
set -eu
cd "$(dirname "$0")/.."

address=$(sed -n 's/.*HOMEPAGE_URL "\(.*\)".*/\1/p' CMakeLists.txt) # the only place to change it

fail() {
    echo "release.sh: $*" >&2
    exit 1
}
replace() { # FILE EXPRESSION: sed, which must change a line
    sed -E "$2" "$1" >"$1.tmp"
    ! cmp -s "$1" "$1.tmp" || { rm "$1.tmp"; fail "$1: nothing to change by $2"; }
    cat "$1.tmp" >"$1"
    rm "$1.tmp"
}
number() { # MAJOR|MINOR|PATCH: as version.h has it
    sed -n "s/^#define HS_VERSION_$1 *//p" include/hooksess/version.h
}
section() { # VERSION: its section of CHANGELOG.md without the heading
    awk -v version="$1" '/^## / { inside = $2 == version; next } inside' CHANGELOG.md
}

prepare() {
    version=$1
    echo "$version" | grep -qxE '(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}' || fail "'$version' is not MAJOR.MINOR.PATCH"
    major=${version%%.*} patch=${version##*.} abi=${version%.*}
    minor=${abi#*.}
    old=$(number MAJOR).$(number MINOR).$(number PATCH)
    newest=$(printf '%s\n' "$old" "$version" | sort -V | tail -1)
    [ "$newest" = "$version" ] || fail "$version is older than $old, the version of the source"
    grep -q "^## $version (unreleased)\$" CHANGELOG.md || fail "CHANGELOG.md has no section '## $version (unreleased)'"
    section "$version" | grep -q '[^[:space:]]' || fail "CHANGELOG.md says nothing about $version"
    for file in src/exports.map src/*/exports.map; do
        grep -q "^HOOKSESS_$abi {" $file || fail "$file: a release $abi needs symbols of version HOOKSESS_$abi"
    done
    grep -q "^Package: libhooksess$abi\$" debian/control || fail "debian/control: a release $abi needs a package libhooksess$abi"

    replace CHANGELOG.md "s/^## $version \(unreleased\)\$/## $version ($(date -u +%F))/"
    if [ "$old" != "$version" ]; then
        replace include/hooksess/version.h "s/^(#define HS_VERSION_MAJOR +)[0-9]+/\1$major/
            s/^(#define HS_VERSION_MINOR +)[0-9]+/\1$minor/
            s/^(#define HS_VERSION_PATCH +)[0-9]+/\1$patch/; s/^(#define HS_VERSION_STRING ).*/\1\"$version\"/"
        replace python/hooksess/__init__.py "s/^__version__ = .*/__version__ = \"$version\"/"
        replace docs/install.md "s|hooksess-$old\\.tar|hooksess-$version.tar|g"
    fi
    # Debian's own package of a version ends in -1 and replaces this one.
    entry="hooksess ($version-0hooksess1) unstable; urgency=medium

  * New release.

$(sed -n 's/^Maintainer: / -- /p' debian/control)  $(LC_ALL=C date -u -R)"
    if grep -q "^hooksess ($version-" debian/changelog; then
        replace debian/changelog "1,/^ -- / s/^( -- .*>  ).*/\1$(LC_ALL=C date -u -R)/"
    else
        { printf '%s\n\n' "$entry"; cat debian/changelog; } >debian/changelog.tmp
        mv debian/changelog.tmp debian/changelog
    fi
    sed -i "s|https://[^ ]*/hooksess-|$address/releases/hooksess-|" docs/install.md
    sed -i "s|git clone https://[^ ]*|git clone $address|" README.md
    sed -i "s|^Homepage: .*|Homepage: $address|" debian/control
    echo "The source is version $version. Look at the changes, commit them, then: cmake/release.sh archive DIR"
}

archive() {
    out=$1
    version=$(number MAJOR).$(number MINOR).$(number PATCH)
    name=hooksess-$version
    [ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
    grep -qxE "## $version \([0-9-]+\)" CHANGELOG.md || fail "$version is not prepared: cmake/release.sh prepare $version"
    command -v protoc-c >/dev/null || fail "protoc-c is missing (Debian: protobuf-c-compiler)"
    mkdir -p "$out"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    git archive --prefix="$name/" HEAD | tar -xf - -C "$work"
    wire=$work/$name/src/base/wire
    protoc-c -I "$wire" --c_out="$wire" "$wire"/*.proto
    # The same commit gives the same bytes.
    tar -cf - -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --format=gnu \
        --mtime="@$(git log -1 --format=%ct)" "$name" | gzip -9n >"$out/$name.tar.gz"
    section "$version" >"$out/NOTES.md"
    (cd "$out" && sha256sum "$name.tar.gz" >SHA256SUMS)
    cat <<END
$out/$name.tar.gz, SHA256SUMS and NOTES.md are written. To publish them:
    git tag -s v$version -F $out/NOTES.md --cleanup=whitespace $(git rev-parse HEAD)
    git push $address v$version
    gpg --detach-sign --armor $out/SHA256SUMS
    upload $out/$name.tar.gz, SHA256SUMS and SHA256SUMS.asc to $address/releases/
END
}

case ${1:-}:$# in
prepare:2) prepare "$2" ;;
archive:2) archive "$2" ;;
*) sed -n 's/^# \{0,1\}//; 3,/^set/ { /^set/! p }' "$0" >&2; exit 2 ;;
esac
