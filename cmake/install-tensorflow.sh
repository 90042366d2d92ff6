#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-tensorflow.sh VENV [PACKAGE...]: creates the Python environment VENV with TensorFlow and these packages, such as
# 'tensorboard>=2.16'. Installs only what is missing.
set -eu
venv=$1
shift
modules=numpy,tensorflow
for package in "$@"; do
    modules=$modules,${package%%[<>=]*}
done
if ! "$venv/bin/python" -c "import $modules" 2>/dev/null; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q 'tensorflow-cpu>=2.16' numpy "$@"
fi
