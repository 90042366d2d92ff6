/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_TRACE_FILE_H
#define HS_HOOKS_TRACE_FILE_H

#include <hooksess/hook.h>

/* The trace of a run in a file, for hooks, which know no other floor. */
typedef struct hs__trace_file {
    const char *directory; /* made if it is missing; the file is timeline-STEP.json */
    int64_t step;
    hs_bytes metadata; /* the run's */
    bool memory;
    const hs_hook_span *spans;
    size_t n_spans, max_bytes;
} hs__trace_file;

/* Whoever looks for the file sees none, or the whole of it. Says in the log where it is, and what found no room in it. */
hs_code hs__trace_file_write(const hs__trace_file *file, const hs_env *env, hs_error *err);

#endif
