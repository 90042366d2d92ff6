# SPDX-License-Identifier: Apache-2.0
# hooksess/ggml.h and examples/ggml, where ggml's source is (cmake/install-ggml.sh build/ggml). Not with sanitizers: the build
# of ggml takes long.
if(NOT TARGET ggml_example OR HOOKSESS_SANITIZE OR HOOKSESS_COVERAGE)
  return()
endif()
set_target_properties(ggml_example PROPERTIES EXCLUDE_FROM_ALL FALSE)
hooksess_test(ggml ggml)
target_include_directories(test_ggml_ggml SYSTEM PRIVATE ${HOOKSESS_GGML}/include ${HOOKSESS_GGML}/src)
target_link_libraries(test_ggml_ggml PRIVATE ggml)
add_test(NAME ggml/example COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_example.py -v)
set_tests_properties(
  ggml/example PROPERTIES TIMEOUT 900 ENVIRONMENT "EXAMPLE=$<TARGET_FILE:ggml_example>;HOOKSESS_TOOL=$<TARGET_FILE:hooksess_tool>;PYTHONDONTWRITEBYTECODE=1")
