#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the path of nvcc: in the path, in /usr/local/cuda, or where tests/nightly installs it. Prints nothing if there is none.
for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$(dirname "$0")"/../../build/nvcc/lib/python3*/site-packages/nvidia/*/bin/nvcc; do
    [ ! -x "$nvcc" ] || { echo "$nvcc"; break; }
done
