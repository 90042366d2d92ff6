# SPDX-License-Identifier: Apache-2.0
hooksess_test(replicas group)
hooksess_test(replicas many_ranks)
foreach(module IN ITEMS agreement random_faults rank_states)
  hooksess_test(replicas ${module} replicas/ranks.c)
endforeach()
foreach(module IN ITEMS writers group_hooks finite_guard replica_check collective_ops)
  hooksess_test(replicas ${module} replicas/hooked.c)
endforeach()
