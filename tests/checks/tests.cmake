# SPDX-License-Identifier: Apache-2.0
# Checks of the project itself.
hooksess_test(checks abi)
hooksess_test(checks null)
hooksess_test(checks errors checkpoint/model.c)
hooksess_test(checks sizes checkpoint/model.c)

# The lines that C11 and C++20 share.
foreach(language IN ITEMS c cpp)
  add_executable(lines_${language} ${CMAKE_CURRENT_LIST_DIR}/lines.${language})
  set_target_properties(lines_${language} PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF CXX_STANDARD 20 CXX_EXTENSIONS OFF)
  target_compile_options(lines_${language} PRIVATE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${HOOKSESS_WERROR}>:-Werror>)
  target_link_libraries(lines_${language} PRIVATE hooksess::hooksess m)
  add_test(NAME checks/lines_${language} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/lines.sh $<TARGET_FILE:lines_${language}>)
  set_tests_properties(checks/lines_${language} PROPERTIES LABELS unit)
  add_dependencies(unit_tests lines_${language})
endforeach()

# hooksess.hpp, with the oldest standard that it supports, and a newer one.
foreach(standard IN ITEMS 17 20)
  add_executable(wrapper_${standard} ${CMAKE_CURRENT_LIST_DIR}/wrapper.cpp)
  set_target_properties(wrapper_${standard} PROPERTIES CXX_STANDARD ${standard} CXX_EXTENSIONS OFF)
  target_compile_options(wrapper_${standard} PRIVATE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${HOOKSESS_WERROR}>:-Werror>)
  target_link_libraries(wrapper_${standard} PRIVATE hooksess::hooksess)
  add_test(NAME checks/wrapper_${standard} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/lines.sh $<TARGET_FILE:wrapper_${standard}>)
  set_tests_properties(checks/wrapper_${standard} PROPERTIES LABELS unit)
  add_dependencies(unit_tests wrapper_${standard})
endforeach()

add_test(
  NAME checks/floors
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/floors.py ${CMAKE_NM} ${PROJECT_SOURCE_DIR}/src
          $<TARGET_OBJECTS:hooksess_objects> $<TARGET_OBJECTS:hooksess_cuda_objects> $<TARGET_OBJECTS:hooksess_testing_objects> $<TARGET_OBJECTS:hooksess_tf1_objects> "$<$<TARGET_EXISTS:hooksess_mpi>:$<TARGET_OBJECTS:hooksess_mpi>>" "$<$<TARGET_EXISTS:hooksess_tensorflow>:$<TARGET_OBJECTS:hooksess_tensorflow>>"
  COMMAND_EXPAND_LISTS)
if(TARGET hooksess_tensorflow AND TARGET hooksess_mpi AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE)
  add_test(
    NAME checks/floors_picture
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/floors_picture.py ${PROJECT_SOURCE_DIR}/docs/floors.svg
            ${CMAKE_NM} $<TARGET_OBJECTS:hooksess_objects> $<TARGET_OBJECTS:hooksess_cuda_objects> $<TARGET_OBJECTS:hooksess_testing_objects> $<TARGET_OBJECTS:hooksess_tf1_objects>
            $<TARGET_OBJECTS:hooksess_mpi> $<TARGET_OBJECTS:hooksess_tensorflow>
    COMMAND_EXPAND_LISTS)
endif()
add_test(NAME checks/tiers COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/tiers.py ${PROJECT_SOURCE_DIR}/include)
add_test(
  NAME checks/no_privileges
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/no_privileges.py ${CMAKE_NM} ${PROJECT_SOURCE_DIR}/include
          "$<FILTER:$<TARGET_OBJECTS:hooksess_objects>,INCLUDE,/(hooks|base)/[^/]*$>"
  COMMAND_EXPAND_LISTS)
add_test(NAME checks/cleared COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/cleared.py
                                     ${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR})
add_test(NAME checks/api COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/api.py ${PROJECT_SOURCE_DIR})
add_test(NAME checks/spelling COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/spelling.sh ${PROJECT_SOURCE_DIR})
if(NOT HOOKSESS_SANITIZE)
  add_test(NAME checks/samples COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/samples.py
                                       ${PROJECT_SOURCE_DIR}/include ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
endif()
add_test(NAME checks/plots COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/bench/plots.py ${PROJECT_SOURCE_DIR}/docs check)
add_test(NAME checks/plots_record COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/plots_record.py ${PROJECT_SOURCE_DIR})
add_test(NAME checks/documents COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/documents.py ${PROJECT_SOURCE_DIR})
set(abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(TARGET hooksess_shared AND TARGET hooksess_static AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE)
  add_test(NAME checks/exports COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/exports.sh ${abi} $<TARGET_FILE:hooksess_shared>
                                       $<TARGET_FILE:hooksess_static> ${PROJECT_SOURCE_DIR}/include)
  add_test(NAME checks/binding COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/checks/binding.py
                                       $<TARGET_FILE:hooksess_shared>)
  add_test(NAME checks/quiet COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/quiet.sh $<TARGET_FILE:hooksess_static>)
  add_test(NAME checks/globals COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/globals.sh $<TARGET_FILE:hooksess_static>)
  add_test(NAME checks/cuda COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/cuda.sh $<TARGET_FILE:hooksess_shared>
                                    ${PROJECT_SOURCE_DIR}/include)
  set_tests_properties(checks/cuda PROPERTIES SKIP_RETURN_CODE 77)
  add_test(NAME checks/exports_testing COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/exports.sh ${abi} $<TARGET_FILE:hooksess_testing_shared>
                                               $<TARGET_FILE:hooksess_testing_static> ${PROJECT_SOURCE_DIR}/include/hooksess/testing.h ${PROJECT_SOURCE_DIR}/include/hooksess/simulation.h)
  add_test(NAME checks/symbols COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/symbols.sh ${PROJECT_VERSION} $<TARGET_FILE:hooksess_shared>
                                       ${PROJECT_SOURCE_DIR}/debian/libhooksess${abi}.symbols)
  add_test(NAME checks/symbols_testing COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/symbols.sh ${PROJECT_VERSION} $<TARGET_FILE:hooksess_testing_shared>
                                               ${PROJECT_SOURCE_DIR}/debian/libhooksess-testing-dev.symbols)
  add_test(NAME checks/exports_cuda COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/exports.sh ${abi} $<TARGET_FILE:hooksess_cuda_shared>
                                            $<TARGET_FILE:hooksess_cuda_static> ${PROJECT_SOURCE_DIR}/include/hooksess/cuda.h)
  add_test(NAME checks/symbols_cuda COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/symbols.sh ${PROJECT_VERSION} $<TARGET_FILE:hooksess_cuda_shared>
                                            ${PROJECT_SOURCE_DIR}/debian/libhooksess-cuda${abi}.symbols)
  file(GLOB tf1_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/hooksess/tf1/*.h)
  add_test(NAME checks/exports_tf1 COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/exports.sh ${abi} $<TARGET_FILE:hooksess_tf1_shared>
                                           $<TARGET_FILE:hooksess_tf1_static> ${tf1_headers})
  add_test(NAME checks/symbols_tf1 COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/symbols.sh ${PROJECT_VERSION} $<TARGET_FILE:hooksess_tf1_shared>
                                           ${PROJECT_SOURCE_DIR}/debian/libhooksess-tf1-${abi}.symbols)
  if(TARGET hooksess_mpi)
    add_test(NAME checks/symbols_mpi COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/symbols.sh ${PROJECT_VERSION} $<TARGET_FILE:hooksess_mpi>
                                             ${PROJECT_SOURCE_DIR}/debian/libhooksess-mpi${abi}.symbols)
    add_test(NAME checks/exports_mpi COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/exports.sh
                                             ${abi} $<TARGET_FILE:hooksess_mpi> "" ${PROJECT_SOURCE_DIR}/include/hooksess/mpi.h)
  endif()
  if(TARGET hooksess_tensorflow)
    add_test(NAME checks/exports_tensorflow COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/checks/exports.sh
                                                    ${abi} $<TARGET_FILE:hooksess_tensorflow> "" ${PROJECT_SOURCE_DIR}/include/hooksess/tensorflow.h
                                                    ${PROJECT_SOURCE_DIR}/include/hooksess/tensorflow_server.h)
  endif()
endif()

# What follows is a matter of the compiler and the linker, the same with sanitizers.
if(HOOKSESS_SANITIZE)
  return()
endif()

add_test(NAME checks/mixed_up COMMAND ${CMAKE_COMMAND} -E env CC=${CMAKE_C_COMPILER} CXX=${CMAKE_CXX_COMPILER} sh
                                      ${CMAKE_CURRENT_LIST_DIR}/mixed_up.sh ${PROJECT_SOURCE_DIR}/include)

add_test(NAME checks/padded COMMAND ${CMAKE_COMMAND} -E env CC=${CMAKE_C_COMPILER} sh ${CMAKE_CURRENT_LIST_DIR}/padded.sh
                                    ${PROJECT_SOURCE_DIR}/include)

# Each public header compiles alone, as C and as C++, under strict warnings.
file(GLOB_RECURSE public_headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h)
set(header_sources)
if(NOT TARGET ggml)
  list(REMOVE_ITEM public_headers hooksess/ggml.h)
endif()
foreach(header IN LISTS public_headers)
  string(MAKE_C_IDENTIFIER ${header} identifier)
  foreach(language IN ITEMS c cpp)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/headers/${identifier}.${language})
    file(CONFIGURE OUTPUT ${file} CONTENT "#include <${header}>\nextern int ${identifier}_compiled;\n")
    list(APPEND header_sources ${file})
  endforeach()
endforeach()
add_library(check_headers OBJECT ${header_sources})
set_target_properties(check_headers PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF CXX_STANDARD 11 CXX_EXTENSIONS OFF)
target_compile_options(check_headers PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                             $<$<BOOL:${HOOKSESS_WERROR}>:-Werror>)
target_include_directories(check_headers PRIVATE ${PROJECT_SOURCE_DIR}/include)
if(TARGET MPI::MPI_C)
  target_link_libraries(check_headers PRIVATE MPI::MPI_C)
endif()
if(TARGET ggml)
  target_include_directories(check_headers SYSTEM PRIVATE ${HOOKSESS_GGML}/include)
endif()

# A session on a backend and with hooks of others needs neither the built-in hooks nor the drivers.
add_library(check_core SHARED "$<FILTER:$<TARGET_OBJECTS:hooksess_objects>,EXCLUDE,/(hooks|drivers)/[^/]*$>"
                              $<TARGET_OBJECTS:hooksess_wire>)
set_target_properties(check_core PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(check_core PRIVATE ${hooksess_libraries} m)
target_link_options(check_core PRIVATE -Wl,--no-undefined)
if(HOOKSESS_COVERAGE)
  target_link_options(check_core PRIVATE --coverage)
endif()
