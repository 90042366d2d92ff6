# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)

set(hooksess_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hooksess)

install(DIRECTORY include/hooksess DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})

# An export set for each kind of library: a program that uses the shared ones needs none of the static ones' dependencies.
foreach(kind IN ITEMS shared static)
  if(TARGET hooksess_${kind})
    install(
      TARGETS hooksess_${kind} hooksess_testing_${kind}
      EXPORT hooksess-${kind}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(
      EXPORT hooksess-${kind}
      NAMESPACE hooksess::
      DESTINATION ${hooksess_package_dir})
  endif()
endforeach()

# In an export set of its own, over the shared library, or over the static one where there is no other.
if(TARGET hooksess_tensorflow)
  install(
    TARGETS hooksess_tensorflow
    EXPORT hooksess-tensorflow
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(
    EXPORT hooksess-tensorflow
    NAMESPACE hooksess::
    DESTINATION ${hooksess_package_dir})
endif()

if(TARGET hooksess_tool)
  install(TARGETS hooksess_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(cmake/hooksessConfig.cmake.in ${PROJECT_BINARY_DIR}/hooksessConfig.cmake
                              INSTALL_DESTINATION ${hooksess_package_dir})
# The ABI is that of the minor version until 1.0, and of the major version from then on (docs/abi.md); so is the soname.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hooksessConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hooksessConfig.cmake ${PROJECT_BINARY_DIR}/hooksessConfigVersion.cmake
        DESTINATION ${hooksess_package_dir})

# The prefix follows from where the .pc file is, so that the tree can be moved.
cmake_path(SET pc_dir NORMALIZE "/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH hooksess_pc_to_prefix "${pc_dir}" "/")
string(REGEX REPLACE "/$" "" hooksess_pc_to_prefix "${hooksess_pc_to_prefix}")
foreach(name IN ITEMS hooksess hooksess_testing)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
