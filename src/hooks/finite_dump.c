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

/* Fetched tensors are lent to a graph of their own, as its variables: whoever saves variables then saves them. */
typedef struct {
    hs_graph *graph;
    hs_session *session;
    hs_checkpoint_name *names; /* of the variables in the file, and, behind the list, the text of both */
} loan;

/* Names in a graph are of fewer letters than tensors' names: "t0", "t1", ... are called what they are in the file. */
static hs_code make_names(loan *l, const hs_env *env, const hs__watched *watched, hs_error *err)
{
    size_t n = watched->ends[HS__DUMP_ALSO], bytes = (n + 1) * sizeof *l->names, room = 0;
    for (size_t i = 0; i < n; i++)
        room += strlen(watched->names[i]) + 2 * NAME;
    if (!(l->names = hs_env_alloc(env, bytes + room)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the names of the dumped tensors");
    char *text = (char *)(l->names + n + 1);
    for (size_t i = 0; i < n; i++) {
        l->names[i].variable = text;
        text += snprintf(text, NAME, "t%zu", i) + 1;
        l->names[i].name = text;
        text += sprintf(text, "%s/%s", hs__stage_name(hs__watched_stage(watched, i)), watched->names[i]) + 1;
    }
    return HS_OK;
}

static hs_code lend(loan *l, const hs_env *env, const hs__watched *watched, const hs_run_values *values, hs_error *err)
{
    hs_code code = make_names(l, env, watched, err);
    if (code)
        return code;
    if (!(l->graph = hs_graph_new(env)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the dumped tensors");
    for (size_t i = 0; i < watched->ends[HS__DUMP_ALSO]; i++) { /* the graph keeps its first error */
        const hs_tensor *value = hs_run_values_tensor(values, i);
        hs_graph_add_variable(l->graph, HS_VARIABLE_DEF(.name = l->names[i].variable, .dtype = value->dtype,
                                                        .shape = hs_tensor_shape(value), .data = value->data,
                                                        .memory = value->memory));
    }
    l->session = hs_session_open(hs_graph_backend(l->graph), HS_SESSION_OPTIONS(), err);
    return l->session ? HS_OK : err->code;
}

static void take_back(loan *l, const hs_env *env)
{
    hs_session_close(l->session, NULL);
    hs_graph_free(l->graph);
    hs_env_free(env, l->names);
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

/* Also where it cannot be looked. */
static bool is_taken(const hs_env *given, const char *path)
{
    hs_env env;
    return hs__env_take(&env, given, NULL) || !hs__file_missing(&env, path);
}

/* The first number of which neither file is there. -1: none. */
static int find_number(const hs__dump *dump, const hs_env *env, int64_t step)
{
    enum { MOST_TRIES = 1000 };
    char path[PATH];
    for (int try = 0; try < MOST_TRIES; try++) {
        bool taken = false;
        for (int i = 0; i < 2; i++) {
            if (!find_path(path, dump, step, try, i ? ".variables" : ""))
                return -1;
            taken |= is_taken(env, path);
        }
        if (!taken)
            return try;
    }
    return -1;
}

static hs_code save(const hs__dump *dump, const loan *l, hs_raw_session *session, const hs__finding *found, int number,
                    hs_error *err)
{
    char path[PATH], step[NAME];
    snprintf(step, sizeof step, "%lld", (long long)found->step);
    hs_safetensors_options options =
        HS_INIT(hs_safetensors_options, .names = l->names,
                .metadata = HS_SAFETENSORS_METADATA({"step", step}, {"message", found->first}));
    find_path(path, dump, found->step, number, "");
    hs_code code = hs_safetensors_save(hs_session_raw(l->session), path, &options, err);
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
    loan l = {0};
    if (!dump->directory || (dump->most != HS_NEVER && dump->made >= dump->most))
        return;
    dump->made++;
    int number = find_number(dump, env, found->step);
    hs_code code = number < 0 ? hs_error_set(&error, HS_INVALID_ARGUMENT, "all file names for this step are used in '%s'",
                                             dump->directory)
                              : lend(&l, env, watched, values, &error);
    if (!code)
        code = save(dump, &l, session, found, number, &error);
    take_back(&l, env);
    if (code)
        hs_log(env, HS_LOG_WARNING, "step %lld: cannot dump the watched tensors: %s", (long long)found->step,
               error.message);
}
