# SPDX-License-Identifier: Apache-2.0
foreach(module saver background overlap directory manage nonfinite partial retention restore newest state round_trip state_file reader kill
               graph_file verify rows directories)
  hooksess_test(checkpoint ${module} checkpoint/model.c)
endforeach()
foreach(module durability faults wordless_files unreadable)
  hooksess_test(checkpoint ${module} checkpoint/model.c base/file_spy.c)
endforeach()
foreach(module crash crash_rollback damage disk_faults)
  hooksess_test(checkpoint ${module} checkpoint/machine.c checkpoint/model.c)
endforeach()
hooksess_test(checkpoint hostile checkpoint/model.c formats/bundles.c base/meter.c)
