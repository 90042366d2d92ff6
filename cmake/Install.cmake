# SPDX-License-Identifier: Apache-2.0
# Install rules by component, so that packages can divide the files:
#   runtime        libhooksess.so.0.1
#   development    headers, libhooksess.so, libhooksess.a, the CMake package and hooksess.pc
#   tools          the command `hooksess`
#   cuda           libhooksess_cuda with its header, CMake targets and .pc file
#   testing        libhooksess_testing with its header, CMake targets and .pc file
#   tf1            libhooksess_tf1 with its headers, CMake targets and .pc file
#   tensorflow     libhooksess_tensorflow with its headers and CMake target
#   mpi            libhooksess_mpi with its header, CMake target and .pc file
#   documentation  README, change log, license, security, documents and examples
# Rules without a component belong to development.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
include(CMakePackageConfigHelpers)

set(hooksess_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/hooksess)

# hooksess_install_export(SET COMPONENT): the CMake targets of an export set.
function(hooksess_install_export set component)
  install(
    EXPORT ${set}
    NAMESPACE hooksess::
    DESTINATION ${hooksess_package_dir}
    COMPONENT ${component})
endfunction()

install(
  DIRECTORY include/hooksess
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development
  PATTERN cuda.h EXCLUDE
  PATTERN mpi.h EXCLUDE
  PATTERN simulation.h EXCLUDE
  PATTERN testing.h EXCLUDE
  PATTERN tf1 EXCLUDE
  PATTERN tensorflow*.h EXCLUDE)
install(FILES include/hooksess/cuda.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hooksess COMPONENT cuda)
install(FILES include/hooksess/simulation.h include/hooksess/testing.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hooksess COMPONENT testing)
install(DIRECTORY include/hooksess/tf1 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hooksess COMPONENT tf1)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation PATTERN __pycache__ EXCLUDE)

# One export set per library: a program that links the shared libraries needs no dependencies of the static ones, and
# the libraries beside it can be missing.
foreach(kind IN ITEMS shared static)
  if(TARGET hooksess_${kind})
    install(
      TARGETS hooksess_${kind}
      EXPORT hooksess-${kind}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
    hooksess_install_export(hooksess-${kind} development)
    foreach(beside IN ITEMS cuda testing tf1)
      install(
        TARGETS hooksess_${beside}_${kind}
        EXPORT hooksess-${beside}-${kind}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${beside}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${beside})
      hooksess_install_export(hooksess-${beside}-${kind} ${beside})
    endforeach()
  endif()
endforeach()

# It uses the shared library, or the static one if only that is built.
if(TARGET hooksess_tensorflow)
  install(
    TARGETS hooksess_tensorflow
    EXPORT hooksess-tensorflow
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tensorflow
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tensorflow)
  hooksess_install_export(hooksess-tensorflow tensorflow)
  install(FILES include/hooksess/tensorflow.h include/hooksess/tensorflow_server.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hooksess COMPONENT tensorflow)
endif()

# It uses the same library as libhooksess_tensorflow.
if(TARGET hooksess_mpi)
  install(
    TARGETS hooksess_mpi
    EXPORT hooksess-mpi
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
  hooksess_install_export(hooksess-mpi mpi)
  install(FILES include/hooksess/mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hooksess COMPONENT mpi)
endif()

if(TARGET hooksess_tool)
  install(TARGETS hooksess_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()

configure_package_config_file(cmake/hooksessConfig.cmake.in ${PROJECT_BINARY_DIR}/hooksessConfig.cmake
                              INSTALL_DESTINATION ${hooksess_package_dir})
# The ABI is that of the minor version until 1.0, and of the major version from then on (docs/abi.md); so is the soname.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hooksessConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/hooksessConfig.cmake ${PROJECT_BINARY_DIR}/hooksessConfigVersion.cmake
  DESTINATION ${hooksess_package_dir}
  COMPONENT development)

# The prefix follows from where the .pc file is, so that the tree can be moved.
cmake_path(SET pc_dir NORMALIZE "/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH hooksess_pc_to_prefix "${pc_dir}" "/")
string(REGEX REPLACE "/$" "" hooksess_pc_to_prefix "${hooksess_pc_to_prefix}")
foreach(name IN ITEMS hooksess hooksess_cuda hooksess_mpi hooksess_testing hooksess_tf1)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/hooksess.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/hooksess_cuda.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT cuda)
install(FILES ${PROJECT_BINARY_DIR}/hooksess_testing.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT testing)
install(FILES ${PROJECT_BINARY_DIR}/hooksess_tf1.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT tf1)
if(TARGET hooksess_mpi)
  install(FILES ${PROJECT_BINARY_DIR}/hooksess_mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT mpi)
endif()

# `cpack` in the build directory packs all of it into one archive, which can be unpacked anywhere.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_VENDOR "The libhooksess maintainers")
  set(CPACK_PACKAGE_FILE_NAME hooksess-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_PACKAGE_CHECKSUM SHA256)
  set(CPACK_VERBATIM_VARIABLES ON)
  include(CPack)
  # cmake/release.sh makes the source archive. Without this file CMake defines no target package_source.
  file(REMOVE ${CPACK_SOURCE_OUTPUT_CONFIG_FILE})
endif()
