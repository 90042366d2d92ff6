/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables are saved or restored, and under which names. The lists are copied once, and checked for each save. */
#include "checkpoint/selection.h"

#include "base/map.h"

#include <string.h>

/* Copying. */

/* `list`: elements of `size` bytes, each of which begins with a name. NULL ends it. May be NULL. */
static const char *name_at(const void *list, size_t size, size_t i)
{
    return list ? *(const char *const *)(const void *)((const char *)list + i * size) : NULL;
}

hs_code hs__check_once(const hs_env *env, const void *list, size_t size, const char *begin, hs_error *err)
{
    const char *name;
    hs__map seen;
    hs_code code = HS_OK;
    hs__map_init(&seen, env);
    for (size_t i = 0; !code && (name = name_at(list, size, i)); i++)
        code = hs__map_find(&seen, name) == HS__NONE ? hs__map_add(&seen, name, 0, NULL, err)
                                                     : hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s' twice", begin, name);
    hs__map_free(&seen);
    return code;
}

static hs_code copy_names(hs__selection *selection, const hs_env *env, const hs_checkpoint_name *names, hs_error *err)
{
    size_t n = 0;
    while (names[n].variable)
        n++;
    hs_checkpoint_name *copies = hs__alloc(env, n + 1, sizeof *copies);
    if (!(selection->names = copies))
        return hs__no_memory(err, n * sizeof *copies, "a saver's names");
    for (size_t i = 0; i < n; i++) {
        if (!names[i].name || !*names[i].name)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.names lists '%s' without a name",
                                names[i].variable);
        copies[i].variable = hs__strdup(env, names[i].variable);
        copies[i].name = copies[i].variable ? hs__strdup(env, names[i].name) : NULL;
        if (!copies[i].name)
            return hs__no_memory(err, strlen(names[i].name), "a saver's names");
    }
    return hs__check_once(env, copies, sizeof *copies, "hs_saver_options.names lists variable", err);
}

hs_code hs__selection_init(hs__selection *selection, const hs_env *env, const char *const *variables,
                           const hs_checkpoint_name *names, hs_error *err)
{
    *selection = (hs__selection){.names = NULL};
    hs_code code = hs__check_once(env, variables, sizeof *variables, "hs_saver_options.variables lists", err);
    if (!code && variables && !(selection->variables = hs__names_copy(env, variables)))
        code = hs__no_memory(err, sizeof *variables, "a saver's variables");
    return !code && names ? copy_names(selection, env, names, err) : code;
}

void hs__selection_free(hs__selection *selection, const hs_env *env)
{
    hs__free(env, (void *)selection->variables);
    for (size_t i = 0; selection->names && selection->names[i].variable; i++) {
        hs__free(env, (void *)selection->names[i].variable);
        hs__free(env, (void *)selection->names[i].name);
    }
    hs__free(env, (void *)selection->names);
    *selection = (hs__selection){.names = NULL};
}

/* Selecting. */

bool hs__is_listed(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list;
}

const char *hs__name_in(const hs_checkpoint_name *names, const char *variable)
{
    for (size_t i = 0; names && names[i].variable; i++)
        if (strcmp(names[i].variable, variable) == 0)
            return names[i].name;
    return NULL;
}

const char *hs__selection_name(const hs__selection *selection, const char *variable)
{
    const char *name = hs__name_in(selection->names, variable);
    return name ? name : variable;
}

bool hs__selection_next(const hs__selection *selection, const hs_raw_session *session, size_t *index, hs_variable *out)
{
    for (; hs__session_variable(session, *index, out); ++*index)
        if (selection->variables ? hs__is_listed(selection->variables, out->name) : !(out->flags & HS_VARIABLE_LOCAL))
            return true;
    return false;
}

/* Another name of a slice is the name of the whole. */
bool hs__selection_slice(const hs__selection *selection, const hs_raw_session *session, size_t index, const char *variable,
                         hs_variable_slice *out)
{
    if (selection->without_slices || !session->ops.variable_slice ||
        !session->ops.variable_slice(session->backend.self, index, out))
        return false;
    const char *name = hs__name_in(selection->names, variable);
    if (name)
        out->name = name;
    return true;
}

/* Checking. */

hs_code hs__check_variables(const hs_raw_session *session, const void *list, size_t size, const char *begin, hs_error *err)
{
    const char *name;
    for (size_t i = 0; (name = name_at(list, size, i)); i++)
        if (!hs__session_find_variable(session, name, &(size_t){0}, &(hs_variable){0}))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s', which is not a variable of the graph", begin, name);
    return HS_OK;
}

hs_code hs__selection_check(const hs__selection *selection, const hs_raw_session *session, hs_error *err)
{
    hs_code code = hs__check_variables(session, selection->variables, sizeof *selection->variables, "the saver saves", err);
    return code ? code : hs__check_variables(session, selection->names, sizeof *selection->names, "the saver saves", err);
}

hs_code hs__check_saved_name(const char *name, hs_error *err)
{
    if (strncmp(name, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) != 0)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "variable '%s': names that begin with %s are reserved for state", name,
                        HS__STATE_PREFIX);
}
