# SPDX-License-Identifier: Apache-2.0
hooksess_test(summary summary)
hooksess_test(summary writer summary/events.c)
hooksess_test(summary writer_faults summary/events.c)
hooksess_test(summary writer_files summary/events.c base/file_spy.c)
hooksess_test(summary writer_cache summary/events.c)
hooksess_test(summary crash)
hooksess_test(summary trace)
