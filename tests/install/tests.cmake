# SPDX-License-Identifier: Apache-2.0
if(HOOKSESS_INSTALL AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE)
  add_test(NAME install/clients COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/install/run.sh ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  set_tests_properties(install/clients PROPERTIES TIMEOUT 600 RUN_SERIAL ON)
  add_test(NAME install/release COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/install/release.sh ${PROJECT_SOURCE_DIR})
  set_tests_properties(install/release PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77)
endif()
