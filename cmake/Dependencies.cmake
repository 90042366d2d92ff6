# SPDX-License-Identifier: Apache-2.0
# What the library links: protobuf-c (and its compiler, at build time), zlib, threads, and with its option ISA-L.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hooksess_protobuf_c REQUIRED IMPORTED_TARGET GLOBAL libprotobuf-c)
pkg_check_modules(hooksess_zlib REQUIRED IMPORTED_TARGET GLOBAL zlib)
set(hooksess_libraries PkgConfig::hooksess_protobuf_c PkgConfig::hooksess_zlib Threads::Threads ${CMAKE_DL_LIBS})
set(hooksess_pc_requires libprotobuf-c zlib)
if(HOOKSESS_ISAL)
  pkg_check_modules(hooksess_isal REQUIRED IMPORTED_TARGET GLOBAL libisal)
  list(APPEND hooksess_libraries PkgConfig::hooksess_isal)
  list(APPEND hooksess_pc_requires libisal)
endif()
list(JOIN hooksess_pc_requires " " hooksess_pc_requires)

# libhooksess_mpi links MPI. Its target is global, for projects that contain this one.
if(HOOKSESS_MPI)
  find_package(MPI QUIET COMPONENTS C)
  if(TARGET MPI::MPI_C)
    set_target_properties(MPI::MPI_C PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endif()

# The source archive of a release contains the code that protobuf-c's compiler generates. A clone needs the compiler.
# -DHOOKSESS_PROTOC_C=PROGRAM generates the code in both cases.
set(hooksess_wire_dir ${PROJECT_SOURCE_DIR}/src/base/wire)
if(HOOKSESS_PROTOC_C OR NOT EXISTS ${hooksess_wire_dir}/tensor.pb-c.c)
  find_program(HOOKSESS_PROTOC_C protoc-c REQUIRED)
  set(hooksess_wire_dir ${PROJECT_BINARY_DIR}/src/wire)
endif()
