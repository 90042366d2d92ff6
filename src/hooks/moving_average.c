/* SPDX-License-Identifier: Apache-2.0 */
/* The graph has three nodes for each average: a variable with the values, and the ops `update` and `swap`. begin adds them,
 * after_run runs the updates after a training step, and put_averages swaps averages and variables for evaluations. */
#include <hooksess/hooks/moving_average.h>

#include <hooksess/graph.h>

#include "base/env.h"
#include "base/device.h"
#include "hooks/lookup.h"
#include "hooks/make.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 512 };

/* One average. The graph owns its memory, as it owns the ops that use it. */
typedef struct {
    hs_graph *graph;
    hs_dtype dtype;
    size_t bytes;
    bool has_nodes; /* its nodes are in the graph */
    bool is_late;   /* the variable may get its memory later; the average begins then */
    bool exists;    /* if late: the average has begun. Others begin with NaN, until they are restored or copied */
    bool copies;    /* the next update copies the variable */
    bool swapped;   /* the variable holds the average, and the average holds the variable */
    float rate;     /* 1 - decay */
    size_t index;   /* of the variable */
    char name[NAME], update[NAME + 8], swap[NAME + 8];
    _Alignas(max_align_t) unsigned char values[];
} average;

typedef struct {
    hs__hook_base base;
    hs_moving_average_options options; /* with copies of the names */
    char *name;
    size_t n;
    average **averages;
    const char **updates, **swaps; /* ops to run, ended by NULL */
    hs_raw_session *session;       /* NULL: not open */
    bool in;                       /* hs_moving_average_swap has put the averages into the variables */
    int64_t step;                  /* before the training run */
    int64_t restore_generation;    /* hs_raw_session_restores at the last call of notice_restore */
} moving_average;

/* The ops. */

/* The variable's values in host memory. */
static hs_code read_variable(const average *a, const hs_tensor *variable, const void **values, hs_error *err)
{
    char name[NAME + 8];
    *values = variable->data;
    if (!variable->memory)
        return HS_OK;
    snprintf(name, sizeof name, "%s/host", a->name);
    void *host = hs_graph_memory(a->graph, name, a->bytes, err);
    if (!host)
        return err->code;
    *values = host;
    return hs__tensor_to_host(NULL, variable, host, err);
}

#define UPDATE(TYPE)                                                                                                       \
    do {                                                                                                                   \
        TYPE *to = mean;                                                                                                   \
        const TYPE *from = values, rate = (TYPE)a->rate;                                                                   \
        for (size_t i = 0; i < a->bytes / sizeof *to; i++)                                                                 \
            to[i] -= (to[i] - from[i]) * rate;                                                                             \
    } while (0)

static hs_code update(void *user, hs_op *op, hs_error *err)
{
    const average *a = user;
    void *mean = hs_op_written(op, 0)->data;
    const void *values;
    hs_code code = read_variable(a, hs_op_input(op, 0), &values, err);
    if (code)
        return code;
    if (a->copies)
        memcpy(mean, values, a->bytes);
    else if (a->dtype == HS_FLOAT)
        UPDATE(float);
    else
        UPDATE(double);
    return HS_OK;
}

static void exchange_bytes(unsigned char *a, unsigned char *b, size_t bytes)
{
    unsigned char part[4096];
    for (size_t i = 0; i < bytes; i += sizeof part) {
        size_t n = bytes - i < sizeof part ? bytes - i : sizeof part;
        memcpy(part, a + i, n);
        memcpy(a + i, b + i, n);
        memcpy(b + i, part, n);
    }
}

static hs_code swap(void *user, hs_op *op, hs_error *err)
{
    average *a = user;
    const hs_tensor *variable = hs_op_written(op, 0);
    void *mean = hs_op_written(op, 1)->data;
    const void *values;
    if (!variable->data)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the variable of '%s' has no memory", a->name);
    hs_code code = read_variable(a, variable, &values, err);
    if (!code && variable->memory)
        code = hs__tensor_from_host(variable, mean, err);
    if (code)
        return code;
    if (variable->memory)
        memcpy(mean, values, a->bytes);
    else
        exchange_bytes(variable->data, mean, a->bytes);
    a->swapped = !a->swapped;
    return HS_OK;
}

/* The memory of a late average: always allocated, but reported to the graph only after the average has begun. */

static hs_code locate(void *user, size_t bytes, bool allocate, void **data, hs_error *err)
{
    average *a = user;
    (void)bytes, (void)err;
    a->exists |= allocate;
    *data = a->exists ? a->values : NULL;
    return HS_OK;
}

/* Resets a late average: in the init op, and after the restore of a checkpoint that was saved before the average began. */
static hs_code reset_late(void *user, const hs_tensor *value, hs_error *err)
{
    (void)value, (void)err;
    ((average *)user)->exists = false;
    return HS_OK;
}

/* Begin. */

static hs_code add_nodes(hs_graph *graph, average *a, const hs_variable *variable, hs_error *err)
{
    const hs_variable_def late = HS_INIT(hs_variable_def, .name = a->name, .dtype = variable->dtype,
                                         .shape = variable->shape, .locate = locate, .initialize = reset_late, .user = a);
    hs_code code = a->is_late ? hs_graph_add_variable(graph, &late)
                              : hs_graph_variable(graph, a->name, variable->dtype, variable->shape, a->values);
    if (!code)
        code = hs_graph_op(graph, .name = a->update, .run = update, .user = a, .inputs = HS_NAMES(variable->name),
                           .writes = HS_NAMES(a->name), .type = "AssignMovingAvg");
    if (!code)
        code = hs_graph_op(graph, .name = a->swap, .run = swap, .user = a, .writes = HS_NAMES(variable->name, a->name));
    a->has_nodes = !code;
    if (code && !hs_graph_error(graph, err)) /* the graph is finalized, for example */
        hs_error_set(err, code, "cannot add '%s' to the graph", a->name);
    return code;
}

static hs_code begin_one(moving_average *hook, hs_backend backend, size_t i, hs_error *err)
{
    static const float number = NAN;
    static const double wide = NAN;
    const char *name = hook->options.variables[i];
    char own[NAME];
    hs_variable variable;
    size_t index;
    hs_graph *graph = hs_graph_of(backend);
    if (!hs__find_variable(backend, name, &index, &variable))
        return hs_error_set(err, HS_NOT_FOUND, "'%s' is not a variable", name);
    if (variable.dtype != HS_FLOAT && variable.dtype != HS_DOUBLE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "variable '%s' is of type %s; only float and double can be averaged",
                            name, hs_dtype_name(variable.dtype));
    if ((size_t)snprintf(own, sizeof own, "%s/%s", name, hook->name) >= sizeof own)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the name of variable '%s' is too long", name);
    size_t bytes = (size_t)hs_shape_elements(&variable.shape) * hs_dtype_size(variable.dtype);
    average *a = hs_graph_memory(graph, own, sizeof *a + bytes, err);
    if (!a)
        return err->code;
    if (!a->has_nodes) {
        *a = (average){.graph = graph,
                       .dtype = variable.dtype,
                       .bytes = bytes,
                       .index = index,
                       .is_late = (variable.flags & HS_VARIABLE_MOVES) != 0};
        snprintf(a->name, sizeof a->name, "%s", own);
        snprintf(a->update, sizeof a->update, "%s/update", own);
        snprintf(a->swap, sizeof a->swap, "%s/swap", own);
        hs_code code = add_nodes(graph, a, &variable, err);
        if (code)
            return code;
    }
    a->swapped = a->copies = a->exists = false;
    if (!a->is_late && bytes)
        memcpy(a->values, a->dtype == HS_FLOAT ? (const void *)&number : &wide, hs_dtype_size(a->dtype));
    hook->averages[i] = a;
    return HS_OK;
}

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    moving_average *hook = self;
    hook->session = NULL;
    hook->in = false;
    if (!hs_graph_of(backend))
        return hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' is not an embedded graph; use its own averages",
                            backend.ops->name);
    hs_code code = hs_backend_check_global_step(backend, err);
    for (size_t i = 0; !code && i < hook->n; i++)
        code = begin_one(hook, backend, i, err);
    return code;
}

/* Runs the update ops of the averages in one run. An average that begins copies its variable. The other averages are not
 * updated if the session was just created. */
static hs_code update_all(moving_average *hook, bool created, hs_error *err)
{
    const hs_backend_ops *backend = hs_raw_session_backend(hook->session).ops;
    size_t n = 0;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < hook->n; i++) {
        average *a = hook->averages[i];
        hs_tensor value;
        if (!a->is_late) {
            value = hs_tensor_of(a->dtype, HS_SHAPE((int64_t)(a->bytes / hs_dtype_size(a->dtype))), a->values);
            a->copies = created && a->bytes && isnan(hs_tensor_number(&value, 0));
        } else if (!a->exists) { /* begins if the variable has memory by now */
            code = backend->read_variable(hs_raw_session_handle(hook->session), a->index, &value, err);
            a->exists = a->copies = !code && (value.data || !value.bytes);
            if (!a->exists)
                continue;
        }
        if (a->copies || !created)
            hook->updates[n++] = a->update;
    }
    hook->updates[n] = NULL;
    if (!code && n)
        code = hs_raw_session_run(hook->session, HS_RUN_ARGS(.names = hook->updates), NULL, err);
    for (size_t i = 0; i < hook->n; i++) {
        hook->averages[i]->exists &= !(code && hook->averages[i]->copies);
        hook->averages[i]->copies = false;
    }
    return code;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    moving_average *hook = self;
    (void)coordinator;
    hook->session = session;
    hook->restore_generation = -1;
    return update_all(hook, true, err);
}

/* Swapping. */

/* Checks whether the session was restored since the last call. After a restore, variables and averages are not swapped. */
static void notice_restore(moving_average *hook)
{
    int64_t restores = hs_raw_session_restores(hook->session);
    if (restores == hook->restore_generation)
        return;
    hook->restore_generation = restores;
    hook->in = false;
    for (size_t i = 0; i < hook->n; i++)
        hook->averages[i]->swapped = false;
}

static hs_code put_averages(moving_average *hook, bool in, hs_error *err)
{
    size_t n = 0;
    notice_restore(hook);
    for (size_t i = 0; i < hook->n; i++)
        if (hook->averages[i]->swapped != in && !(in && hook->averages[i]->is_late && !hook->averages[i]->exists))
            hook->swaps[n++] = hook->averages[i]->swap;
    hook->swaps[n] = NULL;
    return n ? hs_raw_session_run(hook->session, HS_RUN_ARGS(.names = hook->swaps), NULL, err) : HS_OK;
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    moving_average *hook = self;
    hs_run_kind kind = hs_run_context_kind(run);
    (void)args;
    notice_restore(hook);
    if (kind == HS_RUN_TRAIN) {
        if (hook->in)
            return hs_error_set(err, HS_FAILED_PRECONDITION,
                                "the variables hold the averages; call hs_moving_average_swap(hook, false, err) before the "
                                "next training run");
        if ((hook->step = hs_run_context_global_step(run, err)) < 0)
            return err->code;
    }
    return put_averages(hook, hook->in || kind == HS_RUN_EVAL, err);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    moving_average *hook = self;
    (void)values;
    if (hs_run_context_kind(run) != HS_RUN_TRAIN)
        return put_averages(hook, hook->in, err);
    int64_t step = hs_raw_session_global_step(hook->session, err); /* another hook's run may have advanced it */
    if (step < 0)
        return err->code;
    if (step == hook->step)
        return HS_OK;
    float decay = (float)hook->options.decay, ramp = (1 + (float)step) / (10 + (float)step);
    if (hook->options.ramp && ramp < decay)
        decay = ramp;
    for (size_t i = 0; i < hook->n; i++)
        hook->averages[i]->rate = 1 - decay;
    return update_all(hook, false, err);
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    moving_average *hook = self;
    (void)session;
    hook->in = false;
    return put_averages(hook, false, err);
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    moving_average *hook = self;
    hs_error error = {0};
    (void)outcome;
    if (hook->session && put_averages(hook, false, &error))
        hs_log(hs__session_env(hook->session), HS_LOG_ERROR, "the variables still hold the averages: %s", error.message);
    hook->session = NULL;
}

/* The state is empty: the averages are variables. save_state only refuses a save while they are swapped. */

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    moving_average *hook = self;
    (void)out;
    if (!hook->session)
        return HS_OK;
    notice_restore(hook);
    for (size_t i = 0; i < hook->n; i++)
        if (hook->averages[i]->swapped)
            return hs_error_set(err, HS_FAILED_PRECONDITION,
                                "the variables hold the averages; call hs_moving_average_swap(hook, false, err) before the "
                                "save");
    return HS_OK;
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in, (void)err;
    return HS_OK;
}

static void destroy(void *self)
{
    moving_average *hook = self;
    const hs_env *env = &hook->base.env;
    hs_env_free(env, (void *)hook->options.variables);
    hs_env_free(env, hook->name);
    hs_env_free(env, hook->averages);
    hs_env_free(env, hook->updates);
    hs_env_free(env, hook->swaps);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "moving_average", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .end = end, .close = close_hook, .save_state = save_state,
            .load_state = load_state, .destroy = destroy, .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_moving_average_options *options = given;
    if (!options->variables || !options->variables[0])
        return hs_error_set(err, HS_INVALID_ARGUMENT, "variables is missing; name the variables to average");
    for (size_t i = 0; options->variables[i]; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(options->variables[i], options->variables[k]) == 0)
                return hs_error_set(err, HS_INVALID_ARGUMENT, "variables lists '%s' twice", options->variables[i]);
    if (!(options->decay > 0 && options->decay < 1))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "decay is %g; it must be above 0 and below 1", options->decay);
    return HS_OK;
}

static hs_code fill(void *self, const void *options, hs_error *err)
{
    moving_average *hook = self;
    const hs_moving_average_options *given = options;
    const hs_env *env = &hook->base.env;
    hook->base.flags = HS_HOOK_TRAIN | HS_HOOK_EVAL | HS_HOOK_AUX;
    hook->options = *given;
    hook->n = hs__names_count(given->variables);
    if (!(hook->options.variables = hs__hook_names(hook, given->variables, err)) ||
        !(hook->name = hs__hook_text(hook, given->name ? given->name : "ExponentialMovingAverage", err)))
        return HS_RESOURCE_EXHAUSTED;
    hook->averages = hs__alloc(env, hook->n, sizeof *hook->averages);
    hook->updates = hs__alloc(env, hook->n + 1, sizeof *hook->updates);
    hook->swaps = hs__alloc(env, hook->n + 1, sizeof *hook->swaps);
    if (!hook->averages || !hook->updates || !hook->swaps)
        return hs__no_memory(err, hook->n * 3 * sizeof(void *), "the averages");
    return HS_OK;
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_moving_average_options, variables),
    HS__RANK_OPTION(hs_moving_average_options, decay),
    HS__RANK_OPTION(hs_moving_average_options, name),
    HS__RANK_OPTION(hs_moving_average_options, ramp),
    {0},
};

hs_hook hs_moving_average_hook(const hs_moving_average_options *given)
{
    return HS__HOOK_MAKE(&ops, moving_average, hs_moving_average_options, reserved, check, fill, same, given);
}

hs_code hs_moving_average_swap(hs_hook hook, bool in, hs_error *err)
{
    moving_average *self = hook.self;
    hs_error error = {0};
    hs_error_clear(err);
    if (hook.ops != &ops)
        hs_error_set(&error, HS_INVALID_ARGUMENT, "hs_moving_average_swap: the hook is not from hs_moving_average");
    else if (!self->session)
        hs_error_set(&error, HS_FAILED_PRECONDITION, "hs_moving_average_swap: the hook has no open session");
    else if (!put_averages(self, in, &error))
        self->in = in;
    return hs__error_copy(err, &error);
}
