#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# without_python.sh SOURCE: without Python, the library can be configured, says that it has no man pages, and does not install them.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -S "$1" -B "$work" -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON -DHOOKSESS_TESTS=OFF -DHOOKSESS_EXAMPLES=OFF -DHOOKSESS_TENSORFLOW=OFF \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep "no man pages" "$work/log" || { cat "$work/log"; echo "FAILED: it does not say that there are no man pages"; exit 1; }
if grep -q "man/man3\|bash-completion" "$work/cmake_install.cmake"; then
    echo "FAILED: it installs man pages or completions"
    exit 1
fi
