# SPDX-License-Identifier: Apache-2.0
# Over the stand-in for CUDA's driver, and for tests/gpu over the driver that is installed.
foreach(bench IN ITEMS bench_device gpu_bench)
  add_executable(${bench} bench/bench_device.c)
  hooksess_compile_options(${bench})
  target_compile_definitions(${bench} PRIVATE _GNU_SOURCE)
  target_include_directories(${bench} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_sources(${bench} PRIVATE $<TARGET_OBJECTS:hooksess_cuda_objects>)
  target_link_libraries(${bench} PRIVATE hooksess::static)
endforeach()
set_target_properties(bench_device PROPERTIES OUTPUT_NAME device RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_link_libraries(bench_device PRIVATE fake_cuda_driver)
set_target_properties(gpu_bench PROPERTIES OUTPUT_NAME bench RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/gpu)
target_link_libraries(gpu_bench PRIVATE real_cuda_driver)
