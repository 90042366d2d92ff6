# SPDX-License-Identifier: Apache-2.0
foreach(module backoff buffer c_locale crc32c crc32c_portable disk dlpack env files files_posix json_reader json_writer locks_posix map nonfinite parallel redirect_posix state status stream tensor text)
  hooksess_test(base ${module})
endforeach()
hooksess_test(base proto base/meter.c)
target_link_options(test_base_map PRIVATE -Wl,--wrap=getrandom)
target_link_options(test_base_files_posix PRIVATE -Wl,--wrap=fsync)
target_link_options(test_base_stream PRIVATE -Wl,--wrap=pthread_create)
if(HOOKSESS_ISAL) # the library does not have it
  target_sources(test_base_crc32c_portable PRIVATE ${PROJECT_SOURCE_DIR}/src/base/crc32c_portable.c)
endif()
target_link_options(test_base_locks_posix PRIVATE -Wl,--wrap=open)
