# SPDX-License-Identifier: Apache-2.0
# TensorFlow's graphs: exported by TensorFlow itself when the tests are run, trained by programs that see the public headers alone,
# and judged by TensorFlow again.
if(NOT TARGET hooksess_tensorflow OR NOT HOOKSESS_PYTHON)
  return()
endif()

set(tensorflow_graphs ${PROJECT_BINARY_DIR}/tests/backends/tensorflow)
add_test(NAME backends/tensorflow/export COMMAND ${HOOKSESS_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/export_graphs.py ${tensorflow_graphs})
set_tests_properties(backends/tensorflow/export PROPERTIES LABELS interop TIMEOUT 300 FIXTURES_SETUP tensorflow_graphs
                                                           ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

add_test(NAME backends/tensorflow/export_inputs COMMAND ${HOOKSESS_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/export_inputs.py ${tensorflow_graphs})
set_tests_properties(backends/tensorflow/export_inputs PROPERTIES LABELS interop TIMEOUT 300 FIXTURES_SETUP tensorflow_graphs
                                                                  ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)

function(hooksess_tensorflow_program target)
  add_executable(${target} ${ARGN})
  hooksess_compile_options(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE hooksess::tensorflow PkgConfig::hooksess_cmocka)
endfunction()

foreach(module IN ITEMS open run step train input stop add_op memory hostile damaged)
  set(target test_backends_tensorflow_${module})
  hooksess_tensorflow_program(${target} ${CMAKE_CURRENT_LIST_DIR}/test_${module}.c ${CMAKE_CURRENT_LIST_DIR}/graphs.c
                             ${CMAKE_CURRENT_LIST_DIR}/threads.c)
  add_test(NAME backends/tensorflow/${module} COMMAND ${target})
  set_tests_properties(backends/tensorflow/${module} PROPERTIES LABELS interop TIMEOUT 300 FIXTURES_REQUIRED tensorflow_graphs
                                                                ENVIRONMENT "HOOKSESS_GRAPHS=${tensorflow_graphs};LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/leaks.supp:print_suppressions=0")
endforeach()

hooksess_tensorflow_program(interop_train_meta ${CMAKE_CURRENT_LIST_DIR}/train_meta.c ${CMAKE_CURRENT_LIST_DIR}/graphs.c)
set_target_properties(interop_train_meta PROPERTIES OUTPUT_NAME train_meta RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/interop)
add_test(NAME backends/tensorflow/python COMMAND ${HOOKSESS_PYTHON} -m unittest discover -v -s ${CMAKE_CURRENT_LIST_DIR} -p test_python.py)
set_tests_properties(
  backends/tensorflow/python
  PROPERTIES LABELS interop TIMEOUT 300 FIXTURES_REQUIRED tensorflow_graphs
             ENVIRONMENT
             "HOOKSESS_GRAPHS=${tensorflow_graphs};HOOKSESS_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/interop")

hooksess_tensorflow_program(interop_profile_meta ${CMAKE_CURRENT_LIST_DIR}/profile_meta.c ${CMAKE_CURRENT_LIST_DIR}/graphs.c)
set_target_properties(interop_profile_meta PROPERTIES OUTPUT_NAME profile_meta RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/interop)
add_test(NAME backends/tensorflow/metadata COMMAND ${HOOKSESS_PYTHON} -m unittest discover -v -s ${CMAKE_CURRENT_LIST_DIR} -p test_metadata.py)
set_tests_properties(
  backends/tensorflow/metadata
  PROPERTIES LABELS interop TIMEOUT 300 FIXTURES_REQUIRED tensorflow_graphs
             ENVIRONMENT
             "HOOKSESS_GRAPHS=${tensorflow_graphs};HOOKSESS_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/interop")
