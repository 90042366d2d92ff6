# SPDX-License-Identifier: Apache-2.0
foreach(module IN ITEMS best_effort context feeds fetches hook hook_cost hooks_order manager memory metrics missing_messages
                        nested null_arguments requests run_options run_step scaffold session_close session_log
                        session_open session_run session_stop session_threads training values)
  hooksess_test(session ${module} session/probe.c backends/bare.c)
endforeach()
hooksess_test(session plans)
hooksess_test(session when)
hooksess_test(session forked_child summary/events.c)
# A child would never get libasan's lock of stack traces, if another thread held it at the fork.
set_tests_properties(session/forked_child PROPERTIES ENVIRONMENT "ASAN_OPTIONS=malloc_context_size=0")

add_executable(session_exceptions session/test_exceptions.cpp)
set_target_properties(session_exceptions PROPERTIES CXX_STANDARD 11 CXX_EXTENSIONS OFF)
target_link_libraries(session_exceptions PRIVATE hooksess_test_support)
if(HOOKSESS_SANITIZE)
  target_compile_options(session_exceptions PRIVATE -fsanitize=${HOOKSESS_SANITIZE})
  target_link_options(session_exceptions PRIVATE -fsanitize=${HOOKSESS_SANITIZE})
endif()
if(HOOKSESS_COVERAGE)
  target_link_options(session_exceptions PRIVATE --coverage)
endif()
add_test(NAME session/exceptions COMMAND session_exceptions)

hooksess_test(session queued_session)
foreach(module IN ITEMS signals signal_rules)
  hooksess_test(session ${module} session/stand.c session/signaled.c)
  # A race in a process that the test starts must fail the test.
  set_tests_properties(session/${module} PROPERTIES ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1")
endforeach()
hooksess_move_clock(session signal_rules)
foreach(module IN ITEMS recovery recovery_files recovery_state recovery_threads)
  hooksess_test(session ${module} session/probe.c session/lost.c)
endforeach()
foreach(module IN ITEMS own_step own_step_hooks own_step_misuse own_step_recovery stop_boundary)
  hooksess_test(session ${module} session/probe.c session/own.c)
endforeach()
hooksess_move_clock(session own_step_hooks)
hooksess_test(session wants session/probe.c session/own.c summary/events.c)
