# SPDX-License-Identifier: Apache-2.0
add_executable(bench_step bench/bench_step.c)
hooksess_compile_options(bench_step)
set_target_properties(bench_step PROPERTIES OUTPUT_NAME step RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_compile_definitions(
  bench_step PRIVATE _GNU_SOURCE HOOKSESS_VENV_PYTHON="${PROJECT_SOURCE_DIR}/build/venv/bin/python"
                     HOOKSESS_PEER_SCRIPT="${CMAKE_CURRENT_SOURCE_DIR}/bench/peer_step.py")
target_link_libraries(bench_step PRIVATE hooksess::static ${CMAKE_DL_LIBS})
