# SPDX-License-Identifier: Apache-2.0
# The Python package python/, which loads the shared library. Python cannot load a library with sanitizers.
if(NOT TARGET hooksess_shared OR HOOKSESS_SANITIZE OR HOOKSESS_COVERAGE)
  return()
endif()
add_executable(python_write_run ${CMAKE_CURRENT_LIST_DIR}/write_run.c)
hooksess_compile_options(python_write_run)
set_target_properties(python_write_run PROPERTIES OUTPUT_NAME write_run RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/python)
target_link_libraries(python_write_run PRIVATE hooksess::hooksess)

# hooksess_python_test(NAME MODULES): tests/python/test_NAME.py, if HOOKSESS_PYTHON has these modules.
function(hooksess_python_test name modules)
  set(missing 1)
  if(HOOKSESS_PYTHON)
    execute_process(COMMAND ${HOOKSESS_PYTHON} -c "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"
                            ${modules} RESULT_VARIABLE missing)
  endif()
  if(NOT missing EQUAL 0)
    list(JOIN modules ", " list)
    message(STATUS "No test python/${name}: HOOKSESS_PYTHON names no Python that has ${list}")
    return()
  endif()
  add_test(NAME python/${name} COMMAND ${HOOKSESS_PYTHON} -m unittest discover -v -s ${CMAKE_CURRENT_SOURCE_DIR}/python -p test_${name}.py)
  set_tests_properties(
    python/${name}
    PROPERTIES TIMEOUT 600 ENVIRONMENT "HOOKSESS_BUILD=${PROJECT_BINARY_DIR};HOOKSESS_LIBRARY=$<TARGET_FILE:hooksess_shared>;PYTHONPATH=${PROJECT_SOURCE_DIR}/python;PYTHONDONTWRITEBYTECODE=1")
endfunction()

hooksess_python_test(checkpoint numpy)
hooksess_python_test(events numpy)
hooksess_python_test(status numpy)
hooksess_python_test(library numpy)
hooksess_python_test(documents numpy)
hooksess_python_test(install "numpy;pip;setuptools;wheel")
hooksess_python_test(types "numpy;mypy")
hooksess_python_test(tensorflow "numpy;tensorflow")
