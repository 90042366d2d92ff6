# SPDX-License-Identifier: Apache-2.0
add_executable(bench_queue bench/bench_queue.c)
hooksess_compile_options(bench_queue)
set_target_properties(bench_queue PROPERTIES OUTPUT_NAME queue RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_link_libraries(bench_queue PRIVATE hooksess::static Threads::Threads)
