#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda.sh LIBRARY INCLUDE...: the lines that C and C++ share, and the C++ wrapper, also compile with nvcc without a warning, and run.
# So does a program of cuda.h. What src/cuda declares of the driver is what CUDA's own header declares.
# So does examples/cuda, where cuBLAS is. Skipped where there is no nvcc (find_nvcc.sh).
set -eu
library=$1
shift
checks=$(dirname "$0")
nvcc=$(sh "$checks/find_nvcc.sh")
[ -n "$nvcc" ] || { echo "skipped: cuda: there is no nvcc"; exit 77; }
includes=
for folder; do includes="$includes -I$folder"; done
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
for program in lines wrapper; do
    "$nvcc" -x cu -std=c++20 $includes -Xcompiler -Wall,-Wextra,-Werror -o "$directory/$program" "$checks/$program.cpp" \
        "-L$(dirname "$nvcc")/../lib" "-L$(dirname "$library")" -lhooksess -Xlinker "-rpath,$(dirname "$library")"
    sh "$checks/lines.sh" "$directory/$program"
done
"$nvcc" -std=c++17 $includes -Xcompiler -Wall,-Wextra,-Werror -c -o "$directory/cuda.o" "$checks/cuda.cu"
trainer=$checks/../../examples/trainer
if [ -f "$(dirname "$nvcc")/../include/cublas_v2.h" ]; then
    "$nvcc" -std=c++17 $includes "-I$trainer" -Xcompiler -Wall,-Wextra,-Werror -c -o "$directory/example.o" "$trainer/../cuda/cuda.cu"
fi
src=$checks/../../src
sed -n 's/^    \(CU[A-Z_]*\) = [0-9]*,$/SAME_CONSTANT(\1);/p' "$src/cuda/driver.h" >"$directory/constants.inc"
[ -s "$directory/constants.inc" ]
"$nvcc" -x cu -std=c++20 $includes "-I$src" "-I$directory" -c -o "$directory/driver.o" "$checks/cuda_driver.cpp"
