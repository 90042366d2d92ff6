# SPDX-License-Identifier: Apache-2.0
add_executable(bench_checkpoint bench/bench_checkpoint.c)
hooksess_compile_options(bench_checkpoint)
set_target_properties(bench_checkpoint PROPERTIES OUTPUT_NAME checkpoint
                                                  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_compile_definitions(bench_checkpoint PRIVATE _GNU_SOURCE)
target_include_directories(bench_checkpoint PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(bench_checkpoint PRIVATE hooksess::static)
