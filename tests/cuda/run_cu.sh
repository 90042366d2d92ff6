#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_cu.sh SOURCE DRIVER INCLUDE LIBRARY... < DOCUMENT: compiles the first cuda block of a document over the stand-in for the driver.
# It must resume exactly (resume.sh).
set -eu
source=$1 driver=$2 include=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n '/^```cuda$/,/^```$/{/^```/d;p}' | sed -E 's/(\w+)<<<([^>]*)>>>\(/fake_kernel(\1, \2)(/' >"$work/train.cpp"
grep -q fake_kernel "$work/train.cpp" || { echo "the document has no cuda block with a kernel"; exit 1; }
"${CXX:-c++}" -std=c++20 -Wall -Wextra -Wno-missing-field-initializers -I"$source/tests/cuda/runtime" -I"$source/tests" -I"$source/src" -I"$include" \
    "$work/train.cpp" -o "$work/train" "$driver" "$@" "-Wl,-rpath,$(dirname "$driver")" -lpthread
sh "$source/tests/cuda/resume.sh" "$work/train"
