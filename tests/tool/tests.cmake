# SPDX-License-Identifier: Apache-2.0
# Runs the command. make_checkpoint writes the checkpoints, which may be invalid.
if(NOT TARGET hooksess_tool)
  return()
endif()
add_executable(tool_make_checkpoint ${CMAKE_CURRENT_LIST_DIR}/make_checkpoint.c)
hooksess_compile_options(tool_make_checkpoint)
set_target_properties(tool_make_checkpoint PROPERTIES OUTPUT_NAME make_checkpoint
                                                      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/tool)
target_link_libraries(tool_make_checkpoint PRIVATE hooksess_test_support)
add_executable(tool_resume_program ${CMAKE_CURRENT_LIST_DIR}/resume_program.c)
hooksess_compile_options(tool_resume_program)
set_target_properties(tool_resume_program PROPERTIES OUTPUT_NAME resume_program
                                                     RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/tool)
target_link_libraries(tool_resume_program PRIVATE hooksess::hooksess)
add_executable(tool_status_program ${CMAKE_CURRENT_LIST_DIR}/status_program.c)
hooksess_compile_options(tool_status_program)
set_target_properties(tool_status_program PROPERTIES OUTPUT_NAME status_program
                                                     RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/tool)
target_link_libraries(tool_status_program PRIVATE hooksess::hooksess)
set(tool_preloaded note_syncs)
if(NOT HOOKSESS_SANITIZE) # a sanitizer has its own allocator
  list(APPEND tool_preloaded fail_allocation)
endif()
foreach(preloaded IN LISTS tool_preloaded)
  add_library(tool_${preloaded} MODULE ${CMAKE_CURRENT_LIST_DIR}/${preloaded}.c)
  set_target_properties(tool_${preloaded} PROPERTIES PREFIX "" OUTPUT_NAME ${preloaded} LIBRARY_OUTPUT_DIRECTORY
                                                                                        ${PROJECT_BINARY_DIR}/tests/tool)
endforeach()

set(tool_tests abi command ls stat cat verify diff convert hostile events plot resume status)
if(NOT HOOKSESS_SANITIZE) # sanitizers reserve more address space than the tests leave
  list(APPEND tool_tests short_memory)
endif()
foreach(test IN LISTS tool_tests)
  add_test(NAME tool/${test} COMMAND ${Python3_EXECUTABLE} -m unittest discover -v -s ${CMAKE_CURRENT_LIST_DIR} -p test_${test}.py)
  # huge allocations return NULL, also with the sanitizers
  set_tests_properties(
    tool/${test}
    PROPERTIES TIMEOUT 300 ENVIRONMENT
               "HOOKSESS_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;ASAN_OPTIONS=allocator_may_return_null=1")
endforeach()
