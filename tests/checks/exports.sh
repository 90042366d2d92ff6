#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# exports.sh VERSION SHARED STATIC INCLUDE: the shared library has the soname LIBRARY.so.VERSION. It exports exactly what the public
# headers declare, except functions of other libraries, and each symbol has the version HOOKSESS_VERSION. The static library defines
# nothing that is not hs_... or hs__...
# exports.sh VERSION SHARED STATIC HEADER...: the same for another library. STATIC "": it has no static library.
set -eu
version=$1 shared=$2 static=$3 include=$4
shift 3
headers=$*
[ ! -d "$include" ] || headers=$(find "$include" -name '*.h' ! -name 'tensorflow*.h' ! -name cuda.h ! -name mpi.h ! -name testing.h ! -name simulation.h ! -path "$include/hooksess/tf1/*")
status=0
library=$(basename "$shared")
soname=$(readelf -d "$shared" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = "${library%%.so*}.so.$version" ] || { echo "the soname is '$soname'"; status=1; }
# columns: number, value, size, type, binding, visibility, section, name@@version; the version itself is an absolute symbol
symbols=$(readelf --dyn-syms -W "$shared" | awk '$1 ~ /^[0-9]+:$/ && $5 != "LOCAL" && $7 != "UND" && $7 != "ABS" {print $8}')
exported=$(echo "$symbols" | sed 's/@.*//' | sort -u)
for symbol in $symbols; do
    [ "${symbol#*@}" = "@HOOKSESS_$version" ] || { echo "not of version HOOKSESS_$version: $symbol"; status=1; }
done
# a declaration may run over lines: take what stands between HS_API and the first parenthesis
declared=$(cat $headers | tr '\n' ' ' | grep -oE 'HS_API [^;(]*\(' | grep -oE 'hs_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u)
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
[ $status = 0 ] && echo "$(echo "$exported" | wc -l) names are exported, all of them declared and of version HOOKSESS_$version"
exit $status
