#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lines.sh PROGRAM: runs it on a new directory.
set -eu
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" "$directory" 2>"$directory/log" || { cat "$directory/log"; exit 1; }
