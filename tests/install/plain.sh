#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plain.sh BUILD SOURCE: installs a build without ISA-L, and checks that nothing in it needs them.
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for component in runtime development tools; do
    DESTDIR= cmake --install "$build" --prefix "$work/prefix" --component "$component" >"$work/install.log"
done
libdir=$(dirname "$(find "$work/prefix" -name 'libhooksess.so' | head -1)")
export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"

fail() {
    echo "FAILED: $*"
    exit 1
}

for file in "$libdir/libhooksess.so" "$work/prefix/bin/hooksess"; do
    needed=$(readelf -d "$file" | grep NEEDED)
    ! echo "$needed" | grep isal || fail "$file needs a library that was left out"
    echo "$needed" | grep -q 'libc\.' || fail "readelf does not list what $file needs"
done
! grep -rl isal "$libdir/pkgconfig" "$libdir/cmake" || fail "a file asks for a library that was left out"

static=$(pkg-config --static --libs hooksess | sed "s|-lhooksess|$libdir/libhooksess.a|")
cc "$source/tests/install/client.c" -o "$work/client" $(pkg-config --cflags hooksess) $static || fail "pkg-config, static"
env -u LD_LIBRARY_PATH "$work/client" >"$work/log" || fail "the client does not run"

mkdir "$work/static"
cp "$source/tests/install/client.c" "$work/static/client.c"
cp "$source/tests/install/client.c" "$work/static/client.cpp"
cp "$source/tests/install/CMakeLists.txt" "$work/static/"
cmake -S "$work/static" -B "$work/static/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DKIND=static >"$work/log" 2>&1 ||
    { cat "$work/log"; fail "find_package, static"; }
cmake --build "$work/static/build" --target client_c >"$work/log" 2>&1 || { cat "$work/log"; fail "find_package, build"; }
"$work/static/build/client_c" || fail "the client of find_package does not run"
