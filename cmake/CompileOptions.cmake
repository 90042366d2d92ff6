# SPDX-License-Identifier: Apache-2.0
# hooksess_compile_options(TARGET): how this project's own code is compiled.
function(hooksess_compile_options target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
                                             C_VISIBILITY_PRESET hidden)
  target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L)
  # An exception that a callback in C++ throws passes through the library, which then cleans up.
  target_compile_options(${target} PRIVATE -fexceptions)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
                                           -Wmissing-prototypes $<$<BOOL:${HOOKSESS_WERROR}>:-Werror>)
  if(CMAKE_C_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE -Wno-missing-field-initializers) # it warns of {NULL}, GCC does not
  endif()
  if(HOOKSESS_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${HOOKSESS_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE -fsanitize=${HOOKSESS_SANITIZE})
  endif()
  if(HOOKSESS_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage)
    target_compile_definitions(${target} PRIVATE HOOKSESS_COVERAGE)
    target_link_options(${target} PRIVATE --coverage)
  endif()
endfunction()
