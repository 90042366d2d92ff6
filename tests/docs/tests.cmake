# SPDX-License-Identifier: Apache-2.0
# The code blocks of the documents. A sanitizer would find nothing new, and the programs are not built with it.
if(HOOKSESS_INSTALL AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE AND TARGET hooksess_shared AND TARGET hooksess_tool)
  set(prefix ${CMAKE_CURRENT_BINARY_DIR}/docs/prefix)
  add_test(NAME docs/install COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/install.sh ${PROJECT_BINARY_DIR} ${prefix})
  set_tests_properties(docs/install PROPERTIES FIXTURES_SETUP docs_prefix RUN_SERIAL ON)

  # docs_test(NAME COMMAND...): runs in HOOKSESS_PYTHON if it is set, as a document may need its packages.
  if(HOOKSESS_PYTHON)
    set(python ${HOOKSESS_PYTHON})
  else()
    set(python ${Python3_EXECUTABLE})
  endif()
  function(docs_test name)
    add_test(NAME docs/${name} COMMAND ${python} ${ARGN})
    set_tests_properties(
      docs/${name} PROPERTIES FIXTURES_REQUIRED docs_prefix TIMEOUT 300
                              ENVIRONMENT "CC=${CMAKE_C_COMPILER};CXX=${CMAKE_CXX_COMPILER};PYTHONDONTWRITEBYTECODE=1")
  endfunction()
  docs_test(blocks ${CMAKE_CURRENT_LIST_DIR}/test_blocks.py ${prefix} -v)

  # README.md, docs/guide/hooks.md, ...: docs/README, docs/guide-hooks, ...
  file(GLOB documents RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md
       ${PROJECT_SOURCE_DIR}/docs/guide/*.md ${PROJECT_SOURCE_DIR}/docs/cookbook.md ${PROJECT_SOURCE_DIR}/docs/estimators.md
       ${PROJECT_SOURCE_DIR}/examples/adopt/README.md ${PROJECT_SOURCE_DIR}/examples/adopt/*/README.md)
  if(NOT TARGET hooksess_tensorflow OR NOT HOOKSESS_PYTHON)
    list(REMOVE_ITEM documents docs/guide/tensorflow-graphs.md docs/guide/coming-from-tensorflow.md)
  endif()
  find_package(Torch QUIET)
  if(NOT Torch_FOUND OR NOT EXISTS /usr/share/datasets/fashion-mnist)
    list(REMOVE_ITEM documents docs/guide/libtorch.md)
  endif()
  find_program(HOOKSESS_RUSTC rustc)
  find_program(HOOKSESS_GFORTRAN gfortran)
  if(NOT HOOKSESS_RUSTC OR NOT HOOKSESS_GFORTRAN)
    list(REMOVE_ITEM documents docs/guide/bindings.md)
  endif()
  if(NOT TARGET ggml)
    list(REMOVE_ITEM documents docs/guide/ggml.md)
  endif()
  foreach(document IN LISTS documents)
    string(REGEX REPLACE "^docs/|[.]md$" "" name ${document})
    string(REPLACE / - name ${name})
    docs_test(${name} ${CMAKE_CURRENT_LIST_DIR}/blocks.py ${prefix} ${PROJECT_SOURCE_DIR}/${document})
  endforeach()
  if(TARGET ggml)
    # ggml as this build has compiled it, for the project of docs/guide/ggml.md.
    file(
      GENERATE
      OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/docs/ggml/CMakeLists.txt
      CONTENT
        "add_library(ggml INTERFACE)
target_include_directories(ggml SYSTEM INTERFACE ${HOOKSESS_GGML}/include)
target_link_libraries(ggml INTERFACE $<TARGET_FILE:ggml> $<TARGET_FILE:ggml-cpu> $<TARGET_FILE:ggml-base> stdc++ m pthread dl)
")
    set_property(TEST docs/guide-ggml APPEND PROPERTY ENVIRONMENT "GGML=${CMAKE_CURRENT_BINARY_DIR}/docs/ggml")
  endif()
endif()
