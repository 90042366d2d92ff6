# SPDX-License-Identifier: Apache-2.0
hooksess_test(replicas group)
foreach(module IN ITEMS agreement rank_states)
  hooksess_test(replicas ${module} replicas/ranks.c)
endforeach()
foreach(module IN ITEMS writers group_hooks finite_guard replica_check collective_ops)
  hooksess_test(replicas ${module} replicas/hooked.c)
endforeach()
