#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-ggml.sh DIR: puts ggml's source into DIR, unless it is there. It comes from the source archive of the Python package
# ggml-python; Python only fetches it.
set -eu
dir=$1 version=0.0.45
[ ! -f "$dir/CMakeLists.txt" ] || exit 0
mkdir -p "$(dirname "$dir")"
tmp=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
echo "ggml-python==$version --hash=sha256:10aac52075cf3c7ef2b00d6c35b1c23f7b018dbeff8ae8df67339b4be1166f05" >"$tmp/wanted"
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" download -q --no-deps --no-binary ggml-python --require-hashes -r "$tmp/wanted" -d "$tmp"
tar -xzf "$tmp/ggml_python-$version.tar.gz" -C "$tmp"
mv "$tmp/ggml_python-$version/vendor/ggml" "$dir"
