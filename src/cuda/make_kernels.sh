#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make_kernels.sh [FILE]: compiles kernels.c with clang ($CLANG) to PTX, into FILE (kernels_ptx.h), for the oldest devices and drivers.
set -eu
file=$(realpath "${1:-$(dirname "$0")/kernels_ptx.h}")
cd "$(dirname "$0")"
ptx=$(mktemp)
trap 'rm -f "$ptx"' EXIT
"${CLANG:-clang}" -x cuda --cuda-device-only --cuda-path=/nonexistent -nocudainc -nocudalib --cuda-gpu-arch=sm_50 \
    -Xclang -target-feature -Xclang +ptx42 -O2 -Wall -Wextra -S -o "$ptx" kernels.c
{
    echo "/* SPDX-License-Identifier: Apache-2.0 */"
    echo "/* Made by make_kernels.sh from kernels.c. Checksum of both: $(cat kernels.c make_kernels.sh | cksum) */"
    echo "/* Compiler: $("${CLANG:-clang}" --version | head -n 1) */"
    echo "/* clang-format off */"
    echo "static const char hs__kernels_ptx[] ="
    sed -e '/^[[:space:]]*\/\//d' -e '/^$/d' -e 's/	/\\t/g' -e 's/.*/    "&\\n"/' "$ptx"
    echo "    ;"
} >"$file"
