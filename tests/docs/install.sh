#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh BUILD PREFIX: installs the build into PREFIX, which becomes a new directory.
set -eu
rm -rf "$2"
DESTDIR= cmake --install "$1" --prefix "$2" >/dev/null
