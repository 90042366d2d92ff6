/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a run's trace to a file (session/services.h). */
#include "base/files.h"
#include "session/session.h"
#include "summary/trace.h"

#include <string.h>

/* Of the events in a file, which viewers load whole. Later events are dropped and counted. */
static const size_t MAX_BYTES = (size_t)64 << 20;

hs_code hs__run_context_write_trace(const hs_run_context *run, int64_t step, const hs__trace_options *options,
                                    hs_error *err)
{
    const hs_env *env = &run->session->env;
    hs__trace trace;
    size_t n;
    const hs__hook_span *spans = hs__run_context_spans(run, &n);
    hs__trace_begin(&trace, env, MAX_BYTES);
    hs__trace_spans(&trace, spans, n, hs_env_realtime_ns(env) - hs_env_monotonic_ns(env));
    hs_code code = hs__trace_run(&trace, options->metadata, options->show_memory, err);
    if (!code)
        code = hs__trace_finish(&trace, step, err);
    char *name = hs__format(env, "timeline-%lld.json", (long long)step);
    char *path = name ? hs__path_join(env, options->directory, name) : NULL;
    if (!code && !path)
        code = hs__no_memory(err, strlen(options->directory), "a path");
    if (!code)
        code = hs__make_directories(env, options->directory, err);
    if (!code)
        code = hs__file_replace(env, path, trace.json.data, trace.json.size, true, err);
    if (!code) {
        hs_log(env, HS_LOG_INFO, "step %lld: wrote profile %s", (long long)step, path);
        if (trace.dropped)
            hs_log(env, HS_LOG_WARNING, "%s: %lld events were dropped, because they exceed %zu bytes", path,
                   (long long)trace.dropped, MAX_BYTES);
    }
    hs__free(env, path);
    hs__free(env, name);
    hs__trace_free(&trace);
    return code;
}
