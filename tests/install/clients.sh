#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clients.sh PREFIX SOURCE: builds and runs programs against the library that is installed below PREFIX: with find_package and with
# pkg-config, shared and static, from C and from C++.
set -eu
prefix=$(cd "$1" && pwd) source=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
libdir=$(dirname "$(find "$prefix"/lib* -name libhooksess.so | head -1)")
export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"

try() { # NAME COMMAND...: quiet unless it fails
    name=$1
    shift
    "$@" >"$work/log" 2>&1 || { echo "FAILED: $name"; cat "$work/log"; exit 1; }
    echo "ok: $name"
}

hook=$source/examples/custom_hook
try "find_package, configure" cmake -S "$hook" -B "$work/alone" -DCMAKE_PREFIX_PATH="$prefix"
try "find_package, build" cmake --build "$work/alone"
try "find_package, run" "$work/alone/custom_hook" "$work/model"
try "find_package, run again" "$work/alone/custom_hook" "$work/model"
grep -q "already done" "$work/log" || { echo "FAILED: the second run did not find the first"; cat "$work/log"; exit 1; }

test=$source/examples/hook_test
try "hook_test, configure" cmake -S "$test" -B "$work/test" -DCMAKE_PREFIX_PATH="$prefix"
try "hook_test, build" cmake --build "$work/test"
try "hook_test, run" ctest --test-dir "$work/test"
try "hook_test, pkg-config" cc "$test/best_loss.c" "$test/test_best_loss.c" -o "$work/hook_test" $(pkg-config --cflags --libs hooksess_testing) -lm
try "hook_test, pkg-config, run" "$work/hook_test" "$work/best_loss.txt"

ahead=$source/examples/read_ahead
try "read_ahead, configure" cmake -S "$ahead" -B "$work/ahead" -DCMAKE_PREFIX_PATH="$prefix"
try "read_ahead, build" cmake --build "$work/ahead"
try "read_ahead, run" "$work/ahead/read_ahead" "$work/line"
grep -q "restored the best state" "$work/log" || { echo "FAILED: read_ahead did not end with the best"; cat "$work/log"; exit 1; }

textfile=$source/examples/prometheus
try "prometheus, configure" cmake -S "$textfile" -B "$work/textfile" -DCMAKE_PREFIX_PATH="$prefix"
try "prometheus, build" cmake --build "$work/textfile"
try "prometheus, run" "$work/textfile/prometheus" "$work/training.prom"
grep -q "^training_train_loss " "$work/training.prom" || { echo "FAILED: prometheus wrote no loss"; exit 1; }

adopt=$source/examples/adopt
mkdir "$work/adopted"
try "adopt, configure" cmake -S "$adopt" -B "$work/adopt" -DCMAKE_PREFIX_PATH="$prefix"
try "adopt, build" cmake --build "$work/adopt"
(cd "$work/adopted" && "$work/adopt/adopt_after" 2>"$work/log" >"$work/after.txt") || { echo "FAILED: adopt"; cat "$work/log"; exit 1; }
"$work/adopt/adopt_before" | cmp - "$work/after.txt" || { echo "FAILED: adopt: its losses are not those of before"; exit 1; }
echo "ok: adopt, run"

if [ -x "$prefix/bin/hooksess" ]; then
    try "the tool" "$prefix/bin/hooksess" checkpoint verify "$work/model"
fi

for kind in shared static; do
    mkdir "$work/$kind"
    cp "$source/tests/install/client.c" "$work/$kind/client.c"
    cp "$source/tests/install/client.c" "$work/$kind/client.cpp"
    cp "$source/tests/install/CMakeLists.txt" "$work/$kind/"
    try "find_package $kind, configure" cmake -S "$work/$kind" -B "$work/$kind/build" -DCMAKE_PREFIX_PATH="$prefix" -DKIND=$kind
    try "find_package $kind, build" cmake --build "$work/$kind/build"
    try "find_package $kind, run C" "$work/$kind/build/client_c"
    try "find_package $kind, run C++" "$work/$kind/build/client_cpp"
done
cp -r "$test" "$work/static_test"
sed -i 's/COMPONENTS testing/COMPONENTS static testing/; s/hooksess::testing hooksess::hooksess/hooksess::testing_static/' "$work/static_test/CMakeLists.txt"
try "hook_test static, configure" cmake -S "$work/static_test" -B "$work/static_test/build" -DCMAKE_PREFIX_PATH="$prefix"
try "hook_test static, build" cmake --build "$work/static_test/build"
try "hook_test static, run" env -u LD_LIBRARY_PATH "$work/static_test/build/hook_test" "$work/best_loss.txt"

for kind in "" "static "; do
    folder=$work/tf1${kind% }
    mkdir "$folder"
    cp "$source/tests/install/tf1.c" "$folder/client.c"
    cp "$source/tests/install/tf1.c" "$folder/client.cpp"
    sed "s/COMPONENTS \${KIND}/COMPONENTS ${kind}tf1/; s/::\${KIND}/::tf1${kind:+_static}/; /^find_package/a set(CMAKE_CXX_STANDARD 20)" "$source/tests/install/CMakeLists.txt" >"$folder/CMakeLists.txt"
    try "find_package ${kind}tf1, configure" cmake -S "$folder" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix"
    try "find_package ${kind}tf1, build" cmake --build "$folder/build"
    try "find_package ${kind}tf1, run C" "$folder/build/client_c" "$folder/run"
    try "find_package ${kind}tf1, run C++" "$folder/build/client_cpp" "$folder/run"
    [ -f "$folder/run/model.ckpt-6.index" ] || { echo "FAILED: tf1 did not save step 6"; exit 1; }
done
try "tf1, pkg-config" cc "$source/tests/install/tf1.c" -o "$work/supervised" $(pkg-config --cflags --libs hooksess_tf1)
try "tf1, pkg-config, run" "$work/supervised" "$work/supervised_run"

for compiler in cc c++; do
    language=$([ $compiler = cc ] && echo c || echo c++)
    try "pkg-config shared, $language" $compiler -x $language "$source/tests/install/client.c" -x none -o "$work/client" $(pkg-config --cflags --libs hooksess)
    try "pkg-config shared, $language, run" "$work/client"
    # the static library by name: -lhooksess would find the shared one beside it
    static=$(pkg-config --static --libs hooksess | sed "s|-lhooksess|$libdir/libhooksess.a|")
    try "pkg-config static, $language" $compiler -x $language "$source/tests/install/client.c" -x none -o "$work/client" $(pkg-config --cflags hooksess) $static
    try "pkg-config static, $language, run" env -u LD_LIBRARY_PATH "$work/client"
done

if [ -n "$(find "$libdir" -name 'libhooksess_tensorflow.so')" ]; then
    mkdir "$work/tensorflow"
    cp "$source/tests/install/tensorflow.c" "$work/tensorflow/client.c"
    cp "$source/tests/install/tensorflow.c" "$work/tensorflow/client.cpp"
    cp "$source/tests/install/CMakeLists.txt" "$work/tensorflow/"
    try "find_package tensorflow, configure" cmake -S "$work/tensorflow" -B "$work/tensorflow/build" -DCMAKE_PREFIX_PATH="$prefix" -DKIND=tensorflow
    try "find_package tensorflow, build" cmake --build "$work/tensorflow/build"
    try "find_package tensorflow, run C" "$work/tensorflow/build/client_c"
    try "find_package tensorflow, run C++" "$work/tensorflow/build/client_cpp"
    graph=$source/examples/tensorflow
    try "train_graph, configure" cmake -S "$graph" -B "$work/graph" -DCMAKE_PREFIX_PATH="$prefix"
    try "train_graph, build" cmake --build "$work/graph"
    try "train_graph, run" "$work/graph/train_graph" --help
    try "tensorflow, without its library" env TENSORFLOW_ROOT=/nowhere "$work/tensorflow/build/client_c" missing
fi

if [ -n "$(find "$libdir" -name 'libhooksess_mpi.so')" ] && command -v mpicc >/dev/null; then
    several=$source/examples/replicas
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    try "replicas, configure" cmake -S "$several" -B "$work/several" -DCMAKE_PREFIX_PATH="$prefix"
    try "replicas, build" cmake --build "$work/several"
    try "replicas, run" mpirun -n 2 --oversubscribe "$work/several/replicas" "$work/run" 10
    try "replicas, pkg-config" mpicc "$several/replicas.c" -o "$work/replicas" $(pkg-config --cflags --libs hooksess_mpi hooksess) -lm
    try "replicas, pkg-config, run" mpirun -n 2 --oversubscribe "$work/replicas" "$work/run" 20
fi

mkdir "$work/wrong"
printf 'cmake_minimum_required(VERSION 3.22)\nproject(wrong C)\nfind_package(hooksess 0.2 REQUIRED)\n' >"$work/wrong/CMakeLists.txt"
if cmake -S "$work/wrong" -B "$work/wrong/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1; then
    echo "FAILED: a later version was asked for and found"
    exit 1
fi
echo "ok: a version that is not there is not found"
