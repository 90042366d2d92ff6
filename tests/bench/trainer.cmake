# SPDX-License-Identifier: Apache-2.0
if(TARGET trainer_parts)
  add_executable(bench_trainer bench/bench_trainer.c)
  hooksess_compile_options(bench_trainer)
  set_target_properties(bench_trainer PROPERTIES OUTPUT_NAME trainer
                                                 RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
  target_link_libraries(bench_trainer PRIVATE trainer_parts)
endif()
