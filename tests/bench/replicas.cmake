# SPDX-License-Identifier: Apache-2.0
add_executable(bench_replicas bench/bench_replicas.c bench/rank_save.c bench/tcp_ranks.c)
hooksess_compile_options(bench_replicas)
set_target_properties(bench_replicas PROPERTIES OUTPUT_NAME replicas
                                                RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_compile_definitions(bench_replicas PRIVATE _GNU_SOURCE)
target_include_directories(bench_replicas PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(bench_replicas PRIVATE hooksess::testing_static hooksess::static Threads::Threads ${CMAKE_DL_LIBS})
