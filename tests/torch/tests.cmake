# SPDX-License-Identifier: Apache-2.0
# hooksess/torch.hpp, where LibTorch is found. It compiles slowly, so there is one program. Not with sanitizers: LibTorch is
# built without them.
if(HOOKSESS_SANITIZE OR HOOKSESS_COVERAGE)
  return()
endif()
find_package(Torch QUIET)
if(NOT Torch_FOUND)
  message(STATUS "No tests of hooksess/torch.hpp, as they need LibTorch (Debian: libtorch-dev)")
  return()
endif()
add_executable(torch_train ${CMAKE_CURRENT_LIST_DIR}/train.cpp)
set_target_properties(torch_train PROPERTIES CXX_STANDARD 17 CXX_EXTENSIONS OFF)
target_compile_options(torch_train PRIVATE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${HOOKSESS_WERROR}>:-Werror>)
target_link_libraries(torch_train PRIVATE hooksess::hooksess ${TORCH_LIBRARIES})
add_test(NAME torch/torch COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_torch.py -v)
set_tests_properties(torch/torch PROPERTIES TIMEOUT 900 ENVIRONMENT "TRAIN=$<TARGET_FILE:torch_train>;PYTHONDONTWRITEBYTECODE=1")

# The example resumes exactly.
if(TARGET libtorch_example AND TARGET hooksess_tool AND EXISTS /usr/share/datasets/fashion-mnist)
  add_test(NAME torch/example COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/example.sh $<TARGET_FILE:hooksess_tool>
                                      $<TARGET_FILE:libtorch_example>)
  set_tests_properties(torch/example PROPERTIES TIMEOUT 900)
endif()
