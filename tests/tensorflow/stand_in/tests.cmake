# SPDX-License-Identifier: Apache-2.0
# Runs tests of sessions a second time, on TensorFlow: the same sources, linked so that TensorFlow runs their scripts, graphs and
# sources (script.c, graph.c, source.c). not_here.txt lists the tests that cannot run there, with reasons.

# The sessions' code runs under the sanitizers in the original tests, the backend's in tests/tensorflow.
if(HOOKSESS_SANITIZE AND NOT HOOKSESS_HEAVY_TESTS)
  return()
endif()

# The backend, as a static library: tests are linked with the static core, and must not contain a second copy of it.
add_library(hooksess_tensorflow_inside STATIC $<TARGET_OBJECTS:hooksess_tensorflow> ${CMAKE_CURRENT_LIST_DIR}/engine.c
            ${CMAKE_CURRENT_LIST_DIR}/graph.c ${CMAKE_CURRENT_LIST_DIR}/graph_build.c ${CMAKE_CURRENT_LIST_DIR}/kernel.c ${CMAKE_CURRENT_LIST_DIR}/script.c
            ${CMAKE_CURRENT_LIST_DIR}/source.c)
hooksess_compile_options(hooksess_tensorflow_inside)
target_link_libraries(hooksess_tensorflow_inside PUBLIC hooksess_test_support PRIVATE ${CMAKE_DL_LIBS})
target_include_directories(hooksess_tensorflow_inside SYSTEM PRIVATE ${TensorFlowC_INCLUDE_DIR})
set(stand_in_wrapped hs_script_free hs_script_backend hs_script_placeholder hs_script_steps_per_run hs_script_set_step hs_script_fail_at
                     hs_graph_backend hs_graph_of hs_graph_free source_init source_end source_setup source_teardown
                     test_run_group)
list(TRANSFORM stand_in_wrapped PREPEND -Wl,--wrap=)
list(APPEND stand_in_wrapped -Wl,-u,__wrap_hs_graph_of) # also called by the core, which is linked last

set(stand_in_folder ${CMAKE_CURRENT_LIST_DIR})

# hooksess_stand_in_test(FOLDER MODULE): the program of hooksess_test on TensorFlow.
function(hooksess_stand_in_test folder module)
  hooksess_test_target(${folder} ${module} original)
  get_target_property(objects ${original} SOURCES)
  list(FILTER objects INCLUDE REGEX "TARGET_OBJECTS")
  set(target ${original}_tensorflow)
  add_executable(${target} $<TARGET_OBJECTS:${original}> ${objects} ${stand_in_folder}/program.c)
  hooksess_compile_options(${target})
  target_compile_definitions(${target} PRIVATE STAND_IN_PROGRAM="${folder}/${module}"
                                               STAND_IN_LIST="${stand_in_folder}/not_here.txt"
                                               STAND_IN_HAS_CHIEF=$<STREQUAL:${module},training_roles>)
  get_target_property(options ${original} LINK_OPTIONS)
  if(options)
    target_link_options(${target} PRIVATE ${options})
  endif()
  target_link_options(${target} PRIVATE ${stand_in_wrapped})
  target_link_libraries(${target} PRIVATE hooksess_tensorflow_inside hooksess_test_support)
  add_test(NAME tensorflow/${folder}/${module} COMMAND ${target})
  set_tests_properties(tensorflow/${folder}/${module} PROPERTIES LABELS interop TIMEOUT 900
                                                                                    ENVIRONMENT HOOKSESS_TEST_SECS=240)
endfunction()

# All programs of tests/session, and those of other folders that test behaviors of TensorFlow's sessions (ms_010_...).
file(STRINGS ${stand_in_folder}/not_here.txt not_built REGEX "^[a-z0-9_/]+ \\* ")
list(TRANSFORM not_built REPLACE " .*" "")
get_property(test_programs DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
foreach(folder session hooks drivers tf1 threads)
  hooksess_test_target(${folder} "" prefix)
  foreach(program IN LISTS test_programs)
    string(REGEX MATCH "^${prefix}(.*)" matched ${program})
    set(module ${CMAKE_MATCH_1})
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/test_${module}.c)
    if(NOT matched OR NOT EXISTS ${source} OR "${folder}/${module}" IN_LIST not_built)
      continue()
    endif()
    file(STRINGS ${source} rows REGEX "^static void (ms|bh|sm|sv|qr)_[0-9]" LIMIT_COUNT 1)
    if(rows OR folder STREQUAL "session")
      hooksess_stand_in_test(${folder} ${module})
    endif()
  endforeach()
endforeach()

# A row about an unknown program is an error. program.c checks the tests' names.
file(STRINGS ${stand_in_folder}/not_here.txt not_here REGEX "^[a-z0-9_]+/")
foreach(row IN LISTS not_here)
  string(REGEX REPLACE " .*" "" program ${row})
  string(REPLACE "/" "_" target test_${program})
  if(NOT TARGET ${target} OR NOT (TARGET ${target}_tensorflow OR program IN_LIST not_built))
    message(FATAL_ERROR "${stand_in_folder}/not_here.txt: program ${program} does not exist, or does not run on TensorFlow")
  endif()
endforeach()
