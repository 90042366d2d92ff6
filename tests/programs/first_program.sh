#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# first_program.sh C_PROGRAM CPP_PROGRAM: both print the same line, also when each is started again with the other's checkpoints.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir "$directory/c" "$directory/cpp"
run() { # FOLDER PROGRAM
    (cd "$directory/$1" && "$2" 2>log) || { cat "$directory/$1/log"; exit 1; }
}
expected=$(run c "$1")
echo "$expected"
echo "$expected" | grep -q '^y = '
[ "$(run cpp "$2")" = "$expected" ]
[ "$(run c "$2")" = "$expected" ]
[ "$(run cpp "$1")" = "$expected" ]
grep -q 'restored' "$directory/c/log" "$directory/cpp/log"
