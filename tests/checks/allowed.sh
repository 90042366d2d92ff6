#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# allowed.sh, to be sourced. check_allowed USES: each line of USES begins a line of $allowed, and the reverse.
check_allowed() {
    listed=$(echo "$allowed" | awk 'NF {print $1}' | sort -u)
    status=0
    for use in $1; do
        echo "$listed" | grep -qx "$use" || { echo "not allowed: $use"; status=1; }
    done
    for use in $listed; do
        echo "$1" | grep -qx "$use" || { echo "allowed, and not there: $use"; status=1; }
    done
    [ $status = 0 ] && echo "no others than the $(echo "$listed" | wc -l) that are allowed"
    return $status
}
