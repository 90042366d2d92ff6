# SPDX-License-Identifier: Apache-2.0
foreach(module saver directory nonfinite partial restore newest state round_trip damage faults durability state_file reader verify graph_file)
  hooksess_test(checkpoint ${module} checkpoint/model.c)
endforeach()
