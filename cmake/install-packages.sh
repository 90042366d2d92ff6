#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-packages.sh build|train|gpt|libtorch|ggml|mpi|tensorflow|test|nightly|package|cross...: installs what is missing for it, on
# Debian. Runs as root, or with sudo.
set -eu
packages="cmake gcc libc6-dev libisal-dev libprotobuf-c-dev make pkg-config protobuf-c-compiler zlib1g-dev"
for what in "$@"; do
    case $what in
    build) ;;
    nightly) packages="$packages codespell gfortran libclang-rt-dev rustc zsh" ;;
    train) packages="$packages dataset-fashion-mnist libopenblas-dev python3-venv" ;;
    gpt) packages="$packages bible-kjv fortunes fortunes-min libopenblas-dev" ;;
    libtorch) packages="$packages dataset-fashion-mnist g++ libtorch-dev" ;;
    ggml) packages="$packages ca-certificates dataset-fashion-mnist g++ python3 python3-venv" ;;
    mpi) packages="$packages libopenmpi-dev openmpi-bin" ;;
    tensorflow) packages="$packages ca-certificates python3 python3-venv" ;;
    test) packages="$packages ca-certificates clang g++ groff-base libcmocka-dev mandoc protobuf-compiler python3 python3-venv"
          packages="$packages chromium chromium-driver fonts-dejavu-core git iproute2 procps" ;;
    package) packages="$packages build-essential debhelper dh-python libcmocka-dev libopenmpi-dev lintian python3 python3-numpy" ;;
    cross) packages="$packages dpkg-dev g++ g++-aarch64-linux-gnu gcc-aarch64-linux-gnu musl-tools python3 qemu-user xz-utils" ;;
    *) echo "install-packages.sh: '$what' is unknown: choose build, train, gpt, libtorch, ggml, mpi, tensorflow, test, nightly, package or cross" >&2; exit 2 ;;
    esac
done

command -v dpkg-query >/dev/null || { echo "This system is not Debian or Ubuntu. Install packages like these, then build with cmake: $packages" >&2; exit 1; }
missing=
for package in $packages; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "Packages are missing, and sudo is not installed. As root, run: apt-get install$missing" >&2; exit 1; }
    sudo=sudo
fi
echo "Installing$missing"
$sudo apt-get update -q
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
