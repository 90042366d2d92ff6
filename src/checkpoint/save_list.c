/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/save_list.h"

#include "checkpoint/rank_states.h"
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

static hs_code describe(const hs__save_list *list, const hs__selection *selection, size_t index,
                        const hs_variable *variable, hs__listed_variable *v, hs_error *err)
{
    hs_variable_slice slice;
    bool has_slice = hs__selection_slice(selection, list->session, index, variable->name, &slice);
    *v = (hs__listed_variable){.name = has_slice ? slice.name : hs__selection_name(selection, variable->name),
                               .variable = variable->name,
                               .index = index,
                               .bytes = bytes_of(variable->dtype, &variable->shape),
                               .flags = variable->flags};
    v->whole_bytes = v->bytes;
    if (!has_slice || hs_shape_equal(&variable->shape, &slice.shape))
        return HS_OK;
    if (!(v->slice = hs__alloc(list->env, 1, sizeof slice)))
        return hs__no_memory(err, sizeof slice, "a list of variables");
    *v->slice = slice;
    v->whole_bytes = bytes_of(variable->dtype, &slice.shape);
    return HS_OK;
}

static hs_code add_variable(hs__save_list *list, const hs__selection *selection, size_t index, const hs_variable *variable,
                            hs_error *err)
{
    hs_code code = hs__reserve(list->env, &list->variables, &list->capacity, list->n + 1, sizeof *list->variables, err);
    if (code || (code = describe(list, selection, index, variable, &list->variables[list->n], err)))
        return code;
    list->bytes += list->variables[list->n++].bytes;
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

static hs_code add(hs__save_list *list, const hs__selection *selection, size_t index, const hs_variable *variable,
                   hs_error *err)
{
    bool has_memory;
    hs_code code = hs__session_has_memory(list->session, index, variable, &has_memory, err);
    if (code)
        return code;
    return has_memory ? add_variable(list, selection, index, variable, err)
                      : add_unallocated(list, selection, variable, err);
}

hs_code hs__save_list_make(hs__save_list *list, const hs_env *env, const hs__selection *selection, hs_raw_session *session,
                           hs_error *err)
{
    *list = (hs__save_list){.env = env, .session = session};
    hs_code code = HS_OK;
    bool done = false;
    for (size_t i = 0; !code && !done; i++) {
        hs_variable variable;
        if (hs__selection_variable(selection, session, i, &variable, &done))
            code = add(list, selection, i, &variable, err);
    }
    if (list->n)
        qsort(list->variables, list->n, sizeof *list->variables, by_name);
    list->bytes = add_state_bytes(list->bytes, session);
    return code;
}

void hs__save_list_free(hs__save_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        hs__free(list->env, list->variables[i].slice);
    hs__free(list->env, list->variables);
    hs__free(list->env, list->unallocated);
}

bool hs__save_list_follows(const hs__save_list *list, size_t at)
{
    const hs__listed_variable *v = &list->variables[at];
    return at && v->slice && v[-1].slice && strcmp(v[-1].name, v->name) == 0;
}

uint64_t hs__expected_bytes(const hs__selection *selection, const hs_raw_session *session)
{
    uint64_t bytes = 0;
    bool done = false;
    for (size_t i = 0; !done; i++) {
        hs_variable variable;
        bool has_memory;
        if (hs__selection_variable(selection, session, i, &variable, &done) &&
            (hs__session_has_memory(session, i, &variable, &has_memory, NULL) || has_memory))
            bytes += bytes_of(variable.dtype, &variable.shape);
    }
    return add_state_bytes(bytes, session);
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

/* Visiting. */

static hs_code check_slices(const hs__save_list *list, hs_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < list->n; i++) {
        const hs__listed_variable *v = &list->variables[i];
        bytes = hs__save_list_follows(list, i) ? bytes + v->bytes : v->bytes;
        bool is_last = i + 1 == list->n || !hs__save_list_follows(list, i + 1);
        if (is_last && bytes < v->whole_bytes)
            return hs_error_set(
                err, HS_INVALID_ARGUMENT,
                "'%s' is partitioned, and some of its parts are not saved, but '%s' is; save all parts or none, under one "
                "name",
                v->name, v->variable);
    }
    return HS_OK;
}

/* The item is valid until the next call with the same `copy` or with the session. */
static hs_code read_variable(const hs__save_list *list, size_t at, hs_host_copy *copy, hs__save_item *item, hs_error *err)
{
    const hs__listed_variable *v = &list->variables[at];
    hs_tensor host;
    hs_code code = hs__check_saved_name(v->name, err);
    if (code || (code = hs__read_variable(list->session, v->index, v->variable, copy, &host, err)))
        return code;
    *item = (hs__save_item){.name = v->name,
                            .value = host,
                            .slice = v->slice,
                            .variable = v->index,
                            .borrowed = host.data != copy->data,
                            .follows = hs__save_list_follows(list, at),
                            .moves = (v->flags & HS_VARIABLE_MOVES) != 0,
                            .nonfinite = (v->flags & HS_VARIABLE_NONFINITE) != 0};
    return HS_OK;
}

hs_code hs__save_list_visit_variables(const hs__save_list *list, hs__visit_item_fn visit, void *user, hs_error *err)
{
    hs_host_copy copy = {.env = list->env};
    hs_code code = check_slices(list, err);
    for (size_t i = 0; !code && i < list->n; i++) {
        hs__save_item item;
        if (!(code = read_variable(list, i, &copy, &item, err)))
            code = visit(user, &item, err);
    }
    hs_host_copy_free(&copy);
    return code;
}

/* hs__save_item.produce: the provider writes its state. */
static hs_code produce_state(void *source, hs__put_fn put, void *user, hs_error *err)
{
    return hs__produce_state(source, &(hs_state_writer){.put = put, .user = user}, err);
}

static hs_code visit_provider(const hs__save_list *list, size_t index, hs__visit_item_fn visit, void *user, hs_error *err)
{
    hs__state_slot slot = list->session->states[index]; /* a copy: the provider may add another one, which moves them */
    const hs__stored_state state = {.key = slot.key, .identity = slot.identity, .version = slot.version};
    const hs__save_item bytes = {.name = slot.key,
                                 .value = {.dtype = HS_UINT8, .rank = 1},
                                 .variable = HS__NONE,
                                 .varies = slot.varies,
                                 .produce = produce_state,
                                 .source = &slot};
    return hs__visit_state(list->env, &state, &bytes, visit, user, err);
}

hs_code hs__save_list_visit_states(const hs__save_list *list, hs__visit_item_fn visit, void *user, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < list->n_unallocated; i++)
        code = hs__visit_unallocated(list->env, list->unallocated[i].name, visit, user, err);
    for (size_t i = 0; !code && i < list->session->n_states; i++)
        code = visit_provider(list, i, visit, user, err);
    if (!code)
        code = hs__rank_states_visit(list->session, visit, user, err);
    return code ? code : hs__visit_unclaimed(list->session, visit, user, err);
}
