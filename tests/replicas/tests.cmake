# SPDX-License-Identifier: Apache-2.0
hooksess_test(replicas abandon)
hooksess_test(replicas chief_hooks)
hooksess_test(replicas epoch_permutation)
hooksess_test(replicas group)
hooksess_test(replicas group_tcp_hello)
hooksess_test(replicas many_ranks)
foreach(module IN ITEMS agreement random_faults)
  hooksess_test(replicas ${module} replicas/ranks.c)
endforeach()
hooksess_test(replicas rank_parts base/file_spy.c)
hooksess_test(replicas rank_states replicas/ranks.c base/file_spy.c)
hooksess_test(replicas rank_variables)
hooksess_test(replicas rng)
foreach(module IN ITEMS calls writers group_hooks finite_guard replica_check collective_ops)
  hooksess_test(replicas ${module} replicas/hooked.c)
endforeach()
foreach(module IN ITEMS group_tcp group_tcp_attempts group_tcp_faults group_tcp_sessions group_tcp_start)
  hooksess_test(replicas ${module} replicas/processes.c)
endforeach()
hooksess_move_clock(replicas group_tcp_attempts)
hooksess_move_clock(replicas group_tcp_start)
foreach(function IN ITEMS poll send)
  target_link_options(test_replicas_group_tcp_attempts PRIVATE -Wl,--wrap=${function})
endforeach()
foreach(function IN ITEMS connect getaddrinfo gethostname poll send)
  target_link_options(test_replicas_group_tcp_start PRIVATE -Wl,--wrap=${function})
endforeach()

# Ranks for test_launching.py, and for test_torchrun.py and test_hosts.py, which tests/nightly runs.
foreach(program IN ITEMS env_ranks train_ranks)
  add_executable(${program} ${CMAKE_CURRENT_LIST_DIR}/${program}.c)
  hooksess_compile_options(${program})
  target_link_libraries(${program} PRIVATE hooksess::hooksess)
endforeach()
target_compile_options(train_ranks PRIVATE -ffp-contract=off)
if(TARGET hooksess_tool)
  add_test(NAME replicas/launching COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_launching.py -v)
  set_tests_properties(
    replicas/launching
    PROPERTIES ENVIRONMENT "TRAIN_RANKS=$<TARGET_FILE:train_ranks>;HOOKSESS_TOOL=$<TARGET_FILE:hooksess_tool>;PYTHONDONTWRITEBYTECODE=1")
endif()
if(TARGET hooksess_tool AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE)
  # The others of this file take minutes; tests/nightly runs them.
  add_test(NAME replicas/hosts COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_hosts.py -v Training.test_a_short_partition
                                       Training.test_two_starts_in_one_directory)
  set_tests_properties(
    replicas/hosts
    PROPERTIES ENVIRONMENT "ENV_RANKS=$<TARGET_FILE:env_ranks>;TRAIN_RANKS=$<TARGET_FILE:train_ranks>;HOOKSESS_TOOL=$<TARGET_FILE:hooksess_tool>;PYTHONDONTWRITEBYTECODE=1")
endif()

# Groups over MPI.
if(TARGET hooksess_mpi AND NOT HOOKSESS_SANITIZE AND NOT HOOKSESS_COVERAGE)
  add_executable(mpi_ranks ${CMAKE_CURRENT_LIST_DIR}/mpi_ranks.c)
  hooksess_compile_options(mpi_ranks)
  target_compile_options(mpi_ranks PRIVATE -ffp-contract=off)
  target_link_libraries(mpi_ranks PRIVATE hooksess::mpi hooksess::hooksess m)
  # A C++ program links without MPI's library for C++.
  add_executable(mpi_single ${CMAKE_CURRENT_LIST_DIR}/mpi_single.cpp)
  target_link_libraries(mpi_single PRIVATE hooksess::mpi hooksess::hooksess)
  add_test(NAME replicas/mpi_single COMMAND mpi_single)
  if(TARGET replicas AND TARGET hooksess_tool AND MPIEXEC_EXECUTABLE)
    set(trainer)
    if(TARGET trainer)
      set(trainer $<TARGET_FILE:trainer>)
    endif()
    set(test_mpi ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_mpi.py -v)
    add_test(NAME replicas/mpi COMMAND ${test_mpi} Engine Events Resume FullDisk)
    add_test(NAME replicas/mpi_example COMMAND ${test_mpi} Example Trainer)
    add_test(NAME replicas/mpi_failures COMMAND ${test_mpi} Failures)
    add_test(NAME replicas/mpi_faults COMMAND ${test_mpi} Faults)
    set_tests_properties(
      replicas/mpi replicas/mpi_example replicas/mpi_failures replicas/mpi_faults
      PROPERTIES TIMEOUT 900
                 ENVIRONMENT "MPIRUN=${MPIEXEC_EXECUTABLE};MPI_RANKS=$<TARGET_FILE:mpi_ranks>;REPLICAS=$<TARGET_FILE:replicas>;SINGLE=$<TARGET_FILE:single>;TRAINER=${trainer};REPLICAS_SOURCE=${PROJECT_SOURCE_DIR}/examples/replicas;HOOKSESS_TOOL=$<TARGET_FILE:hooksess_tool>;PYTHONDONTWRITEBYTECODE=1")
  endif()
endif()
