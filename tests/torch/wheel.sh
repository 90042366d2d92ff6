#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wheel.sh PYTHON BUILD: the tests of hooksess/torch.hpp with the LibTorch of the Python package torch.
set -eu
python=$1 build=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
root=$("$python" -c 'import torch; print(torch.__path__[0])')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CXX:-c++}" -std=c++20 -Wall -Wextra -O1 -Iinclude -isystem "$root/include" -isystem "$root/include/torch/csrc/api/include" \
    tests/torch/train.cpp -o "$work/train" -L"$build/src" -lhooksess -L"$root/lib" -ltorch -ltorch_cpu -lc10 \
    "-Wl,-rpath,$root/lib:$build/src" -pthread
TRAIN=$work/train "$python" tests/torch/test_torch.py -v
