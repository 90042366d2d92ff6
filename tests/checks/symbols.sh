#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# symbols.sh [--update] VERSION SHARED FILE: the symbols file of a Debian package lists what the shared library exports, each symbol with
# the first release that has it. --update removes and adds lines; new symbols get VERSION.
set -eu
update=
[ "$1" != --update ] || { update=1; shift; }
version=$1 shared=$2 file=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
nm -D --defined-only "$shared" | awk '{ sub("@@", "@", $3); print $3 ~ /@/ ? $3 : $3 "@" $3 }' | sort >"$work/exported"
sed -n 's/^ \([^ ]*\) .*/\1/p' "$file" | sort >"$work/listed"
[ -s "$work/exported" ] || { echo "$shared exports nothing"; exit 1; }
if [ -n "$update" ]; then
    { sed -n '/^ /p' "$file"; sed "s/.*/ & $version/" "$work/exported"; } |
        awk 'NR == FNR { exported[$1]; next } $1 in exported && !seen[$1]++' "$work/exported" - | sort >"$work/lines"
    { grep -v '^ ' "$file"; cat "$work/lines"; } >"$work/new"
    cat "$work/new" >"$file"
elif ! diff "$work/listed" "$work/exported" >"$work/diff"; then
    sed -n 's/^</listed, and not exported:/p; s/^>/exported, and not listed:/p' "$work/diff"
    echo "To correct the file: sh $0 --update $version $shared $file"
    exit 1
fi
