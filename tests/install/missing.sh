#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# missing.sh SOURCE: an example that cannot be built names the packages that were not found, and no others.
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(missing LANGUAGES C)
add_library(lone INTERFACE)
add_library(hooksess::hooksess ALIAS lone)
if(WITH_TENSORFLOW)
  add_library(hooksess::tensorflow ALIAS lone)
endif()
add_subdirectory(${EXAMPLE} example)
END

says() { # LINE EXAMPLE OPTION...: the line with which the example is not built; "": it is built
    line=$1 example=$2
    shift 2
    rm -rf "$work/build"
    cmake -S "$work" -B "$work/build" -DEXAMPLE="$source/examples/$example" "$@" >"$work/log" 2>&1 ||
        { cat "$work/log"; echo "FAILED: $example $*"; exit 1; }
    found=$(grep "is not built" "$work/log" || true)
    [ "$found" = "$line" ] || { echo "FAILED: $example $*: '$found' instead of '$line'"; exit 1; }
}

no_zlib=-DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON no_pkg_config=-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON
tensorflow="TensorFlow (examples/tensorflow/setup installs it)" zlib="zlib (Debian: zlib1g-dev)"
cblas="a CBLAS (Debian: libopenblas-dev pkg-config)"
graph="train_graph is not built, because this was not found:" trainer="The trainer is not built, because this was not found:"

says "$graph $tensorflow and $zlib" tensorflow $no_zlib
says "$graph $zlib" tensorflow $no_zlib -DWITH_TENSORFLOW=ON
says "$trainer $zlib and $cblas" trainer $no_zlib $no_pkg_config
says "$graph $tensorflow" tensorflow
says "" tensorflow -DWITH_TENSORFLOW=ON
says "$trainer $cblas" trainer $no_pkg_config
echo "ok: the packages that were not found are named"
