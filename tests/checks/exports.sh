#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# exports.sh SHARED STATIC INCLUDE: the shared library exports exactly what the public headers declare, but for those of libraries of
# their own, and the static one defines nothing that is not hs_... or hs__...
# exports.sh SHARED "" HEADER...: the same of a library of its own.
set -eu
shared=$1 static=$2 include=$3
shift 2
headers=$*
[ ! -d "$include" ] || headers=$(find "$include" -name '*.h' ! -name 'tensorflow*.h')
exported=$(nm -D --defined-only "$shared" | awk '$2 ~ /[TDBRV]/ {print $3}' | sort -u)
# a declaration may run over lines: take what stands between HS_API and the first parenthesis
declared=$(cat $headers | tr '\n' ' ' | grep -oE 'HS_API [^;(]*\(' | grep -oE 'hs_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u)
status=0
for name in $exported; do
    echo "$declared" | grep -qx "$name" || { echo "exported, and in no header: $name"; status=1; }
done
for name in $declared; do
    echo "$exported" | grep -qx "$name" || { echo "declared, and not exported: $name"; status=1; }
done
others=
[ -z "$static" ] || others=$(nm --defined-only "$static" 2>/dev/null | awk '$2 ~ /[TDBRC]/ {print $3}' | grep -vE '^hs_|^__?(odr_asan|asan|ubsan|tsan|gcov|llvm)' | sort -u || true)
[ -z "$others" ] || { echo "the static library defines:" $others; status=1; }
[ -n "$exported" ] || { echo "nothing is exported"; status=1; }
[ $status = 0 ] && echo "$(echo "$exported" | wc -l) names are exported, all of them declared"
exit $status
