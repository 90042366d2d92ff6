#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run [MIB]: the tests of libhooksess_cuda, the programs of the documents if they were built, and the benchmark, on a machine with CUDA's
# driver. tests/gpu makes the folder.
#
#   MIB     variables in the benchmark. Default: 8192, or what memory and disk have room for
#   TMPDIR  where checkpoints are written. Default: /tmp
set -u
here=$(cd "$(dirname "$0")" && pwd)
export LD_LIBRARY_PATH="$here${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
most() { # FREE: the benchmark needs three times the variables
    [ "$1" -ge $((3 * mib)) ] || mib=$(($1 / 3))
}
mib=${1:-8192}
most "$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)"
most "$(df -Pm "$work" | awk 'NR == 2 { print $4 }')"
status=0
for tests in "$here"/test_*; do
    TMPDIR=$work "$tests" || status=1
done
if [ -x "$here/train" ]; then
    for program in gpu_graphs gpu_loss_scale; do
        (mkdir "$work/$program" && cd "$work/$program" && "$here/$program" && echo "$program passes") || status=1
    done
    TMPDIR=$work sh "$here/resume.sh" "$here/train" || status=1
fi
"$here/bench" "$mib" "$work" || status=1
exit $status
