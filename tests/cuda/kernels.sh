#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernels.sh SOURCE: src/cuda/kernels_ptx.h was made from the present kernels.c and make_kernels.sh. Where the compiler is that made it, it
# makes the same PTX again. Where ptxas is, in the PATH or in /usr/local/cuda, it compiles the PTX for each device that it knows.
set -eu
cd "$1/src/cuda"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
outdated() {
    echo "kernels_ptx.h is older than kernels.c or make_kernels.sh; run src/cuda/make_kernels.sh"
    exit 1
}
grep -qF "Checksum of both: $(cat kernels.c make_kernels.sh | cksum) */" kernels_ptx.h || outdated
compiler=$("${CLANG:-clang}" --version 2>/dev/null | head -n 1)
if [ "$compiler" ] && grep -qF "Compiler: $compiler */" kernels_ptx.h; then
    sh make_kernels.sh "$work/kernels_ptx.h"
    diff "$work/kernels_ptx.h" kernels_ptx.h || outdated
    echo "$compiler makes the same PTX"
else
    echo "the checksum is right; there is no $(sed -n 's/.*Compiler: \(.*\) \*\//\1/p' kernels_ptx.h)"
fi
ptxas=$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)
[ -x "$ptxas" ] || { echo "there is no ptxas"; exit 0; }
sed -n 's/^    "\(.*\)\\n"$/\1/p' kernels_ptx.h | sed 's/\\t/	/g' >"$work/kernels.ptx"
devices=$("$ptxas" --help | grep -o "'sm_[0-9]*'" | sort -u | tr -d "'")
for device in ${devices:?}; do
    "$ptxas" -arch="$device" -o "$work/kernels.cubin" "$work/kernels.ptx"
done
echo "compiled for" $devices
