# SPDX-License-Identifier: Apache-2.0
# Example programs of users.
hooksess_test(programs feeds)
hooksess_test(programs hook_without_model)
hooksess_test(programs moving)

# Hooks that use only the public headers: src/ is not in the include path.
foreach(program IN ITEMS own_hook periodic_hooks)
  foreach(language IN ITEMS c cpp)
    set(target ${program}_${language})
    add_executable(${target} ${CMAKE_CURRENT_LIST_DIR}/${program}.${language})
    set_target_properties(${target} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF CXX_STANDARD 20 CXX_EXTENSIONS OFF)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${HOOKSESS_WERROR}>:-Werror>)
    target_link_libraries(${target} PRIVATE hooksess::hooksess)
    add_test(NAME programs/${target} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/lines.sh $<TARGET_FILE:${target}>)
    set_tests_properties(programs/${target} PROPERTIES LABELS unit)
    add_dependencies(unit_tests ${target})
  endforeach()
endforeach()

# adopt_test(NAME MODULE FOLDER BEFORE AFTER [VARIABLE...]): the programs of examples/FOLDER before and after.
set(tool)
if(TARGET hooksess_tool)
  set(tool $<TARGET_FILE:hooksess_tool>)
endif()
function(adopt_test name module folder before after)
  add_test(NAME programs/${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/${module}.py -v)
  set_tests_properties(
    programs/${name}
    PROPERTIES TIMEOUT 300
               ENVIRONMENT "ADOPT_SOURCE=${PROJECT_SOURCE_DIR}/examples/${folder};ADOPT_BEFORE=$<TARGET_FILE:${before}>;ADOPT_AFTER=$<TARGET_FILE:${after}>;HOOKSESS_TOOL=${tool};PYTHONDONTWRITEBYTECODE=1;${ARGN}")
endfunction()
if(TARGET adopt_after AND TARGET adopt_after_cpp)
  adopt_test(adopt test_adopt adopt adopt_before adopt_after ADOPT_AFTER_CPP=$<TARGET_FILE:adopt_after_cpp>)
  adopt_test(adopt_jacobi test_adopt_port adopt/jacobi adopt_jacobi_before adopt_jacobi_after)
  adopt_test(adopt_cpp test_adopt_port adopt/cpp adopt_cpp_before adopt_cpp_after)
endif()
if(TARGET adopt_late_after)
  adopt_test(adopt_late test_adopt_late adopt/late adopt_late_before adopt_late_after)
  adopt_test(adopt_pool test_adopt_port adopt/pool adopt_pool_before adopt_pool_after)
endif()

if(TARGET first_program AND TARGET first_program_cpp)
  add_test(NAME programs/first_program COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/programs/first_program.sh $<TARGET_FILE:first_program>
                                               $<TARGET_FILE:first_program_cpp>)
endif()

if(TARGET hook_test)
  add_test(NAME programs/hook_test COMMAND hook_test ${CMAKE_CURRENT_BINARY_DIR}/best_loss.txt)
endif()

if(TARGET trainer)
  add_test(NAME programs/full_disk COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_full_disk.py -v)
  set_tests_properties(programs/full_disk PROPERTIES TIMEOUT 300 ENVIRONMENT "TRAINER=$<TARGET_FILE:trainer>;PYTHONDONTWRITEBYTECODE=1")
endif()

if(TARGET prometheus)
  add_test(NAME programs/prometheus COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_prometheus.py -v)
  set_tests_properties(programs/prometheus PROPERTIES TIMEOUT 300
                                                      ENVIRONMENT "PROMETHEUS=$<TARGET_FILE:prometheus>;PYTHONDONTWRITEBYTECODE=1")
endif()

if(TARGET gpt)
  hooksess_test(programs gpt_model)
  target_link_libraries(test_programs_gpt_model PRIVATE gpt_parts)
  add_test(NAME programs/gpt COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_gpt.py -v)
  set_tests_properties(
    programs/gpt PROPERTIES TIMEOUT 300
                            ENVIRONMENT "GPT=$<TARGET_FILE:gpt>;GPT_TEXT=${PROJECT_SOURCE_DIR}/LICENSE;HOOKSESS_TOOL=${tool};PYTHONDONTWRITEBYTECODE=1")
endif()
