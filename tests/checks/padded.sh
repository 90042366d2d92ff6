#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# padded.sh INCLUDE: no public struct has padding. Where there would be some, it has a reserved field: programs initialize
# that, and hs_struct_take looks at it. ggml.h has no struct, and needs ggml.
set -eu
found=$(cd "$1" && find hooksess -name '*.h' ! -name ggml.h | sed 's/.*/#include <&>/' |
    ${CC:-cc} -std=c11 -I. -x c -Wpadded -fsyntax-only - 2>&1) || { echo "$found"; exit 1; }
[ -z "$found" ] || { echo "$found"; exit 1; }
