#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# example.sh TOOL EXAMPLE: examples/libtorch resumes exactly on the real data.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir data
for packed in /usr/share/datasets/fashion-mnist/*.gz; do
    gunzip -c "$packed" >"data/$(basename "$packed" .gz)"
done
"$1" verify-resume --steps 40 -- "$2" data run
