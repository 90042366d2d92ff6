/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph: one TF_SessionRun. */
#include "tensorflow/tf_session.h"

#include <string.h>

static void drop_results(const hs__tf_backend *backend, hs__tf_level *level)
{
    for (size_t i = 0; i < level->n_results; i++)
        if (level->results[i])
            backend->tf.DeleteTensor(level->results[i]);
    level->n_results = 0;
}

void hs__tf_free_level(const hs__tf_backend *backend, hs__tf_level *level)
{
    drop_results(backend, level);
    hs__tf_free_feeds(backend, level);
    void *const blocks[] = {level->outputs,     (void *)level->results, (void *)level->targets, level->inputs,
                            (void *)level->fed, level->borrowed,        level->strings};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        hs__free(&backend->env, blocks[i]);
    if (level->metadata)
        backend->tf.DeleteBuffer(level->metadata);
}

/* Makes the level if it does not exist yet. NULL: out of memory. */
static hs__tf_level *level_of(hs__tf_session *session, size_t number, hs_error *err)
{
    size_t before = session->levels_capacity;
    if (hs__reserve(&session->link->backend->env, &session->levels, &session->levels_capacity, (size_t)number + 1,
                    sizeof *session->levels, err))
        return NULL;
    if (session->levels_capacity > before)
        memset(session->levels + before, 0, (session->levels_capacity - before) * sizeof *session->levels);
    if (session->n_levels <= number)
        session->n_levels = (size_t)number + 1;
    return &session->levels[number];
}

/* Fetches. TensorFlow gets outputs and ops separately, and refuses to fetch an output that is fed. */

/* Returns the index of the feed of a fetched output; n_feeds: it is not fed. */
static size_t feed_of(const hs_backend_call *call, const hs_node *fetch)
{
    size_t i = 0;
    while (i < call->n_feeds && (call->feeds[i].node.op != fetch->op || call->feeds[i].node.output != fetch->output))
        i++;
    return i;
}

static hs_code check_fetch(const hs__tf_op *op, int32_t output, hs_error *err)
{
    if (output < 0 || op->outputs[output].dtype)
        return HS_OK;
    return hs_error_set(err, HS_UNIMPLEMENTED, "'%s:%d': TensorFlow's type %d is not supported", op->name, (int)output,
                        (int)op->outputs[output].type);
}

static hs_code reserve_fetches(const hs_env *env, hs__tf_level *level, size_t n, hs_error *err)
{
    hs_code code;
    if (!(code = hs__reserve(env, &level->outputs, &level->outputs_capacity, n + 1, sizeof *level->outputs, err)) &&
        !(code = hs__reserve(env, &level->results, &level->results_capacity, n + 1, sizeof *level->results, err)))
        code = hs__reserve(env, &level->targets, &level->targets_capacity, n, sizeof *level->targets, err);
    return code;
}

hs_code hs__tf_reserve_run(hs__tf_session *session, hs_error *err)
{
    hs__tf_level *level = level_of(session, 0, err);
    return level ? reserve_fetches(&session->link->backend->env, level, 1, err) : HS_RESOURCE_EXHAUSTED;
}

static hs_code set_fetches(hs__tf_session *session, hs__tf_level *level, const hs_backend_call *call, hs_error *err)
{
    size_t n = call->n_fetches;
    hs_code code = reserve_fetches(&session->link->backend->env, level, n, err);
    if (code)
        return code;
    level->n_targets = 0;
    for (size_t i = 0; !code && i < n; i++) {
        const hs__tf_op *op = call->fetches[i].op;
        if ((code = check_fetch(op, call->fetches[i].output, err)))
            break;
        if (call->fetches[i].output < 0) {
            level->targets[level->n_targets++] = op->op;
        } else if (feed_of(call, &call->fetches[i]) == call->n_feeds) {
            level->results[level->n_results] = NULL;
            level->outputs[level->n_results++] = (TF_Output){op->op, call->fetches[i].output};
        }
    }
    return code;
}

/* Values. */

/* Returns true if the value is in the caller's memory: a fetch of a borrowed feed, or of a view of it. */
static bool is_in_borrowed(const hs__tf_backend *backend, const hs__tf_level *level, const hs_tensor *value)
{
    for (size_t i = 0; i < level->n_fed; i++) {
        const char *fed = level->borrowed[i] ? backend->tf.TensorData(level->fed[i]) : NULL;
        if (fed && (const char *)value->data >= fed &&
            (const char *)value->data < fed + backend->tf.TensorByteSize(level->fed[i]))
            return true;
    }
    return false;
}

static hs_code replace_by_copy(const hs__tf_backend *backend, TF_Tensor **result, hs_string *strings, const char *name,
                               hs_tensor *value, hs_error *err)
{
    TF_Tensor *copy = hs__tf_copy_in(backend, value, err);
    if (!copy)
        return HS_RESOURCE_EXHAUSTED;
    backend->tf.DeleteTensor(*result);
    *result = copy;
    return hs__tf_view(backend, copy, strings, name, value, err);
}

/* Appends a copy of each feed that is fetched to the level's results, in the order of the fetches. */
static hs_code copy_fed(const hs__tf_backend *backend, hs__tf_level *level, const hs_backend_call *call, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && call->n_feeds && i < call->n_fetches; i++) {
        size_t feed = call->fetches[i].output < 0 ? call->n_feeds : feed_of(call, &call->fetches[i]);
        if (feed == call->n_feeds)
            continue;
        const hs__tf_op *op = call->fetches[i].op;
        hs_tensor value = *call->feeds[feed].value;
        if (value.memory)
            code = hs__tf_view(backend, level->fed[feed], NULL, op->name, &value, err);
        TF_Tensor *copy = code ? NULL : hs__tf_copy_in(backend, &value, err);
        if (copy)
            level->results[level->n_results++] = copy;
        else
            code = code ? code : HS_RESOURCE_EXHAUSTED;
    }
    return code;
}

static hs_code reserve_strings(const hs__tf_backend *backend, hs__tf_level *level, hs_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < level->n_results; i++)
        n += hs__tf_count_strings(backend, level->results[i]);
    return hs__reserve(&backend->env, &level->strings, &level->strings_capacity, n, sizeof *level->strings, err);
}

static hs_code return_values(const hs__tf_backend *backend, hs__tf_level *level, hs_backend_call *call, hs_error *err)
{
    size_t run_at = 0, fed_at = level->n_results;
    hs_code code = copy_fed(backend, level, call, err);
    if (!code)
        code = reserve_strings(backend, level, err);
    hs_string *strings = level->strings;
    /* The backend promised that values stay, but an op with a reference was added: any value may be its memory. */
    bool may_change = backend->promises_values && backend->has_references;
    for (size_t i = 0; !code && i < call->n_fetches; i++) {
        const hs__tf_op *op = call->fetches[i].op;
        call->values[i] = (hs_tensor){.data = NULL};
        if (call->fetches[i].output < 0)
            continue;
        bool fed = feed_of(call, &call->fetches[i]) < call->n_feeds;
        TF_Tensor **result = &level->results[fed ? fed_at++ : run_at++];
        code = hs__tf_view(backend, *result, strings, op->name, &call->values[i], err);
        if (!code && (may_change || (level->n_fed && is_in_borrowed(backend, level, &call->values[i]))))
            code = replace_by_copy(backend, result, strings, op->name, &call->values[i], err);
        if (strings)
            strings += hs__tf_count_strings(backend, *result);
    }
    return code;
}

/* The run. */

static hs_code set_options(hs__tf_session *session, hs__tf_level *level, const hs_backend_call *call, hs_error *err)
{
    const hs__tf_api *tf = &session->link->backend->tf;
    if (level->metadata)
        tf->DeleteBuffer(level->metadata);
    bool has_metadata =
        call->options && (call->options->trace_level > HS_TRACE_NONE || call->options->output_partition_graphs);
    level->metadata = has_metadata ? tf->NewBuffer() : NULL;
    return call->options ? hs__tf_run_options(call->options, &session->options, err) : HS_OK;
}

/* Makes the run. It also fetches the global step, as the last output. */
static hs_code fetch_level(hs__tf_session *session, hs__tf_level *level, const hs_backend_call *call, hs_error *err)
{
    const hs__tf_api *tf = &session->link->backend->tf;
    TF_Buffer options = {.data = session->options.data, .length = session->options.size};
    TF_Output step;
    size_t n = level->n_results;
    hs_code code = hs__tf_plan_step(session, call, &step, err);
    if (code)
        return code;
    level->outputs[n] = step;
    level->results[n] = NULL;
    hs__tf_run_begins(session, call);
    tf->SessionRun(session->link->session, call->options ? &options : NULL, level->inputs, level->fed, (int)level->n_fed,
                   level->outputs, level->results, (int)n + (step.oper != NULL), level->targets, (int)level->n_targets,
                   level->metadata, session->status);
    code = hs__tf_run_ends(session, call, hs__tf_run_result(session, err), err);
    if (code) {
        session->step_known = false;
    } else if (step.oper) {
        hs__tf_store_step(session, level->results[n]);
        tf->DeleteTensor(level->results[n]);
    }
    return code;
}

static hs_code run_level(hs__tf_session *session, hs__tf_level *level, hs_backend_call *call, hs_error *err)
{
    const hs__tf_backend *backend = session->link->backend;
    bool runs = level->n_results || level->n_targets; /* TensorFlow refuses a run without outputs and ops */
    hs_code code = runs ? hs__tf_check_peers(session->link, err) : HS_OK;
    if (!code && runs)
        code = fetch_level(session, level, call, err);
    if (code)
        return code;
    if (level->metadata)
        call->metadata = (hs_bytes){level->metadata->data, level->metadata->length};
    return return_values(backend, level, call, err);
}

hs_code hs__tf_session_run(void *self, hs_backend_call *call, hs_error *err)
{
    hs__tf_session *session = self;
    const hs__tf_backend *backend = session->link->backend;
    hs__tf_level *level = level_of(session, call->level, err);
    hs_code code;
    if (!level)
        return HS_RESOURCE_EXHAUSTED;
    drop_results(backend, level);
    hs__tf_drop_reads(session);
    if (!(code = set_fetches(session, level, call, err)) && !(code = set_options(session, level, call, err)) &&
        !(code = hs__tf_convert_feeds(session, level, call, err)))
        code = run_level(session, level, call, err);
    hs__tf_free_feeds(backend, level);
    return code;
}
