# SPDX-License-Identifier: Apache-2.0
foreach(module backoff buffer crc32c disk dlpack env files files_posix locks_posix map nonfinite parallel redirect_posix state status stream tensor)
  hooksess_test(base ${module})
endforeach()
hooksess_test(base proto base/meter.c)
target_link_options(test_base_map PRIVATE -Wl,--wrap=getrandom)
target_link_options(test_base_files_posix PRIVATE -Wl,--wrap=fsync)
target_link_options(test_base_stream PRIVATE -Wl,--wrap=pthread_create)
