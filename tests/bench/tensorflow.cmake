# SPDX-License-Identifier: Apache-2.0
if(NOT TARGET hooksess_tensorflow)
  return()
endif()
add_executable(bench_tensorflow bench/bench_tensorflow.c)
hooksess_compile_options(bench_tensorflow)
set_target_properties(bench_tensorflow PROPERTIES OUTPUT_NAME tensorflow RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_compile_definitions(
  bench_tensorflow PRIVATE _GNU_SOURCE HOOKSESS_VENV_PYTHON="${PROJECT_SOURCE_DIR}/build/venv/bin/python"
                           HOOKSESS_PEER_SCRIPT="${CMAKE_CURRENT_SOURCE_DIR}/bench/tensorflow_peer.py")
# The bare loop links TensorFlow itself.
get_filename_component(bench_tensorflow_folder ${TensorFlowC_LIBRARY} DIRECTORY)
target_include_directories(bench_tensorflow SYSTEM PRIVATE ${TensorFlowC_INCLUDE_DIR})
target_link_libraries(bench_tensorflow PRIVATE hooksess::tensorflow ${TensorFlowC_LIBRARY}
                                               ${bench_tensorflow_folder}/libtensorflow_framework.so.2)
set_property(TARGET bench_tensorflow APPEND PROPERTY BUILD_RPATH ${bench_tensorflow_folder})
