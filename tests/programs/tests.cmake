# SPDX-License-Identifier: Apache-2.0
# Programs as people are to write them.
hooksess_test(programs feeds)
hooksess_test(programs hook_without_model)
hooksess_test(programs moving)

# A hook over the public headers: src/ is not in the path of includes.
foreach(language IN ITEMS c cpp)
  add_executable(own_hook_${language} ${CMAKE_CURRENT_LIST_DIR}/own_hook.${language})
  set_target_properties(own_hook_${language} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF CXX_STANDARD 20 CXX_EXTENSIONS OFF)
  target_compile_options(own_hook_${language} PRIVATE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${HOOKSESS_WERROR}>:-Werror>)
  target_link_libraries(own_hook_${language} PRIVATE hooksess::hooksess)
  add_test(NAME programs/own_hook_${language} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/lines.sh $<TARGET_FILE:own_hook_${language}>)
  set_tests_properties(programs/own_hook_${language} PROPERTIES LABELS unit)
endforeach()

if(TARGET adopt_after AND TARGET adopt_after_cpp)
  add_test(NAME programs/adopt COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_adopt.py -v)
  set_tests_properties(
    programs/adopt
    PROPERTIES TIMEOUT 300
               ENVIRONMENT "ADOPT_SOURCE=${PROJECT_SOURCE_DIR}/examples/adopt;ADOPT_BEFORE=$<TARGET_FILE:adopt_before>;ADOPT_AFTER=$<TARGET_FILE:adopt_after>;ADOPT_AFTER_CPP=$<TARGET_FILE:adopt_after_cpp>;PYTHONDONTWRITEBYTECODE=1")
endif()
if(TARGET adopt_late_after)
  set(tool)
  if(TARGET hooksess_tool)
    set(tool $<TARGET_FILE:hooksess_tool>)
  endif()
  add_test(NAME programs/adopt_late COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/test_adopt_late.py -v)
  set_tests_properties(
    programs/adopt_late
    PROPERTIES TIMEOUT 300
               ENVIRONMENT "ADOPT_SOURCE=${PROJECT_SOURCE_DIR}/examples/adopt/late;ADOPT_BEFORE=$<TARGET_FILE:adopt_late_before>;ADOPT_AFTER=$<TARGET_FILE:adopt_late_after>;HOOKSESS_TOOL=${tool};PYTHONDONTWRITEBYTECODE=1")
endif()

if(TARGET first_program AND TARGET first_program_cpp)
  add_test(NAME programs/first_program COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/programs/first_program.sh $<TARGET_FILE:first_program>
                                               $<TARGET_FILE:first_program_cpp>)
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
