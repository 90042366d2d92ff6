#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# release.sh SOURCE: makes a release of a copy of the source with cmake/release.sh, and builds programs from its archive as
# docs/install.md says: from source, with FetchContent and with add_subdirectory. The builds use no protoc-c.
set -eu
source=$(cd "$1" && pwd)
command -v git >/dev/null && command -v protoc-c >/dev/null || { echo "git or protoc-c is missing"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME="$work/home" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
export CMAKE_BUILD_TYPE=None CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" # without optimization it compiles in half the time
mkdir "$work/copy" "$work/home"
tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/copy" -xf -
cd "$work/copy"

fail() {
    echo "FAILED: $*"
    cat "$work/log"
    exit 1
}
try() { # NAME COMMAND...
    name=$1
    shift
    "$@" >"$work/log" 2>&1 || fail "$name"
    echo "ok: $name"
}
refuse() { # MESSAGE ARGUMENT...: release.sh fails with this message, and changes nothing
    message=$1
    shift
    ! cmake/release.sh "$@" >"$work/log" 2>&1 || fail "release.sh $* does not fail"
    grep -qF "$message" "$work/log" || fail "release.sh $* does not say '$message'"
    [ -z "$(git status --porcelain)" ] || fail "release.sh $* fails, and changes files"
    echo "ok: $message"
}
commit() {
    git add -A
    git commit -qm change
}

git init -q
commit
refuse "'0.1' is not MAJOR.MINOR.PATCH" prepare 0.1
refuse "0.0.9 is older than" prepare 0.0.9
refuse "no section '## 0.1.7 (unreleased)'" prepare 0.1.7
refuse "0.1.0 is not prepared" archive "$work/out"
printf '## 9.0.0 (unreleased)\n\n- Changes everything.\n\n## 0.1.8 (unreleased)\n\n' >"$work/sections"
printf '## 0.1.7 (unreleased)\n\n- The news of this release.\n\n' >>"$work/sections"
sed -i "0,/^## /{/^## /{
r $work/sections
N
}}" CHANGELOG.md
sed -i 's|HOMEPAGE_URL "[^"]*"|HOMEPAGE_URL "https://project.test/here"|' CMakeLists.txt
commit
refuse "a release 9.0 needs symbols of version HOOKSESS_9.0" prepare 9.0.0
refuse "CHANGELOG.md says nothing about 0.1.8" prepare 0.1.8
try "prepare" cmake/release.sh prepare 0.1.7
grep -qx '__version__ = "0.1.7"' python/hooksess/__init__.py || fail "the Python package has another version"
! cmake/release.sh archive "$work/out" >"$work/log" 2>&1 || fail "an archive of files that are not committed"
commit
try "archive" cmake/release.sh archive "$work/out"
grep -q "git tag -s v0.1.7 .* $(git rev-parse HEAD)" "$work/log" || fail "no command for the tag"
grep -q "git push https://project.test/here v0.1.7" "$work/log" || fail "no command that pushes the tag"
grep -qx "Homepage: https://project.test/here" debian/control || fail "debian/control has another address"
grep -q "git clone https://project.test/here " README.md || fail "README.md: git clone has another address"
[ -z "$(git tag)" ] || fail "release.sh has made a tag"
try "archive again" cmake/release.sh archive "$work/again"
try "the same bytes" diff -r "$work/out" "$work/again"
try "checksum" sh -c "cd '$work/out' && sha256sum -c SHA256SUMS"
[ "$(grep . "$work/out/NOTES.md")" = "- The news of this release." ] || fail "notes: $(cat "$work/out/NOTES.md")"
[ "$(head -1 debian/changelog)" = "hooksess (0.1.7-0hooksess1) unstable; urgency=medium" ] || fail "debian/changelog: $(head -1 debian/changelog)"

mkdir "$work/bin" "$work/unpacked"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/protoc-c"
chmod +x "$work/bin/protoc-c"
export PATH="$work/bin:$PATH"
tar -xzf "$work/out/hooksess-0.1.7.tar.gz" -C "$work/unpacked" --strip-components=1
document=$work/unpacked/docs/install.md
block() { # NAME: the block of code that follows <!-- block: NAME -->
    sed -n "/^<!-- block: $1 -->\$/,/^\`\`\`\$/ { /^<!--/d; /^\`\`\`/d; p }" "$document" | grep . || fail "docs/install.md has no block $1"
}
version() { # COMMAND...: the program runs on this release
    "$@" >"$work/log" || fail "$*"
    grep -q "^hooksess 0.1.7: " "$work/log" || fail "another version"
}
project() { # NAME: builds and runs a program whose CMakeLists.txt has the block
    mkdir -p "$work/$1"
    cp "$source/tests/install/client.c" "$work/$1/program.c"
    printf 'cmake_minimum_required(VERSION 3.22)\nproject(program LANGUAGES C)\nadd_executable(program program.c)\n' >"$work/$1/CMakeLists.txt"
    sum=$(cut -c-64 "$work/out/SHA256SUMS")
    block "$1" | sed "s|https://project.test/here/releases/\([^ )]*\)|file://$work/out/\1 URL_HASH SHA256=$sum|" >>"$work/$1/CMakeLists.txt"
    try "$1, configure" cmake -S "$work/$1" -B "$work/$1/build" -DCMAKE_PREFIX_PATH="$work/home/.local"
    ! grep -q "^HOOKSESS_PROTOC_C" "$work/$1/build/CMakeCache.txt" || fail "$1 looks for protoc-c"
    try "$1, build" cmake --build "$work/$1/build" --target program
    version "$work/$1/build/program"
}

block source >"$work/source.sh"
cd "$work/unpacked"
try "from source" sh -e "$work/source.sh"
block pkgconfig >"$work/pkgconfig.sh"
mkdir "$work/pkgconfig"
cd "$work/pkgconfig"
cp "$source/tests/install/client.c" program.c
version sh -e "$work/pkgconfig.sh"
echo "ok: pkg-config"
project find
project fetch
mkdir "$work/subdirectory"
rm -r "$work/unpacked/build"
mv "$work/unpacked" "$work/subdirectory/hooksess"
document=$work/subdirectory/hooksess/docs/install.md
project subdirectory
