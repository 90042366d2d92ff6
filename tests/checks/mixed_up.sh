#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mixed_up.sh INCLUDE...: options of another struct are an error in C++, and a warning that is on by default in C.
set -eu
cc=${CC:-cc} cxx=${CXX:-c++}
includes=
for folder; do includes="$includes -I$folder"; done
compile() { # COMPILER OPTIONS
    printf '#include <hooksess/hooksess.h>\nhs_session *open_one(hs_backend backend)\n{\n    return hs_session_open(backend, %s, NULL);\n}\n' "$2" |
        $1 $includes -fsyntax-only - 2>&1
}
status=0
for right in 'HS_SESSION_OPTIONS(.signals = true)' NULL; do
    compile "$cc -std=c11 -x c -Werror" "$right" || { echo "does not compile as C: $right"; status=1; }
    compile "$cxx -std=c++20 -x c++ -Werror" "$right" || { echo "does not compile as C++: $right"; status=1; }
done
for wrong in 'HS_TRAINING_OPTIONS(.signals = true)' 'HS_SAVER_OPTIONS()' 'HS_HOOKS(hs_progress())'; do
    ! compile "$cc -std=c11 -x c -Werror" "$wrong" >/dev/null || { echo "compiles as C: $wrong"; status=1; }
    ! compile "$cxx -std=c++20 -x c++" "$wrong" >/dev/null || { echo "compiles as C++: $wrong"; status=1; }
done

# The address of a pointer, and of nothing else, is what hs_graph_variable_at takes.
variable() { # COMPILER ARGUMENT
    printf '#include <hooksess/hooksess.h>\nextern float *m, row[4];\nextern const float *fixed;\nextern int64_t n;\nhs_code add(hs_graph *g)\n{\n    return hs_graph_variable_at(g, "m", HS_FLOAT, HS_SHAPE(n), %s);\n}\n' "$2" |
        $1 $includes -Wall -Wextra -Wpedantic -fsyntax-only - 2>&1
}
for right in '&m' '&m, .nonfinite = true'; do
    variable "$cc -std=c11 -x c -Werror" "$right" || { echo "does not compile as C: $right"; status=1; }
    variable "$cxx -std=c++20 -x c++ -Werror" "$right" || { echo "does not compile as C++: $right"; status=1; }
done
for wrong in m '&row' row '&n'; do
    ! variable "$cc -std=c11 -x c" "$wrong" >/dev/null || { echo "compiles as C: $wrong"; status=1; }
    ! variable "$cxx -std=c++20 -x c++" "$wrong" >/dev/null || { echo "compiles as C++: $wrong"; status=1; }
done
! variable "$cxx -std=c++20 -x c++" '&fixed' >/dev/null || { echo "compiles as C++: &fixed"; status=1; }
exit $status
