# SPDX-License-Identifier: Apache-2.0
# TensorFlow and TensorBoard check the files that this library writes and reads. The programs use only the public headers; the
# tests are in Python.
set(interop_programs)
foreach(program IN ITEMS save_checkpoint save_large dump_checkpoint read_slices restore_variables safetensors train_model
                         write_events write_values records average scalars train_graph)
  add_executable(interop_${program} ${CMAKE_CURRENT_LIST_DIR}/${program}.c)
  hooksess_compile_options(interop_${program})
  set_target_properties(interop_${program} PROPERTIES OUTPUT_NAME ${program}
                                                      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/interop)
  target_link_libraries(interop_${program} PRIVATE hooksess::hooksess)
  list(APPEND interop_programs interop_${program})
endforeach()
target_sources(interop_save_checkpoint PRIVATE ${CMAKE_CURRENT_LIST_DIR}/values.c)
target_sources(interop_safetensors PRIVATE ${CMAKE_CURRENT_LIST_DIR}/values.c)
if(TARGET gpt_parts)
  add_executable(interop_gpt_logits ${CMAKE_CURRENT_LIST_DIR}/gpt_logits.c)
  hooksess_compile_options(interop_gpt_logits)
  set_target_properties(interop_gpt_logits PROPERTIES OUTPUT_NAME gpt_logits RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/interop)
  target_link_libraries(interop_gpt_logits PRIVATE gpt_parts)
  list(APPEND interop_programs interop_gpt_logits)
endif()
add_custom_target(interop_programs DEPENDS ${interop_programs})

set(HOOKSESS_PYTHON "" CACHE FILEPATH "A Python that has tensorflow and tensorboard, and better safetensors too, for the tests of interoperability")
set(interop_judges 1)
if(HOOKSESS_PYTHON)
  execute_process(
    COMMAND ${HOOKSESS_PYTHON} -c
            "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, ('tensorflow', 'tensorboard'))))"
    RESULT_VARIABLE interop_judges)
endif()
if(NOT interop_judges EQUAL 0)
  message(STATUS "No tests of interoperability: HOOKSESS_PYTHON names no Python that has tensorflow and tensorboard")
  return()
endif()

# The trainer exists only if its libraries are installed.
file(GLOB interop_tests RELATIVE ${CMAKE_CURRENT_LIST_DIR} CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/test_*.py)
if(NOT TARGET trainer)
  list(REMOVE_ITEM interop_tests test_trainer.py test_trainer_hparams.py test_browser.py)
endif()
if(NOT TARGET gpt)
  list(REMOVE_ITEM interop_tests test_gpt.py)
endif()
if(NOT TARGET train_graph)
  list(REMOVE_ITEM interop_tests test_train_graph.py test_monitored_session.py)
endif()
if(NOT TARGET hooksess_tool)
  list(REMOVE_ITEM interop_tests test_tool.py test_events_tool.py)
endif()
# Under a sanitizer, these spend most of their time in TensorFlow, the browser and matrix products, not in this library.
if(HOOKSESS_SANITIZE AND NOT HOOKSESS_HEAVY_TESTS)
  list(REMOVE_ITEM interop_tests test_browser.py test_train_graph.py test_trainer.py)
endif()
# The package knows C64 since version 0.7.
execute_process(
  COMMAND ${HOOKSESS_PYTHON} -c
          "import numpy, safetensors; assert tuple(map(int, safetensors.__version__.split('.')[:2])) >= (0, 7)"
  RESULT_VARIABLE safetensors_missing ERROR_QUIET)
if(NOT safetensors_missing EQUAL 0)
  message(STATUS "No test of interoperability with safetensors: HOOKSESS_PYTHON lacks version 0.7 or later of it")
  list(REMOVE_ITEM interop_tests test_safetensors.py)
endif()
foreach(test IN LISTS interop_tests)
  string(REGEX REPLACE "^test_(.*)[.]py$" "interop/\\1" name ${test})
  add_test(NAME ${name} COMMAND ${HOOKSESS_PYTHON} -m unittest discover -v -s ${CMAKE_CURRENT_LIST_DIR} -p ${test})
  set_tests_properties(${name} PROPERTIES LABELS interop TIMEOUT 600
                                          ENVIRONMENT "HOOKSESS_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
endforeach()
if(TEST interop/train_graph)
  set_property(TEST interop/train_graph APPEND PROPERTY ENVIRONMENT
                                               "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/leaks.supp:print_suppressions=0")
endif()
