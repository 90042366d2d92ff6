# SPDX-License-Identifier: Apache-2.0
add_executable(bench_device bench/bench_device.c)
hooksess_compile_options(bench_device)
set_target_properties(bench_device PROPERTIES OUTPUT_NAME device RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/bench)
target_compile_definitions(bench_device PRIVATE _GNU_SOURCE)
target_include_directories(bench_device PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
target_sources(bench_device PRIVATE $<TARGET_OBJECTS:hooksess_cuda_objects>)
target_link_libraries(bench_device PRIVATE hooksess::static fake_cuda_driver)
