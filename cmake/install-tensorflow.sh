#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-tensorflow.sh VENV [PACKAGE...]: TensorFlow in a Python environment of its own, and what else is named, such as
# 'tensorboard>=2.16'. What is there is left as it is.
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
