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

# The memory itself, of numbers of its type, is what hs_graph_variable and hs_graph_value take.
memory() { # COMPILER FUNCTION DTYPE AND DATA
    printf '#include <hooksess/hooksess.h>\nextern float *m, row[4], plane[2][4];\nextern void *any;\nextern unsigned char *bytes;\nextern short *half;\nextern double d;\nstruct point { float x, y; };\nextern struct point *points;\nextern int64_t n;\nextern hs_dtype unknown;\nhs_code add(hs_graph *g)\n{\n    return %s(g, "m", %s, HS_SHAPE(n, 2), %s);\n}\n' "$2" "${3%% *}" "${3#* }" |
        $1 $includes -Wall -Wextra -Wpedantic -Wconversion -fsyntax-only - 2>&1
}
for function in hs_graph_variable hs_graph_value; do
    for right in 'HS_FLOAT m' 'HS_FLOAT m + 1' 'HS_FLOAT row' 'HS_FLOAT plane' 'HS_FLOAT &plane' 'HS_FLOAT any' 'HS_FLOAT bytes' 'HS_FLOAT points' \
        'HS_COMPLEX64 m' 'HS_DOUBLE &d' 'HS_HALF half' 'HS_INT64 &n' 'HS_UINT64 &n' 'unknown m' 'unknown &d'; do
        memory "$cc -std=c11 -x c -Werror" $function "$right" || { echo "does not compile as C: $function: $right"; status=1; }
        memory "$cxx -std=c++20 -x c++ -Werror" $function "$right" || { echo "does not compile as C++: $function: $right"; status=1; }
    done
    for wrong in 'HS_FLOAT &m' 'HS_FLOAT &any' 'HS_FLOAT &d' 'HS_DOUBLE m' 'HS_INT32 &n' 'HS_INT64 &d' 'HS_FLOAT &n' 'unknown &m'; do
        ! memory "$cc -std=c11 -x c" $function "$wrong" >/dev/null || { echo "compiles as C: $function: $wrong"; status=1; }
        ! memory "$cxx -std=c++20 -x c++" $function "$wrong" >/dev/null || { echo "compiles as C++: $function: $wrong"; status=1; }
    done
done

# Plain bytes are not the address of a pointer.
bytes() { # COMPILER DATA
    printf '#include <hooksess/hooksess.h>\nstruct rng { uint64_t a[4]; };\nextern struct rng rng, *other, both[2];\nextern void *any;\nextern char text[8];\nhs_code add(hs_graph *g)\n{\n    return hs_graph_bytes(g, "m", %s, 32);\n}\n' "$2" |
        $1 $includes -Wall -Wextra -Wpedantic -fsyntax-only - 2>&1
}
for right in '&rng' other any both '&both' text '&text' 'other + 1'; do
    bytes "$cc -std=c11 -x c -Werror" "$right" || { echo "does not compile as C: bytes: $right"; status=1; }
    bytes "$cxx -std=c++20 -x c++ -Werror" "$right" || { echo "does not compile as C++: bytes: $right"; status=1; }
done
for wrong in '&other' '&any'; do
    ! bytes "$cc -std=c11 -x c" "$wrong" >/dev/null || { echo "compiles as C: bytes: $wrong"; status=1; }
    ! bytes "$cxx -std=c++20 -x c++" "$wrong" >/dev/null || { echo "compiles as C++: bytes: $wrong"; status=1; }
done

# What the C++ wrapper saves as bytes and as text says what it does not take.
saved() { # CALL
    printf '#include <hooksess/hooksess.hpp>\n#include <random>\nextern std::vector<float> v;\nextern std::mt19937 engine;\nextern struct point { float x, y; } point;\nvoid add(hs::graph &g)\n{\n    g.%s;\n}\n' "$1" |
        $cxx -std=c++17 -x c++ $includes -Wall -Wextra -fsyntax-only - 2>&1
}
for right in 'state("m", engine)' 'state("m", engine, HS_STATE_PER_RANK)' 'bytes("m", point)' 'bytes("m", point, HS_STATE_PER_RANK)'; do
    saved "$right" || { echo "does not compile as C++: $right"; status=1; }
done
saved 'bytes("m", v)' | grep -q 'for a std::vector use variable()' || { echo "no remedy is named: a vector as bytes"; status=1; }
saved 'variable("m", point)' | grep -q 'no dtype has elements of this type; use float' || { echo "no remedy is named: a struct as a variable"; status=1; }
saved 'state("m", point)' | grep -q 'the type must have << and >>; use bytes()' || { echo "no remedy is named: a struct as text"; status=1; }

# An optimizing gcc knows the size of an array, and refuses a larger constant shape.
room() { # COMPILER SHAPE
    printf '#include <hooksess/hooksess.h>\nstatic float row[8];\nhs_code add(hs_graph *g, int64_t n)\n{\n    return n ? hs_graph_variable(g, "m", HS_FLOAT, %s, row) : hs_graph_value(g, "v", HS_FLOAT, %s, row + 4);\n}\n' "$2" "$3" |
        $1 $includes -O1 -c -o /dev/null - 2>&1
}
several() { # COMPILER ELEMENTS
    printf '#include <hooksess/hooksess.h>\nstatic float row[8], column[8], corner[8];\nhs_code add(hs_graph *g)\n{\n    hs_graph_variable(g, "r", HS_FLOAT, HS_SHAPE(8), row);\n    hs_graph_variable(g, "c", HS_FLOAT, HS_SHAPE(2, 4), column);\n    return hs_graph_variable(g, "k", HS_FLOAT, HS_SHAPE(%s), corner);\n}\n' "$2" |
        $1 $includes -O2 -c -o /dev/null - 2>&1
}
for language in "$cc -std=c11 -x c" "$cxx -std=c++20 -x c++"; do
    several "$language -Werror" 8 || { echo "does not compile: several arrays of their shapes"; status=1; }
    room "$language -Werror" 'HS_SHAPE(2, 4)' 'HS_SHAPE(n)' || { echo "does not compile: an array of its shape"; status=1; }
    ! $language -dM -E - </dev/null | grep -q __clang__ || continue
    ! room "$language" 'HS_SHAPE(3, 3)' 'HS_SCALAR' >/dev/null || { echo "compiles: an array smaller than its shape"; status=1; }
    ! several "$language" 9 >/dev/null || { echo "compiles: one of several arrays, smaller than its shape"; status=1; }
    ! room "$language" 'HS_SCALAR' 'HS_SHAPE(5)' >/dev/null || { echo "compiles: the rest of an array that is smaller"; status=1; }
done
exit $status
