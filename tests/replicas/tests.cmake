# SPDX-License-Identifier: Apache-2.0
hooksess_test(replicas epoch_permutation)
hooksess_test(replicas group)
foreach(module IN ITEMS agreement rank_states)
  hooksess_test(replicas ${module} replicas/ranks.c)
endforeach()
hooksess_test(replicas rng)
