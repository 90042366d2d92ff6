# SPDX-License-Identifier: Apache-2.0
# Man pages, HTML and completions. With sanitizers they are not made.
if(NOT TARGET hooksess_completions)
  return()
endif()

# reference_test(NAME FILE ARGUMENT...)
function(reference_test name file)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/${file} ${ARGN} -v)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endfunction()

reference_test(reference/pages test_pages.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:hooksess_tool>)
reference_test(reference/completions test_completions.py ${PROJECT_BINARY_DIR})
reference_test(docs/links test_links.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:hooksess_tool>)
find_program(HOOKSESS_CHROMEDRIVER chromedriver)
if(HOOKSESS_CHROMEDRIVER)
  reference_test(reference/browser test_browser.py ${PROJECT_SOURCE_DIR} $<TARGET_FILE:hooksess_tool>)
endif()
add_test(NAME reference/without_python COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/without_python.sh ${PROJECT_SOURCE_DIR})
