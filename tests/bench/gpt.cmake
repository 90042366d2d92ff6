# SPDX-License-Identifier: Apache-2.0
find_package(OpenMP COMPONENTS C)
if(TARGET gpt_parts AND OpenMP_C_FOUND)
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-march=native HOOKSESS_HAVE_MARCH_NATIVE)
  add_executable(bench_gpt bench/bench_gpt.c bench/gpt_naive.c)
  hooksess_compile_options(bench_gpt)
  set_source_files_properties(bench/gpt_naive.c PROPERTIES COMPILE_OPTIONS
                                                           "-O3;-ffast-math;$<$<BOOL:${HOOKSESS_HAVE_MARCH_NATIVE}>:-march=native>;${OpenMP_C_FLAGS}")
  set_target_properties(bench_gpt PROPERTIES OUTPUT_NAME gpt RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
  target_compile_definitions(bench_gpt PRIVATE GPT="$<TARGET_FILE:gpt>"
                                               GPT_TEXT="${PROJECT_SOURCE_DIR}/examples/gpt/model.c")
  target_link_options(bench_gpt PRIVATE -Wl,--wrap=cblas_sgemm)
  target_link_libraries(bench_gpt PRIVATE gpt_parts OpenMP::OpenMP_C)
endif()
