# SPDX-License-Identifier: Apache-2.0
hooksess_test(replicas abandon)
hooksess_test(replicas epoch_permutation)
hooksess_test(replicas group)
hooksess_test(replicas many_ranks)
foreach(module IN ITEMS agreement random_faults rank_states)
  hooksess_test(replicas ${module} replicas/ranks.c)
endforeach()
hooksess_test(replicas rng)
foreach(module IN ITEMS writers group_hooks finite_guard replica_check collective_ops)
  hooksess_test(replicas ${module} replicas/hooked.c)
endforeach()
foreach(module IN ITEMS group_tcp)
  hooksess_test(replicas ${module} replicas/processes.c)
endforeach()

# Groups over MPI.
if(TARGET hooksess_mpi AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE)
  add_executable(mpi_ranks ${CMAKE_CURRENT_LIST_DIR}/mpi_ranks.c)
  hooksess_compile_options(mpi_ranks)
  target_compile_options(mpi_ranks PRIVATE -ffp-contract=off)
  target_link_libraries(mpi_ranks PRIVATE hooksess::mpi hooksess::hooksess m)
  if(TARGET replicas AND TARGET hooksess_tool AND MPIEXEC_EXECUTABLE)
    set(test_mpi ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_mpi.py -v)
    add_test(NAME replicas/mpi COMMAND ${test_mpi} Engine Events Resume FullDisk)
    add_test(NAME replicas/mpi_example COMMAND ${test_mpi} Example)
    add_test(NAME replicas/mpi_failures COMMAND ${test_mpi} Failures)
    add_test(NAME replicas/mpi_faults COMMAND ${test_mpi} Faults)
    set_tests_properties(
      replicas/mpi replicas/mpi_example replicas/mpi_failures replicas/mpi_faults
      PROPERTIES TIMEOUT 900
                 ENVIRONMENT "MPIRUN=${MPIEXEC_EXECUTABLE};MPI_RANKS=$<TARGET_FILE:mpi_ranks>;REPLICAS=$<TARGET_FILE:replicas>;SINGLE=$<TARGET_FILE:single>;HOOKSESS_TOOL=$<TARGET_FILE:hooksess_tool>;PYTHONDONTWRITEBYTECODE=1")
  endif()
endif()
