# SPDX-License-Identifier: Apache-2.0
foreach(module saver directory manage nonfinite partial retention restore newest state round_trip damage faults durability state_file reader graph_file)
  hooksess_test(checkpoint ${module} checkpoint/model.c)
endforeach()
