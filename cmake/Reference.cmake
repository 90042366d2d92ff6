# SPDX-License-Identifier: Apache-2.0
# Man pages and shell completions, which are built and installed with the rest, and the target `docs`: the same as HTML. All are
# made from the headers, docs/ and the help texts of the command (cmake/reference).
find_package(Python3 3.9 QUIET COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(STATUS "Python 3.9 or later was not found: no man pages, no shell completions, no target docs")
  return()
endif()

set(hooksess_reference ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1 PYTHONUTF8=1 ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/reference)
file(GLOB_RECURSE hooksess_reference_sources CONFIGURE_DEPENDS include/hooksess/*.h include/hooksess/*.hpp cmake/reference/*.py docs/*.md)
list(APPEND hooksess_reference_sources README.md examples/first_program/first_program.c)

# The help texts come from the command itself, which has to run.
set(hooksess_reference_tool)
if(TARGET hooksess_tool AND NOT CMAKE_CROSSCOMPILING)
  set(hooksess_reference_tool --tool $<TARGET_FILE:hooksess_tool>)
  list(APPEND hooksess_reference_sources hooksess_tool)
else()
  message(STATUS "The command hooksess cannot be run: no hooksess(1), no shell completions")
endif()

# hooksess_add_reference(WHAT): runs cmake/reference when a source has changed.
function(hooksess_add_reference what)
  set(output ${PROJECT_BINARY_DIR}/${what})
  add_custom_command(
    OUTPUT ${output}.stamp
    COMMAND ${hooksess_reference} ${what} ${output} ${hooksess_reference_tool}
    COMMAND ${CMAKE_COMMAND} -E touch ${output}.stamp
    DEPENDS ${hooksess_reference_sources}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMENT "Writing ${output}"
    VERBATIM)
  add_custom_target(hooksess_${what} ALL DEPENDS ${output}.stamp)
endfunction()

hooksess_add_reference(man)
if(hooksess_reference_tool)
  hooksess_add_reference(completions)
endif()
add_custom_target(
  docs
  COMMAND ${hooksess_reference} html ${PROJECT_BINARY_DIR}/html ${hooksess_reference_tool}
  COMMENT "Writing ${PROJECT_BINARY_DIR}/html/index.html"
  VERBATIM)
if(hooksess_reference_tool)
  add_dependencies(docs hooksess_tool)
endif()

if(HOOKSESS_INSTALL)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/man/man3 ${PROJECT_BINARY_DIR}/man/man7 DESTINATION ${CMAKE_INSTALL_MANDIR}
          COMPONENT development)
  if(hooksess_reference_tool)
    install(DIRECTORY ${PROJECT_BINARY_DIR}/man/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools)
    install(FILES ${PROJECT_BINARY_DIR}/completions/hooksess DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            COMPONENT tools)
    install(FILES ${PROJECT_BINARY_DIR}/completions/_hooksess DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
            COMPONENT tools)
  endif()
endif()
