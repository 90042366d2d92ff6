# SPDX-License-Identifier: Apache-2.0
foreach(module IN ITEMS graph_build graph_resolve graph_order graph_run graph_feed graph_init graph_device graph_def graph_memory graph_moving)
  hooksess_test(backends ${module} backends/bare.c)
endforeach()
foreach(module IN ITEMS graph_queue graph_queue_hostile graph_queue_position graph_fork)
  hooksess_test(backends ${module} backends/bare.c backends/queued.c)
endforeach()
hooksess_count_waits(backends graph_queue)
hooksess_test(backends backend)
