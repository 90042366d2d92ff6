# SPDX-License-Identifier: Apache-2.0
foreach(module timer stop_at_step logging_tensor nan_tensor null_options)
  hooksess_test(hooks ${module} hooks/stage.c)
endforeach()
foreach(module summary_saver checkpoint_saver checkpoint_listeners checkpoint_files checkpoint_background resumed_rhythm)
  hooksess_test(hooks ${module} hooks/stage.c summary/events.c checkpoint/model.c)
endforeach()
