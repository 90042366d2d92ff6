#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# resume.sh PROGRAM: the program is killed at random times, as often as it takes, and must print the losses of an undisturbed run.
set -eu
program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir straight killed
(cd straight && "$program" >losses 2>log) || { cat straight/log; exit 1; }
cd killed
starts=0
until [ -f done ]; do
    starts=$((starts + 1))
    [ $starts -lt 200 ] || { echo "it does not end"; cat log; exit 1; }
    # the later starts get more time, so that it ends on a slow machine, too
    timeout -s KILL "$(awk "BEGIN { srand($$ + $starts); print 0.05 + rand() * 0.1 * $starts }")" sh -c '"$0" >>losses 2>>log && touch done' "$program" || true
done
# what was lost by a kill is printed again, equally
sort -u losses >all
sort -u ../straight/losses >expected
cmp all expected || { diff expected all | head; exit 1; }
[ $starts -gt 1 ] || { echo "the program was never killed"; exit 1; }
echo "equal after $starts starts"
