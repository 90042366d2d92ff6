#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# without_python.sh SOURCE: without Python, a C++ compiler and cmocka, the library can be configured. It says what it leaves out
# for them, and installs no man pages. If the tests are demanded, it says why there are none, and fails.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/pc"
for library in libprotobuf-c zlib libisal; do
    cp "$(pkg-config --variable=pcfiledir $library)/$library.pc" "$work/pc"
done
configure() {
    PKG_CONFIG_PATH='' PKG_CONFIG_LIBDIR="$work/pc" cmake -S "$source" -B "$work/build" -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON \
        -DCMAKE_CXX_COMPILER=NOTFOUND -DHOOKSESS_TENSORFLOW=OFF "$@" >"$work/log" 2>&1
}
fail() {
    cat "$work/log"
    echo "FAILED: $1"
    exit 1
}
source=$1
needs="cmocka (Debian: libcmocka-dev), a C++ compiler, Python"
configure || fail "it cannot be configured"
grep "no man pages" "$work/log" || fail "it does not say that there are no man pages"
grep -F "No tests, as they need $needs" "$work/log" || fail "it does not say why there are no tests"
! grep -q "man/man3\|bash-completion" "$work/build/cmake_install.cmake" || fail "it installs man pages or completions"
! configure -DHOOKSESS_TESTS=ON || fail "it is configured without what the tests need"
grep -F "The tests need $needs" "$work/log" || fail "it does not say what the tests need"
