#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cross.sh arm64|musl: builds the library for arm64 and glibc, or for this processor and musl, and runs the unit tests of formats,
# checkpoint and session: for arm64 under qemu. Needs the packages of `install-packages.sh build cross`. protobuf-c, zlib and
# cmocka are compiled from Debian's sources into build/cross/NAME/root; ISA-L is left out.
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc)
tests='^(formats|checkpoint|session)/'
without='^$'
case ${1:-} in
arm64)
    host=aarch64-linux-gnu
    cc=$host-gcc cxx=$host-g++
    # These start their own program again, which only the kernel could emulate; and use threads in a forked child, in which
    # qemu 7.2 fails ("cpu == current_cpu").
    without='^session/(signal_rules|forked_child)$'
    system="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;/usr/$host"
    ;;
musl)
    cc=musl-gcc cxx=c++ # No test in C++ is built.
    system="-DCMAKE_EXE_LINKER_FLAGS=-static -DCMAKE_C_STANDARD_LIBRARIES=$PWD/build/cross/musl/root/lib/for_libgcc.o"
    ;;
*)
    echo "usage: $0 arm64|musl" >&2
    exit 2
    ;;
esac
work=$PWD/build/cross/$1
root=$work/root
export PKG_CONFIG_LIBDIR="$root/lib/pkgconfig"

# unpack PACKAGE: downloads the source of a Debian package into $work/PACKAGE.
unpack() {
    mkdir "$work/$1" "$work/apt/$1"
    (cd "$work/apt/$1" && apt-get -q source --download-only "$1")
    tar -xf "$work/apt/$1"/*.orig.tar.*[z2] -C "$work/$1" --strip-components=1
}

# module NAME LIBRARY: writes a file for pkg-config.
module() {
    mkdir -p "$PKG_CONFIG_LIBDIR"
    printf 'Name: %s\nDescription: static\nVersion: 1\nLibs: -L%s -l%s\nCflags: -I%s\n' "$1" "$root/lib" "$2" "$root/include" \
        >"$PKG_CONFIG_LIBDIR/$1.pc"
}

if [ ! -e "$root/complete" ]; then
    rm -rf "$work"
    mkdir -p "$root/include/protobuf-c" "$root/lib" "$work/apt/lists/partial"
    # Debian's libgcc, with which musl-gcc links, is that of glibc. It does without this function, if it fails.
    echo 'int _dl_find_object(void *p, void *found) { (void)p, (void)found; return -1; }' | $cc -c -x c -o "$root/lib/for_libgcc.o" -
    # Sources from where the system has its packages: its own list may have none. Those of the release itself are enough.
    # shellcheck disable=SC2016 # apt-get expands the format
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' | sort -u |
        grep -v security >"$work/apt/sources.list"
    cat >"$work/apt/apt.conf" <<END
Dir::Etc::SourceList "$work/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$work/apt/lists";
APT::Sandbox::User "root";
END
    export APT_CONFIG="$work/apt/apt.conf"
    apt-get -q update
    unpack zlib
    (cd "$work/zlib" && CC=$cc ./configure --static --prefix="$root" && make -j "$jobs" install)
    unpack protobuf-c
    $cc -O2 -c -I"$work/protobuf-c" -o "$work/protobuf-c.o" "$work/protobuf-c/protobuf-c/protobuf-c.c"
    ar rcs "$root/lib/libprotobuf-c.a" "$work/protobuf-c.o"
    cp "$work/protobuf-c/protobuf-c/protobuf-c.h" "$root/include/protobuf-c"
    module libprotobuf-c protobuf-c
    unpack cmocka
    # Its project builds a shared library, in which the tests cannot replace functions. Of the project, only config.h is used.
    # shellcheck disable=SC2086 # $system is several words
    cmake -S "$work/cmocka" -B "$work/cmocka-build" $system -DCMAKE_C_COMPILER=$cc -DCMAKE_BUILD_TYPE=Release -DWITH_EXAMPLES=OFF
    $cc -O2 -c -DHAVE_CONFIG_H -I"$work/cmocka-build" -I"$work/cmocka/include" -o "$work/cmocka.o" "$work/cmocka/src/cmocka.c"
    ar rcs "$root/lib/libcmocka.a" "$work/cmocka.o"
    cp "$work/cmocka/include/cmocka.h" "$root/include"
    module cmocka cmocka
    touch "$root/complete"
fi

# shellcheck disable=SC2086
cmake -S . -B "$work/build" $system -DCMAKE_C_COMPILER=$cc -DCMAKE_CXX_COMPILER=$cxx -DCMAKE_BUILD_TYPE=Release \
    -DHOOKSESS_TESTS=ON -DHOOKSESS_ISAL=OFF -DHOOKSESS_EXAMPLES=OFF -DHOOKSESS_TENSORFLOW=OFF -DHOOKSESS_MPI=OFF \
    -DHOOKSESS_MAN=OFF -DHOOKSESS_WERROR=ON
targets=$(ctest --test-dir "$work/build" --show-only --label-regex '^unit$' --tests-regex "$tests" --exclude-regex "$without" |
    sed -n 's|.*Test *#[0-9]*: \([^ ]*\).*|test_\1|p' | tr / _)
# shellcheck disable=SC2086
cmake --build "$work/build" --parallel "$jobs" --target $targets
HOOKSESS_TEST_SECS=1500 ctest --test-dir "$work/build" --label-regex '^unit$' --tests-regex "$tests" --exclude-regex "$without" \
    --output-on-failure --parallel "$jobs"
