/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/trace_file.h"

#include "base/files.h"
#include "summary/trace.h"

#include <string.h>

static hs_code fill(hs__trace *trace, const hs__trace_file *file, const hs_env *env, hs_error *err)
{
    int64_t to_realtime_ns = hs_env_realtime_ns(env) - hs_env_monotonic_ns(env);
    hs__trace_spans(trace, file->spans, file->n_spans, to_realtime_ns);
    hs_code code = hs__trace_run(trace, file->metadata, file->memory, err);
    return code ? code : hs__trace_finish(trace, file->step, err);
}

static hs_code put(const hs__trace *trace, const char *directory, const char *path, const hs_env *env, hs_error *err)
{
    if (!path)
        return hs__no_memory(err, strlen(directory), "a path");
    hs_code code = hs__make_directories(env, directory, err);
    return code ? code : hs__file_replace(env, path, trace->json.data, trace->json.size, true, err);
}

hs_code hs__trace_file_write(const hs__trace_file *file, const hs_env *env, hs_error *err)
{
    hs__trace trace;
    hs__trace_begin(&trace, env, file->max_bytes);
    char *name = hs__format(env, "timeline-%lld.json", (long long)file->step);
    char *path = name ? hs__path_join(env, file->directory, name) : NULL;
    hs_code code = fill(&trace, file, env, err);
    if (!code && !(code = put(&trace, file->directory, path, env, err))) {
        hs_log(env, HS_LOG_INFO, "the profile of step %lld is in %s", (long long)file->step, path);
        if (trace.dropped)
            hs_log(env, HS_LOG_WARNING, "%s: %lld events had no room in %zu bytes (max_bytes)", path,
                   (long long)trace.dropped, file->max_bytes);
    }
    hs__free(env, path);
    hs__free(env, name);
    hs__trace_free(&trace);
    return code;
}
