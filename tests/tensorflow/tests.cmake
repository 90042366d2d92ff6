# SPDX-License-Identifier: Apache-2.0
# TensorFlow's graphs. TensorFlow exports them when the tests run, programs that use only the public headers train them, and
# TensorFlow checks the results.
if(NOT TARGET hooksess_tensorflow OR NOT HOOKSESS_PYTHON)
  return()
endif()

set(tensorflow_graphs ${PROJECT_BINARY_DIR}/tests/tensorflow)
set(tensorflow_environment HOOKSESS_TEST_SECS=240 HOOKSESS_GRAPHS=${tensorflow_graphs}
                           LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/leaks.supp:print_suppressions=0)
foreach(what IN ITEMS graphs inputs checkpoints)
  add_test(NAME tensorflow/export_${what} COMMAND ${HOOKSESS_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/export_${what}.py ${tensorflow_graphs})
  set_tests_properties(tensorflow/export_${what} PROPERTIES LABELS interop TIMEOUT 300 FIXTURES_SETUP tensorflow_graphs
                                                                     ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endforeach()

function(hooksess_tensorflow_program target)
  add_executable(${target} ${ARGN})
  hooksess_compile_options(${target})
  target_link_libraries(${target} PRIVATE hooksess::tensorflow hooksess_test_run)
endfunction()

set(modules open run step train input stop add_op memory hostile damaged merging checkpoints)
if(HOOKSESS_SANITIZE AND NOT HOOKSESS_HEAVY_TESTS)
  list(REMOVE_ITEM modules checkpoints) # mostly TensorFlow's own time
endif()
foreach(module IN LISTS modules)
  set(target test_tensorflow_${module})
  hooksess_tensorflow_program(${target} ${CMAKE_CURRENT_LIST_DIR}/test_${module}.c ${CMAKE_CURRENT_LIST_DIR}/graphs.c
                              ${CMAKE_CURRENT_LIST_DIR}/threads.c)
  add_test(NAME tensorflow/${module} COMMAND ${target})
  set_tests_properties(tensorflow/${module} PROPERTIES LABELS interop TIMEOUT 300 FIXTURES_REQUIRED tensorflow_graphs
                                                                ENVIRONMENT "${tensorflow_environment}")
endforeach()

# TensorFlow's functions make the statuses, the backend's function reads them.
get_filename_component(tensorflow_folder ${TensorFlowC_LIBRARY} DIRECTORY)
hooksess_tensorflow_program(test_tensorflow_status ${CMAKE_CURRENT_LIST_DIR}/test_status.c
                            ${PROJECT_SOURCE_DIR}/src/tensorflow/tf_status.c)
target_include_directories(test_tensorflow_status PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_include_directories(test_tensorflow_status SYSTEM PRIVATE ${TensorFlowC_INCLUDE_DIR})
target_link_libraries(test_tensorflow_status PRIVATE ${TensorFlowC_LIBRARY} ${tensorflow_folder}/libtensorflow_framework.so.2)
set_property(TARGET test_tensorflow_status APPEND PROPERTY BUILD_RPATH ${tensorflow_folder})
add_test(NAME tensorflow/status COMMAND test_tensorflow_status)
set_tests_properties(tensorflow/status PROPERTIES LABELS interop TIMEOUT 300 ENVIRONMENT "${tensorflow_environment}")

# Clusters of processes on loopback.
hooksess_tensorflow_program(cluster_task ${CMAKE_CURRENT_LIST_DIR}/cluster_task.c ${CMAKE_CURRENT_LIST_DIR}/graphs.c)
set(cluster_modules server cluster)
if(HOOKSESS_SANITIZE AND NOT HOOKSESS_HEAVY_TESTS)
  set(cluster_modules) # mostly TensorFlow's own time
endif()
foreach(module IN LISTS cluster_modules)
  set(target test_tensorflow_${module})
  hooksess_tensorflow_program(${target} ${CMAKE_CURRENT_LIST_DIR}/test_${module}.c ${CMAKE_CURRENT_LIST_DIR}/graphs.c
                              ${CMAKE_CURRENT_LIST_DIR}/tasks.c)
  add_dependencies(${target} cluster_task)
  add_test(NAME tensorflow/${module} COMMAND ${target})
  set_tests_properties(
    tensorflow/${module}
    PROPERTIES LABELS interop TIMEOUT 900 FIXTURES_REQUIRED tensorflow_graphs
               ENVIRONMENT "${tensorflow_environment};HOOKSESS_CLUSTER_TASK=$<TARGET_FILE:cluster_task>")
endforeach()

# Python reads the files that these programs write.
foreach(program IN ITEMS train_meta save_meta profile_meta)
  hooksess_tensorflow_program(interop_${program} ${CMAKE_CURRENT_LIST_DIR}/${program}.c ${CMAKE_CURRENT_LIST_DIR}/graphs.c)
  set_target_properties(interop_${program} PROPERTIES OUTPUT_NAME ${program} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/interop)
endforeach()

hooksess_tensorflow_program(test_tensorflow_resume ${CMAKE_CURRENT_LIST_DIR}/resume_meta.c)
if(TARGET hooksess_tool)
  add_test(NAME tensorflow/resume
           COMMAND hooksess_tool verify-resume --fetch loss $<TARGET_FILE:test_tensorflow_resume> ${tensorflow_graphs}/table.meta)
  set_tests_properties(tensorflow/resume PROPERTIES LABELS interop TIMEOUT 300 FIXTURES_REQUIRED tensorflow_graphs
                                                             ENVIRONMENT "${tensorflow_environment}")
endif()

set(python_modules training checkpoints metadata)
if(HOOKSESS_SANITIZE AND NOT HOOKSESS_HEAVY_TESTS)
  set(python_modules) # mostly TensorFlow's own time
endif()
foreach(module IN LISTS python_modules)
  set(test tensorflow/python_${module})
  add_test(NAME ${test} COMMAND ${HOOKSESS_PYTHON} -m unittest discover -v -s ${CMAKE_CURRENT_LIST_DIR} -p test_${module}.py)
  set_tests_properties(
    ${test}
    PROPERTIES LABELS interop TIMEOUT 600 FIXTURES_REQUIRED tensorflow_graphs
               ENVIRONMENT
               "${tensorflow_environment};HOOKSESS_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/interop")
endforeach()

include(${CMAKE_CURRENT_LIST_DIR}/stand_in/tests.cmake)
