#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# package.sh SOURCE: builds the Debian packages, source and binary, checks them with lintian, and builds programs against their
# contents. Needs the packages of `install-packages.sh package`.
set -eu
source=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n '1s/.*(\(.*\)-.*).*/\1/p' "$source/debian/changelog")
mkdir "$work/hooksess-$version" "$work/root"
tar -C "$source" --exclude=./build --exclude=./.git --exclude=__pycache__ -cf - . | tar -C "$work/hooksess-$version" -xf -
tar -C "$work" --exclude="hooksess-$version/debian" -czf "$work/hooksess_$version.orig.tar.gz" "hooksess-$version"
cd "$work/hooksess-$version"
DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-nocheck} parallel=$(nproc)" dpkg-buildpackage --unsigned-source --unsigned-changes
lintian --allow-root --tag-display-limit 0 --fail-on error,warning "$work"/*.changes
for package in "$work"/*.deb; do
    echo "$package"
    dpkg-deb --contents "$package" | awk '$1 !~ /^d/ && $6 !~ /\/(examples|include)\// {print "    " $6, $7, $8}'
    dpkg-deb --extract "$package" "$work/root"
done
# The Python package, with numpy of the system, where it is.
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
    LD_LIBRARY_PATH=$(dirname "$(find "$work/root" -name 'libhooksess.so.0.1')") PYTHONPATH="$work/root/usr/lib/python3/dist-packages" \
        /usr/bin/python3 -c 'import hooksess; assert hooksess.version() == hooksess.__version__; print("hooksess", hooksess.version())'
fi
sh "$source/tests/install/clients.sh" "$work/root/usr" "$source"
