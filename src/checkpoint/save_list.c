/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/save_list.h"

#include "checkpoint/stored_states.h"

#include <stdlib.h>
#include <string.h>

hs_code hs__check_saved_name(const char *name, hs_error *err)
{
    if (strncmp(name, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) != 0)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "variable '%s': names that begin with %s are reserved for state", name,
                        HS__STATE_PREFIX);
}

hs_code hs__read_variable(const hs_raw_session *session, size_t index, const char *name, hs_host_copy *copy,
                          hs_tensor *host, hs_error *err)
{
    hs_tensor value;
    hs_code code = hs__session_read(session, index, name, &value, err);
    if (code)
        return code;
    code = hs__settle(hs_tensor_host(&value, copy, host, err), "hs_memory.to_host", err);
    if (code)
        hs_error_prefix(err, "cannot read variable '%s'", name);
    return code;
}

hs_code hs__saved_write(const hs__saved *saved, hs__bundle_writer *writer, hs_error *err)
{
    writer->ignores_nonfinite = saved->nonfinite;
    return saved->produce ? hs__bundle_writer_add_bytes(writer, saved->name, saved->produce, saved->source, err)
                          : hs__bundle_writer_add(writer, saved->name, &saved->value, err);
}

/* A variable that is saved. */
typedef struct {
    const char *name;     /* in the checkpoint */
    const char *variable; /* in the backend, like its index */
    size_t index;
    uint64_t bytes, whole_bytes; /* the latter of what it is a part of */
    bool is_part, follows;       /* as in hs__saved */
    uint64_t flags;              /* as in hs_variable */
    hs_variable_slice slice;
} saved_variable;

static uint64_t bytes_of(hs_dtype dtype, const hs_shape *shape)
{
    int64_t n = hs_shape_elements(shape);
    return n > 0 ? (uint64_t)n * hs_dtype_size(dtype) : 0;
}

static int by_name(const void *a, const void *b)
{
    const saved_variable *first = a, *second = b;
    int found = strcmp(first->name, second->name);
    for (int32_t i = 0; !found && first->is_part && second->is_part && i < first->slice.shape.rank; i++)
        found = (first->slice.starts[i] > second->slice.starts[i]) - (first->slice.starts[i] < second->slice.starts[i]);
    return found;
}

static saved_variable describe(const hs_saver *saver, const hs_raw_session *session, size_t index,
                               const hs_variable *variable)
{
    saved_variable v = {.variable = variable->name,
                        .index = index,
                        .bytes = bytes_of(variable->dtype, &variable->shape),
                        .flags = variable->flags};
    bool of_larger = hs__saver_slice(saver, session, index, variable->name, &v.slice);
    v.is_part = of_larger && !hs_shape_equal(&variable->shape, &v.slice.shape);
    v.whole_bytes = v.is_part ? bytes_of(variable->dtype, &v.slice.shape) : v.bytes;
    v.name = of_larger ? v.slice.name : hs__saver_name(saver, variable->name);
    return v;
}

/* Nobody could restore what lacks some of its parts. */
static hs_code check_parts(const saved_variable *list, size_t n, hs_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes = list[i].follows ? bytes + list[i].bytes : list[i].bytes;
        if (list[i].is_part && (i + 1 == n || !list[i + 1].follows) && bytes < list[i].whole_bytes)
            return hs_error_set(
                err, HS_INVALID_ARGUMENT,
                "'%s' is partitioned, and some of its parts are not saved, but '%s' is; save all parts or none, under one "
                "name",
                list[i].name, list[i].variable);
    }
    return HS_OK;
}

/* In the order of their names: equal models give equal files, in whatever order they were built. */
static hs_code list_variables(const hs_saver *saver, const hs_raw_session *session, size_t first, saved_variable **list,
                              size_t *n, hs_error *err)
{
    hs_code code = HS_OK;
    size_t capacity = 0;
    bool done = false;
    for (size_t i = first; !code && !done; i++) {
        hs_variable variable;
        bool has_memory;
        if (!hs__saver_variable(saver, session, i, &variable, &done))
            continue;
        if ((code = hs__session_has_memory(session, i, &variable, &has_memory, err)) || !has_memory)
            continue;
        if (!(code = hs__reserve(&saver->env, list, &capacity, *n + 1, sizeof **list, err)))
            (*list)[(*n)++] = describe(saver, session, i, &variable);
    }
    if (*n)
        qsort(*list, *n, sizeof **list, by_name);
    for (size_t i = 1; i < *n; i++)
        (*list)[i].follows =
            (*list)[i].is_part && (*list)[i - 1].is_part && strcmp((*list)[i - 1].name, (*list)[i].name) == 0;
    return code ? code : check_parts(*list, *n, err);
}

static hs_code take_variable(const hs_raw_session *session, const saved_variable *v, hs_host_copy *copy, hs__take_fn take,
                             void *user, hs_error *err)
{
    hs_tensor host;
    hs_code code = hs__check_saved_name(v->name, err);
    if (code || (code = hs__read_variable(session, v->index, v->variable, copy, &host, err)))
        return code;
    hs__saved saved = {.name = v->name,
                       .value = host,
                       .slice = v->is_part ? &v->slice : NULL,
                       .variable = v->index,
                       .lent = host.data != copy->data,
                       .follows = v->follows,
                       .moves = (v->flags & HS_VARIABLE_MOVES) != 0,
                       .nonfinite = (v->flags & HS_VARIABLE_NONFINITE) != 0};
    return take(user, &saved, err);
}

static hs_code each_from(const hs_saver *saver, const hs_raw_session *session, size_t first, hs__take_fn take, void *user,
                         hs_error *err)
{
    hs_host_copy copy = {.env = &saver->env};
    saved_variable *list = NULL;
    size_t n = 0;
    hs_code code = list_variables(saver, session, first, &list, &n, err);
    for (size_t i = 0; !code && i < n; i++)
        code = take_variable(session, &list[i], &copy, take, user, err);
    hs_host_copy_free(&copy);
    hs__free(&saver->env, list);
    return code;
}

hs_code hs__each_variable(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user, hs_error *err)
{
    return each_from(saver, session, 0, take, user, err);
}

hs_code hs__each_late_variable(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user,
                               hs_error *err)
{
    return session->n_late ? each_from(saver, session, session->late_from, take, user, err) : HS_OK;
}

hs_code hs__variable_sizes(const hs_saver *saver, const hs_raw_session *session, hs__dealt **sizes, size_t *n,
                           hs_error *err)
{
    saved_variable *list = NULL;
    *n = 0;
    *sizes = NULL;
    hs_code code = list_variables(saver, session, 0, &list, n, err);
    if (!code && !(*sizes = hs__alloc(&saver->env, *n, sizeof **sizes)))
        code = hs__no_memory(err, *n * sizeof **sizes, "the sizes of variables");
    for (size_t i = 0; !code && i < *n; i++)
        (*sizes)[i] = (hs__dealt){list[i].bytes, list[i].follows};
    hs__free(&saver->env, list);
    return code;
}

hs_code hs__take_record(const hs_env *env, const char *name, const char *which, hs__take_fn take, void *user, hs_error *err)
{
    static const bool yes = true;
    char *key = hs__variable_key(env, name, which);
    hs_code code =
        key ? take(user, &(hs__saved){.name = key, .value = hs_tensor_of(HS_BOOL, HS_SCALAR, &yes), .variable = HS__NONE},
                   err)
            : hs__no_memory(err, strlen(name), "a name");
    hs__free(env, key);
    return code;
}

/* What is recorded of variables besides their values. */
static hs_code each_record(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user,
                           hs_error *err)
{
    hs_code code = HS_OK;
    bool done = false;
    for (size_t i = 0; !code && !done; i++) {
        hs_variable variable;
        bool has_memory;
        if (hs__saver_variable(saver, session, i, &variable, &done) &&
            !(code = hs__session_has_memory(session, i, &variable, &has_memory, err)) &&
            (!has_memory || hs__session_is_late(session, i)))
            code = hs__take_record(&saver->env, hs__saver_name(saver, variable.name),
                                   has_memory ? HS__VARIABLE_LATE : HS__VARIABLE_NULL, take, user, err);
    }
    return code;
}

void hs__tell_without_memory(const hs_saver *saver, hs_raw_session *session)
{
    hs__buffer names;
    bool done = session->told_without_memory;
    hs__buffer_init(&names, &saver->env);
    for (size_t i = 0; !done; i++) {
        hs_variable variable;
        bool has_memory;
        if (hs__saver_variable(saver, session, i, &variable, &done) &&
            !hs__session_has_memory(session, i, &variable, &has_memory, NULL) && !has_memory)
            hs__buffer_text(&names, "%s'%s'", names.size ? ", " : "", variable.name);
    }
    if (names.size || names.failed) {
        hs_log(&saver->env, HS_LOG_INFO, "not allocated yet: %s; checkpoints record that instead of a value",
               names.failed ? "some variables" : (const char *)names.data);
        session->told_without_memory = true;
    }
    hs__buffer_free(&names);
}

/* A provider's state, while it is saved. */
static hs_code produce_state(void *source, hs__put_fn put, void *user, hs_error *err)
{
    const hs__state_slot *slot = source;
    hs_state_writer writer = {.put = put, .user = user};
    hs__clear(err); /* what another one has got over */
    hs_code code = hs__settle(slot->save(slot->self, &writer, err), "it", err);
    if (writer.error.code)
        code = hs__error_copy(err, &writer.error);
    if (code)
        hs_error_prefix(err, "cannot save state '%s'", slot->key);
    return code;
}

hs_code hs__each_state(const hs_saver *saver, const hs_raw_session *session, hs__take_fn take, void *user, hs_error *err)
{
    hs_code code = each_record(saver, session, take, user, err);
    for (size_t i = 0; !code && i < session->n_states; i++) {
        hs__state_slot slot = session->states[i]; /* a copy: one that saves may add another one */
        const hs__stored_state state = {.key = slot.key, .identity = slot.identity, .version = slot.version};
        const hs__saved bytes = {.name = slot.key,
                                 .value = {.dtype = HS_UINT8, .rank = 1},
                                 .variable = HS__NONE,
                                 .varies = slot.varies,
                                 .produce = produce_state,
                                 .source = &slot};
        code = hs__take_state(&saver->env, &state, &bytes, take, user, err);
    }
    return code ? code : hs__each_waiting_state(session, take, user, err);
}

uint64_t hs__expected_bytes(const hs_saver *saver, const hs_raw_session *session)
{
    uint64_t bytes = 0;
    bool done = false;
    for (size_t i = 0; !done; i++) {
        hs_variable variable;
        bool has_memory;
        if (hs__saver_variable(saver, session, i, &variable, &done) &&
            (hs__session_has_memory(session, i, &variable, &has_memory, NULL) || has_memory))
            bytes += bytes_of(variable.dtype, &variable.shape);
    }
    for (size_t i = 0; i < session->n_states; i++)
        bytes = session->states[i].bytes < UINT64_MAX - bytes ? bytes + session->states[i].bytes : UINT64_MAX;
    return bytes;
}

char *hs__variable_key(const hs_env *env, const char *name, const char *which)
{
    return hs__format(env, HS__STATE_PREFIX "variable/%s%s", name, which);
}
