# SPDX-License-Identifier: Apache-2.0
add_executable(bench_histogram bench/bench_histogram.c)
hooksess_compile_options(bench_histogram)
set_target_properties(bench_histogram PROPERTIES OUTPUT_NAME histogram
                                                 RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_link_libraries(bench_histogram PRIVATE hooksess::static m)
