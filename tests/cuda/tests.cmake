# SPDX-License-Identifier: Apache-2.0
# The stand-in for the driver has its name, so that libhooksess_cuda finds it.
add_library(fake_cuda_driver SHARED ${CMAKE_CURRENT_LIST_DIR}/fake_driver.c ${CMAKE_CURRENT_LIST_DIR}/order.c ${CMAKE_CURRENT_LIST_DIR}/driver_calls.c)
hooksess_compile_options(fake_cuda_driver)
target_include_directories(fake_cuda_driver PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(fake_cuda_driver PRIVATE Threads::Threads)
set_target_properties(fake_cuda_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1 C_VISIBILITY_PRESET default
                                                  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda)
foreach(module cuda state_copy late_values)
  hooksess_test(cuda ${module})
  target_sources(test_cuda_${module} PRIVATE $<TARGET_OBJECTS:hooksess_cuda_objects>)
  target_link_libraries(test_cuda_${module} PRIVATE fake_cuda_driver)
  set_tests_properties(cuda/${module} PROPERTIES TIMEOUT 900) # minutes under the thread sanitizer
endforeach()
hooksess_test(cuda order) # what the stand-in reports
target_link_libraries(test_cuda_order PRIVATE fake_cuda_driver)

# The same tests over the driver that is installed. tests/gpu copies this folder to a machine with a GPU. Here the stand-in is the one
# that is installed.
if(NOT HOOKSESS_SANITIZE)
  add_library(real_cuda_driver OBJECT ${CMAKE_CURRENT_LIST_DIR}/real_driver.c ${CMAKE_CURRENT_LIST_DIR}/driver_calls.c)
  hooksess_compile_options(real_cuda_driver)
  target_include_directories(real_cuda_driver PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_options(real_cuda_driver INTERFACE -Wl,--wrap=dlsym)
  foreach(module IN ITEMS cuda state_copy late_values)
    add_executable(gpu_test_${module} ${CMAKE_CURRENT_LIST_DIR}/test_${module}.c $<TARGET_OBJECTS:hooksess_cuda_objects>)
    hooksess_compile_options(gpu_test_${module})
    set_target_properties(gpu_test_${module} PROPERTIES OUTPUT_NAME test_${module} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/gpu)
    target_link_libraries(gpu_test_${module} PRIVATE real_cuda_driver hooksess_test_support)
    list(APPEND gpu_tests gpu_test_${module})
  endforeach()
  add_custom_target(gpu_tests DEPENDS ${gpu_tests})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/run_gpu.sh ${CMAKE_CURRENT_BINARY_DIR}/gpu/run COPYONLY)
  add_test(NAME cuda/gpu COMMAND ${CMAKE_CURRENT_BINARY_DIR}/gpu/run 32)
  set_tests_properties(cuda/gpu PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=$<TARGET_FILE_DIR:fake_cuda_driver>" TIMEOUT 900)
endif()

# The kernels in the source are the compiled ones.
add_test(NAME cuda/kernels COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/kernels.sh ${PROJECT_SOURCE_DIR})

# hs::cuda of hooksess.hpp.
add_executable(cuda_wrapper ${CMAKE_CURRENT_LIST_DIR}/wrapper.cpp)
set_target_properties(cuda_wrapper PROPERTIES CXX_STANDARD 20 CXX_EXTENSIONS OFF)
target_compile_options(cuda_wrapper PRIVATE -Wall -Wextra -Wshadow -Wno-missing-field-initializers $<$<BOOL:${HOOKSESS_WERROR}>:-Werror>)
target_include_directories(cuda_wrapper PRIVATE ${CMAKE_CURRENT_LIST_DIR}/runtime ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(cuda_wrapper PRIVATE hooksess::cuda hooksess::hooksess fake_cuda_driver)
add_test(NAME cuda/wrapper COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/lines.sh $<TARGET_FILE:cuda_wrapper>)
set_tests_properties(cuda/wrapper PROPERTIES LABELS unit)
add_dependencies(unit_tests cuda_wrapper)

# The program of docs/guide/gpu.md resumes exactly.
if(TARGET hooksess_cuda_shared AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE)
  add_test(
    NAME cuda/resume
    COMMAND
      sh -c
      "sh '${CMAKE_CURRENT_LIST_DIR}/run_cu.sh' '${PROJECT_SOURCE_DIR}' '$<TARGET_FILE:fake_cuda_driver>' '${PROJECT_SOURCE_DIR}/include' '$<TARGET_FILE:hooksess_cuda_shared>' '$<TARGET_FILE:hooksess_shared>' '-Wl,-rpath,$<TARGET_FILE_DIR:hooksess_cuda_shared>:$<TARGET_FILE_DIR:hooksess_shared>' <'${PROJECT_SOURCE_DIR}/docs/guide/gpu.md'"
  )
  set_tests_properties(cuda/resume PROPERTIES ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER}" TIMEOUT 900)

  # So does examples/cuda.
  add_test(
    NAME cuda/example
    COMMAND
      ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_example.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:hooksess_tool>
      $<TARGET_FILE:fake_cuda_driver> ${CMAKE_CXX_COMPILER} ${CMAKE_C_COMPILER} $<TARGET_FILE:hooksess_cuda_shared> $<TARGET_FILE:hooksess_shared>
      -Wl,-rpath,$<TARGET_FILE_DIR:hooksess_cuda_shared>:$<TARGET_FILE_DIR:hooksess_shared>)
  set_tests_properties(cuda/example PROPERTIES TIMEOUT 900)
endif()
