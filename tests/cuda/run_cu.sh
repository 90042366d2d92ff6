#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_cu.sh SOURCE DRIVER INCLUDE LIBRARY... < DOCUMENT: compiles the first cuda block of a document over the stand-in for the driver.
# The program is killed at random times, as often as it takes, and must print the losses of an undisturbed run.
set -eu
source=$1 driver=$2 include=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n '/^```cuda$/,/^```$/{/^```/d;p}' | sed -E 's/(\w+)<<<([^>]*)>>>\(/fake_kernel(\1, \2)(/' >"$work/train.cpp"
grep -q fake_kernel "$work/train.cpp" || { echo "the document has no cuda block with a kernel"; exit 1; }
"${CXX:-c++}" -std=c++20 -Wall -Wextra -Wno-missing-field-initializers -I"$source/tests/cuda/runtime" -I"$source/tests" -I"$source/src" -I"$include" \
    "$work/train.cpp" -o "$work/train" "$driver" "$@" "-Wl,-rpath,$(dirname "$driver")" -lpthread
cd "$work"
mkdir straight killed
(cd straight && ../train >losses 2>log) || { cat straight/log; exit 1; }
cd killed
starts=0
until [ -f done ]; do
    starts=$((starts + 1))
    [ $starts -lt 200 ] || { echo "it does not end"; cat log; exit 1; }
    # the later starts get more time, so that it ends on a slow machine, too
    timeout -s KILL "$(awk "BEGIN { srand($$ + $starts); print 0.05 + rand() * 0.1 * $starts }")" sh -c '../train >>losses 2>>log && touch done' || true
done
# what was lost by a kill is printed again, equally
sort -u losses >all
sort -u ../straight/losses >expected
cmp all expected || { diff expected all | head; exit 1; }
[ $starts -gt 1 ] || { echo "the program was never killed"; exit 1; }
echo "equal after $starts starts"
