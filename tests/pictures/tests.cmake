# SPDX-License-Identifier: Apache-2.0
# The pictures in docs/pictures that take a moment are drawn again, and compared.
if(TARGET hooksess_shared AND TARGET adopt_after AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE)
  add_executable(picture_step ${CMAKE_CURRENT_LIST_DIR}/step.c)
  hooksess_compile_options(picture_step)
  set_target_properties(picture_step PROPERTIES OUTPUT_NAME step RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/pictures)
  target_link_libraries(picture_step PRIVATE hooksess::hooksess)
  add_test(NAME docs/pictures COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/make.py --check ${PROJECT_BINARY_DIR} step.svg
                                      resume.svg)
  set_tests_properties(docs/pictures PROPERTIES TIMEOUT 300)
endif()
