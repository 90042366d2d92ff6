#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# size.sh: builds the static library in build/size-*, in two ways, and prints the size of size.c that is linked with it and stripped,
# in bytes. protobuf-c, zlib and ISA-L stay shared libraries.
set -eu
cd "$(dirname "$0")/../.."
sections="-ffunction-sections -fdata-sections"

# measure NAME TYPE LINKER-OPTION C-FLAGS
measure() {
    build=build/size-$1
    cmake -S . -B "$build" -DCMAKE_BUILD_TYPE="$2" -DCMAKE_C_FLAGS="$4" -DHOOKSESS_SHARED=OFF -DHOOKSESS_TOOL=OFF -DHOOKSESS_TESTS=OFF \
        -DHOOKSESS_EXAMPLES=OFF -DHOOKSESS_MAN=OFF -DHOOKSESS_MPI=OFF -DHOOKSESS_TENSORFLOW=OFF >/dev/null
    cmake --build "$build" --parallel "$(nproc)" --target hooksess_static >/dev/null
    # shellcheck disable=SC2046 # words
    cc -O2 -Iinclude "$3" -s -o "$build/size" tests/bench/size.c "$build/src/libhooksess.a" \
        $(pkg-config --libs libprotobuf-c zlib libisal) -lm -pthread
    echo "$1: $(wc -c <"$build/size")"
}

measure default Release -Wl,--no-gc-sections ""
measure small MinSizeRel -Wl,--gc-sections "$sections"
