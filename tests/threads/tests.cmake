# SPDX-License-Identifier: Apache-2.0
hooksess_test(threads coordinator threads/event.c)
hooksess_test(threads thread threads/event.c)
target_link_options(test_threads_thread PRIVATE -Wl,--wrap=hs__thread_start)
hooksess_test(threads looper threads/event.c)
hooksess_test(threads queue_runner threads/source.c)
target_link_options(test_threads_queue_runner PRIVATE -Wl,--wrap=hs__thread_start)
hooksess_test(threads queue)
hooksess_test(threads stress)
