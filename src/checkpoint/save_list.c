/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a session's memory: the list is made (hs__save_list_make), then its variables are read one by one, and its
 * states are visited. */
#include "checkpoint/save_list.h"

#include "checkpoint/rank_parts.h"
#include "checkpoint/unclaimed_states.h"

#include <stdlib.h>
#include <string.h>

/* Making. */

static uint64_t bytes_of(hs_dtype dtype, const hs_shape *shape)
{
    int64_t n = hs_shape_elements(shape);
    return n > 0 ? (uint64_t)n * hs_dtype_size(dtype) : 0;
}

static uint64_t add_state_bytes(uint64_t bytes, const hs_raw_session *session)
{
    for (size_t i = 0; i < session->n_states; i++)
        bytes = session->states[i].bytes < UINT64_MAX - bytes ? bytes + session->states[i].bytes : UINT64_MAX;
    return bytes;
}

static int by_name(const void *a, const void *b)
{
    const hs__listed_variable *first = a, *second = b;
    const hs_variable_slice *x = first->slice, *y = second->slice;
    int order = strcmp(first->name, second->name);
    for (int32_t i = 0; !order && x && y && i < x->shape.rank; i++)
        order = (x->starts[i] > y->starts[i]) - (x->starts[i] < y->starts[i]);
    return order;
}

static hs_code add_variable(hs__save_list *list, const hs__selection *selection, size_t index, const hs_variable *variable,
                            hs_error *err)
{
    hs_code code = hs__reserve(list->env, &list->variables, &list->capacity, list->n + 1, sizeof *list->variables, err);
    if (code)
        return code;
    hs_variable_slice slice;
    bool has_slice = hs__selection_slice(selection, list->session, index, variable->name, &slice);
    hs__listed_variable *v = &list->variables[list->n];
    *v = (hs__listed_variable){.name = has_slice ? slice.name : hs__selection_name(selection, variable->name),
                               .variable = variable->name,
                               .index = index,
                               .bytes = bytes_of(variable->dtype, &variable->shape),
                               .flags = variable->flags};
    v->whole_bytes = v->bytes;
    if (has_slice && !hs_shape_equal(&variable->shape, &slice.shape)) {
        if (!(v->slice = hs__alloc(list->env, 1, sizeof slice)))
            return hs__no_memory(err, sizeof slice, "a list of variables");
        *v->slice = slice;
        v->whole_bytes = bytes_of(variable->dtype, &slice.shape);
    }
    list->bytes += v->bytes;
    list->n++;
    return HS_OK;
}

static hs_code add_unallocated(hs__save_list *list, const hs__selection *selection, const hs_variable *variable,
                               hs_error *err)
{
    hs_code code = hs__reserve(list->env, &list->unallocated, &list->unallocated_capacity, list->n_unallocated + 1,
                               sizeof *list->unallocated, err);
    if (!code)
        list->unallocated[list->n_unallocated++] =
            (hs__unallocated_variable){hs__selection_name(selection, variable->name), variable->name};
    return code;
}

/* Returns true if the variable is a slice of the same tensor as the previous one. */
static bool follows(const hs__save_list *list, size_t at)
{
    const hs__listed_variable *v = &list->variables[at];
    return at && v->slice && v[-1].slice && strcmp(v[-1].name, v->name) == 0;
}

static hs_code check_slices(const hs__save_list *list, hs_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < list->n; i++) {
        const hs__listed_variable *v = &list->variables[i];
        bytes = follows(list, i) ? bytes + v->bytes : v->bytes;
        bool is_last = i + 1 == list->n || !follows(list, i + 1);
        if (is_last && bytes < v->whole_bytes)
            return hs_error_set(
                err, HS_INVALID_ARGUMENT,
                "'%s' is partitioned, and some of its parts are not saved, but '%s' is; save all parts or none, under one "
                "name",
                v->name, v->variable);
    }
    return HS_OK;
}

hs_code hs__save_list_make(hs__save_list *list, const hs_env *env, const hs__selection *selection, hs_raw_session *session,
                           hs_error *err)
{
    *list = (hs__save_list){.env = env, .session = session};
    hs_code code = HS_OK;
    hs_variable variable;
    for (size_t i = 0; !code && hs__selection_next(selection, session, &i, &variable); i++) {
        bool has_memory;
        const hs_memory *device;
        if (!(code = hs__session_place(session, i, &variable, &has_memory, &device, err)))
            code = has_memory ? add_variable(list, selection, i, &variable, err)
                              : add_unallocated(list, selection, &variable, err);
        if (!code && has_memory && device && device->duplicate)
            list->device_bytes += bytes_of(variable.dtype, &variable.shape);
    }
    if (list->n)
        qsort(list->variables, list->n, sizeof *list->variables, by_name);
    list->bytes = add_state_bytes(list->bytes, session);
    const uint64_t of_ranks = session->rank_parts ? session->rank_parts->bytes : 0;
    list->bytes = of_ranks < UINT64_MAX - list->bytes ? list->bytes + of_ranks : UINT64_MAX;
    return code ? code : check_slices(list, err);
}

void hs__save_list_free(hs__save_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        hs__free(list->env, list->variables[i].slice);
    hs__free(list->env, list->variables);
    hs__free(list->env, list->unallocated);
    hs__free(list->env, (void *)list->meta.data);
}

int64_t hs__expected_bytes(const hs__selection *selection, const hs_raw_session *session)
{
    uint64_t bytes = 0;
    hs_variable variable;
    for (size_t i = 0; hs__selection_next(selection, session, &i, &variable); i++) {
        bool has_memory;
        if (hs__session_has_memory(session, i, &variable, &has_memory, NULL) || has_memory)
            bytes += bytes_of(variable.dtype, &variable.shape);
    }
    bytes = add_state_bytes(bytes, session);
    return bytes < INT64_MAX ? (int64_t)bytes : 0;
}

void hs__save_list_log_unallocated(const hs__save_list *list)
{
    hs_raw_session *session = list->session;
    hs__buffer names;
    hs__buffer_init(&names, list->env);
    for (size_t i = 0; !session->unallocated_logged && i < list->n_unallocated; i++)
        hs__buffer_text(&names, "%s'%s'", names.size ? ", " : "", list->unallocated[i].variable);
    if (names.size || names.failed) {
        hs_log(list->env, HS_LOG_INFO, "not allocated yet: %s; checkpoints record that instead of a value",
               names.failed ? "some variables" : (const char *)names.data);
        session->unallocated_logged = true;
    }
    hs__buffer_free(&names);
}

/* Items. */

hs_code hs__produce_state(void *of, hs__put_fn put, void *user, hs_error *err)
{
    const hs__state_slot *slot = of;
    hs_state_writer writer = {.put = put, .user = user};
    hs__clear(err); /* an error that the previous provider ignored */
    hs_code code = hs__normalize_error(slot->save(slot->self, &writer, err), "it", err);
    if (writer.error.code)
        code = hs__error_copy(err, &writer.error);
    if (code)
        hs_error_prefix(err, "cannot save state '%s'", slot->key);
    return code;
}

static hs_code visit_attribute(const hs_env *env, const char *key, const char *which, const hs_tensor *value,
                               hs__visit_item_fn visit, void *user, hs_error *err)
{
    char *name = hs__format(env, "%s%s", key, which);
    hs_code code = name ? visit(user, &(hs__save_item){.name = name, .value = *value}, err)
                        : hs__no_memory(err, strlen(key), "a name");
    hs__free(env, name);
    return code;
}

hs_code hs__visit_state(const hs_env *env, const hs__stored_state *state, const hs__save_item *bytes,
                        hs__visit_item_fn visit, void *user, hs_error *err)
{
    hs_string identity = {state->identity, state->identity ? strlen(state->identity) : 0};
    hs_tensor version = hs_tensor_of(HS_INT64, HS_SCALAR, &state->version);
    hs_tensor text = hs_tensor_of(HS_STRING, HS_SCALAR, &identity);
    hs_code code = visit(user, bytes, err);
    if (!code && state->version)
        code = visit_attribute(env, state->key, HS__STATE_VERSION, &version, visit, user, err);
    if (!code && state->identity)
        code = visit_attribute(env, state->key, HS__STATE_IDENTITY, &text, visit, user, err);
    return code;
}

char *hs__unallocated_key(const hs_env *env, const char *name)
{
    return hs__format(env, HS__STATE_PREFIX "variable/%s:null", name);
}

/* The source. */

static uint64_t size_of(const void *self, size_t at, bool *is_next_slice)
{
    *is_next_slice = follows(self, at);
    return ((const hs__save_list *)self)->variables[at].bytes;
}

static hs_code read_variable(void *self, size_t at, hs__save_item *item, hs_error *err)
{
    hs__save_list *list = self;
    const hs__listed_variable *v = &list->variables[at];
    hs_code code;
    *item = (hs__save_item){.name = v->name,
                            .slice = v->slice,
                            .variable = v->index,
                            .follows = follows(list, at),
                            .nonfinite = (v->flags & HS_VARIABLE_NONFINITE) != 0};
    if ((code = hs__check_saved_name(v->name, err)) ||
        (code = hs__session_read(list->session, v->index, v->variable, &item->value, err)))
        return code;
    if (item->value.memory != list->marked && (code = hs__device_mark(item->value.memory, err)))
        return code;
    list->marked = item->value.memory;
    item->stays = !item->value.memory && (list->session->ops.flags & HS_BACKEND_KEEPS_VIEWS);
    item->borrowed = !item->value.memory && !(v->flags & HS_VARIABLE_MOVES);
    return HS_OK;
}

static hs_code visit_unallocated(const hs__save_list *list, const char *name, hs__visit_item_fn visit, void *user,
                                 hs_error *err)
{
    static const bool yes = true;
    char *key = hs__unallocated_key(list->env, name);
    const hs__save_item record = {.name = key, .value = hs_tensor_of(HS_BOOL, HS_SCALAR, &yes)};
    hs_code code = key ? visit(user, &record, err) : hs__no_memory(err, strlen(name), "a name");
    hs__free(list->env, key);
    return code;
}

static hs_code visit_provider(const hs__save_list *list, size_t index, hs__visit_item_fn visit, void *user, hs_error *err)
{
    hs__state_slot slot = list->session->states[index]; /* a copy: the provider may add another one, which moves them */
    const hs__stored_state state = {.key = slot.key, .identity = slot.identity, .version = slot.version};
    const hs__save_item bytes = {.name = slot.key,
                                 .value = {.dtype = HS_UINT8, .rank = 1},
                                 .varies = slot.varies,
                                 .produce = hs__produce_state,
                                 .source = &slot};
    return hs__visit_state(list->env, &state, &bytes, visit, user, err);
}

static hs_code visit_states(void *self, hs__visit_item_fn visit, void *user, hs_error *err)
{
    const hs__save_list *list = self;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < list->n_unallocated; i++)
        code = visit_unallocated(list, list->unallocated[i].name, visit, user, err);
    for (size_t i = 0; !code && i < list->session->n_states; i++)
        code = visit_provider(list, i, visit, user, err);
    if (!code)
        code = hs__rank_parts_visit(list->session->rank_parts, visit, user, err);
    return code ? code : hs__visit_unclaimed(list->session, visit, user, err);
}

hs__item_source hs__save_list_source(hs__save_list *list)
{
    return (hs__item_source){list, list->n, list->bytes, list->meta, size_of, read_variable, visit_states};
}
