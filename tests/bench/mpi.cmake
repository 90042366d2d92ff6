# SPDX-License-Identifier: Apache-2.0
if(TARGET hooksess_mpi)
  add_executable(bench_mpi bench/bench_mpi.c)
  hooksess_compile_options(bench_mpi)
  set_target_properties(bench_mpi PROPERTIES OUTPUT_NAME mpi RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
  target_link_libraries(bench_mpi PRIVATE hooksess::mpi)
endif()
