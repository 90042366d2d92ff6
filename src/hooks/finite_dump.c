/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/finite_dump.h"

#include <hooksess/graph.h>
#include <hooksess/safetensors.h>
#include <hooksess/session.h>

#include "base/files.h"
#include "hooks/lookup.h"

#include <stdio.h>
#include <string.h>

enum { PATH = 4096, NAME = 32 };

/* The fetched tensors become variables of a temporary graph, because hs_safetensors_save saves the variables of a session.
 */
typedef struct {
    hs_graph *graph;
    hs_session *session;
    hs_checkpoint_name *names; /* names of the variables in the file; the text is in the same block */
} temporary_graph;

/* Not all tensors' names are allowed for variables, so the variables are "t0", "t1" and so on. */
static hs_code make_names(temporary_graph *temporary, const hs_env *env, const hs__watched *watched, hs_error *err)
{
    size_t n = watched->ends[HS__DUMP_ALSO], bytes = (n + 1) * sizeof *temporary->names, room = 0;
    for (size_t i = 0; i < n; i++)
        room += strlen(watched->names[i]) + 2 * NAME;
    if (!(temporary->names = hs_env_alloc(env, bytes + room)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the names of the dumped tensors");
    char *text = (char *)(temporary->names + n + 1);
    for (size_t i = 0; i < n; i++) {
        temporary->names[i].variable = text;
        text += snprintf(text, NAME, "t%zu", i) + 1;
        temporary->names[i].name = text;
        text += sprintf(text, "%s/%s", hs__stage_name(hs__watched_stage(watched, i)), watched->names[i]) + 1;
    }
    return HS_OK;
}

static hs_code open_graph(temporary_graph *temporary, const hs_env *env, const hs__watched *watched,
                          const hs_run_values *values, hs_error *err)
{
    hs_code code = make_names(temporary, env, watched, err);
    if (code)
        return code;
    if (!(temporary->graph = hs_graph_new(env)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the dumped tensors");
    for (size_t i = 0; i < watched->ends[HS__DUMP_ALSO]; i++) { /* the graph keeps its first error */
        const hs_tensor *value = hs_run_values_tensor(values, i);
        hs_graph_add_variable(temporary->graph, HS_VARIABLE_DEF(.name = temporary->names[i].variable, .dtype = value->dtype,
                                                                .shape = hs_tensor_shape(value), .data = value->data,
                                                                .memory = value->memory));
    }
    temporary->session = hs_session_open(hs_graph_backend(temporary->graph), HS_SESSION_OPTIONS(), err);
    return temporary->session ? HS_OK : err->code;
}

static void close_graph(temporary_graph *temporary, const hs_env *env)
{
    hs_session_close(temporary->session, NULL);
    hs_graph_free(temporary->graph);
    hs_env_free(env, temporary->names);
}

static bool find_path(char *path, const hs__dump *dump, int64_t step, int try, const char *ending)
{
    char number[NAME] = "";
    if (try)
        snprintf(number, sizeof number, ".%d", try);
    int length =
        snprintf(path, PATH, "%s/finite_guard-%lld%s%s.safetensors", dump->directory, (long long)step, number, ending);
    return length > 0 && length < PATH;
}

/* True also if this cannot be determined. */
static bool file_may_exist(const hs_env *given, const char *path)
{
    hs_env env;
    return hs__env_take(&env, given, NULL) || !hs__file_missing(&env, path);
}

/* Returns the first number for which neither file exists. -1: all are used. */
static int find_number(const hs__dump *dump, const hs_env *env, int64_t step)
{
    enum { MOST_TRIES = 1000 };
    char path[PATH];
    for (int try = 0; try < MOST_TRIES; try++) {
        bool used = false;
        for (int i = 0; i < 2; i++) {
            if (!find_path(path, dump, step, try, i ? ".variables" : ""))
                return -1;
            used |= file_may_exist(env, path);
        }
        if (!used)
            return try;
    }
    return -1;
}

static hs_code save(const hs__dump *dump, const temporary_graph *temporary, hs_raw_session *session,
                    const hs__finding *found, int number, hs_error *err)
{
    char path[PATH], step[NAME];
    snprintf(step, sizeof step, "%lld", (long long)found->step);
    hs_safetensors_options options =
        HS_INIT(hs_safetensors_options, .names = temporary->names,
                .metadata = HS_SAFETENSORS_METADATA({"step", step}, {"message", found->first}));
    find_path(path, dump, found->step, number, "");
    hs_code code = hs_safetensors_save(hs_session_raw(temporary->session), path, &options, err);
    if (code)
        return code;
    const hs_env *env = hs__session_env(session);
    hs_log(env, HS_LOG_INFO, "step %s: dumped the watched tensors to %s", step, path);
    options.names = NULL;
    find_path(path, dump, found->step, number, ".variables");
    return hs_safetensors_save(session, path, &options, err);
}

void hs__dump_write(hs__dump *dump, const hs__watched *watched, hs_raw_session *session, const hs_run_values *values,
                    const hs__finding *found)
{
    const hs_env *env = hs__session_env(session);
    hs_error error = {0};
    temporary_graph temporary = {0};
    if (!dump->directory || (dump->most != HS_NEVER && dump->made >= dump->most))
        return;
    dump->made++;
    int number = find_number(dump, env, found->step);
    hs_code code = number < 0 ? hs_error_set(&error, HS_INVALID_ARGUMENT, "all file names for this step are used in '%s'",
                                             dump->directory)
                              : open_graph(&temporary, env, watched, values, &error);
    if (!code)
        code = save(dump, &temporary, session, found, number, &error);
    close_graph(&temporary, env);
    if (code)
        hs_log(env, HS_LOG_WARNING, "step %lld: cannot dump the watched tensors: %s", (long long)found->step,
               error.message);
}
