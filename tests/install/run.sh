#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD SOURCE: installs the library, moves the tree, and builds programs against it alone. Each installed file belongs to
# exactly one component, and the archive of CPack contains the same files.
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}
install_to() { # DIRECTORY [OPTION...]
    directory=$1
    shift
    DESTDIR= cmake --install "$build" --prefix "$directory" "$@" >>"$work/install.log"
}

install_to "$work/first"
mv "$work/first" "$work/moved" # nothing in it may depend on where it was
sh "$source/tests/install/clients.sh" "$work/moved" "$source"
"$work/moved/bin/hooksess" --help >"$work/log" 2>&1 || { cat "$work/log"; fail "the tool, moved"; }
for file in man/man1/hooksess.1 man/man3/hooksess-graph.3 man/man3/hs_graph_new.3 man/man7/hooksess-conventions.7 \
    bash-completion/completions/hooksess; do
    [ -s "$work/moved/share/$file" ] || fail "share/$file is not installed"
done

for component in runtime development tools cuda testing tf1 tensorflow mpi documentation; do
    install_to "$work/$component" --component $component
    cp -an "$work/$component/." "$work/all"
    (cd "$work/$component" && find . ! -type d) >>"$work/files"
done
[ -z "$(sort "$work/files" | uniq -d)" ] || fail "in two components: $(sort "$work/files" | uniq -d)"
diff -r "$work/moved" "$work/all" || fail "the components are not what a whole installation is"
case $(cd "$work/runtime" && find . -type f) in
./lib*/libhooksess.so.*) ;;
*) fail "the component runtime is not the shared library alone: $(find "$work/runtime" -type f)" ;;
esac
echo "ok: components"

mkdir "$work/untested"
cp -a "$work/runtime/." "$work/development/." "$work/untested"
mkdir "$work/find"
cat >"$work/find/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(find LANGUAGES C)
find_package(hooksess 0.1 REQUIRED)
if(NOT TARGET hooksess::hooksess)
  message(FATAL_ERROR "no target hooksess::hooksess")
endif()
find_package(hooksess 0.1 QUIET COMPONENTS testing)
if(hooksess_FOUND)
  message(FATAL_ERROR "found a testing library that is not installed")
endif()
END
cmake -S "$work/find" -B "$work/find/build" -DCMAKE_PREFIX_PATH="$work/untested" >"$work/log" 2>&1 || { cat "$work/log"; fail "without testing"; }
echo "ok: runtime and development without testing"

# With the generator of the build, cpack would first build all targets.
cpack --config "$build/CPackConfig.cmake" -B "$work/cpack" -D CPACK_CMAKE_GENERATOR=Ninja >"$work/log" || { cat "$work/log"; fail cpack; }
(cd "$work/cpack" && sha256sum --quiet -c ./*.sha256)
mkdir "$work/unpacked"
tar -xzf "$work"/cpack/hooksess-*.tar.gz -C "$work/unpacked" --strip-components=1
diff -r "$work/moved" "$work/unpacked" || fail "the archive of cpack is not what is installed"
echo "ok: cpack"
