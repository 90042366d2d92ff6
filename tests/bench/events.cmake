# SPDX-License-Identifier: Apache-2.0
if(NOT HOOKSESS_ISAL) # it compares with ISA-L
  return()
endif()
add_executable(bench_events bench/bench_events.c)
hooksess_compile_options(bench_events)
set_target_properties(bench_events PROPERTIES OUTPUT_NAME events RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_link_libraries(bench_events PRIVATE hooksess::static PkgConfig::hooksess_isal Threads::Threads)
