# SPDX-License-Identifier: Apache-2.0
foreach(module IN ITEMS best_effort context feeds fetches hook hook_cost hooks_order manager memory metrics nested null_arguments requests run_args run_options run_step
                        scaffold session_close session_log session_open session_run session_stop session_threads training values
                        wordless)
  hooksess_test(session ${module} session/probe.c backends/bare.c)
endforeach()
hooksess_test(session session_manager backends/bare.c)
hooksess_test(session queued_session)
foreach(module IN ITEMS signals signal_rules)
  hooksess_test(session ${module} session/stand.c session/signalled.c)
  # A race in a process that the test starts is to be its failure.
  set_tests_properties(session/${module} PROPERTIES ENVIRONMENT "TSAN_OPTIONS=halt_on_error=1")
endforeach()
foreach(module IN ITEMS recovery recovery_files recovery_threads)
  hooksess_test(session ${module} session/probe.c session/lost.c)
endforeach()
foreach(module IN ITEMS own_step own_step_hooks own_step_misuse own_step_recovery)
  hooksess_test(session ${module} session/probe.c session/own.c)
endforeach()
