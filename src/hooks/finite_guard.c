/* SPDX-License-Identifier: Apache-2.0 */
/* The hook that watches for NaN, infinity and spikes (finite_spike.h).
 *
 *   after_run  inspects the fetched tensors. After a bad run it dumps them and does what the policy says (handle_finding)
 *   boundary   with HS_GUARD_ROLLBACK: the ranks share a finding, and return to the last good state (roll_back) */
#include <hooksess/hooks/finite_guard.h>

#include <hooksess/graph.h>
#include <hooksess/safetensors.h>
#include <hooksess/session.h>

#include "base/c_locale.h"
#include "base/files.h"
#include "base/text.h"
#include "base/trigger.h"
#include "hooks/finite_spike.h"
#include "hooks/lookup.h"
#include "hooks/make.h"
#include "hooks/nonfinite.h"
#include "hooks/number.h"
#include "session/services.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The role of a tensor, in the order of execution. Tensors of the last stage are dumped, but not inspected. */
enum { INPUTS, ACTIVATIONS, LOSSES, GRADIENTS, PARAMETERS, DUMP_ALSO, STAGES };

static const struct {
    const char *name, *singular;
} stages[STAGES] = {
    {"inputs", "input"},       {"activations", "activation"}, {"losses", "loss"},
    {"gradients", "gradient"}, {"parameters", "parameter"},   {"dump_also", ""},
};

typedef struct {
    size_t offenders; /* bad tensors */
    bool has_bad_parameter;
    int64_t step;
    char first[768];   /* describes the first bad tensor */
    char further[512]; /* the names of the others; "" if there are none */
} finding;

/* Saved in checkpoints. In version 0, the losses follow after three numbers of the schedule, which the session now saves.
 */
typedef struct {
    int64_t rollbacks; /* so far */
    int64_t batches;   /* drawn by skip_op so far */
    int64_t updates;   /* skipped in a row */
} counts;

typedef struct {
    hs__hook_base base;
    const char *const *texts;        /* a copy of all texts of the options, first those that are not names of tensors */
    hs_finite_guard_options options; /* with defaults; "": a text is not given; lists and `when` are not set */
    const char *const *names;        /* of the tensors of all stages, in their order; ended by NULL */
    size_t ends[STAGES];             /* the index after the last name of each stage */
    hs__spikes spikes;               /* one series for each loss */
    hs__number learning_rate;
    const hs_env *session_env;
    finding found; /* in the last inspected run */
    bool rollback_pending;
    counts now, restored; /* restored: those in the last restored state */
    int dumps;            /* in this session */
    char history[512];    /* of rollbacks in this session: "step 12 to 8, ..." */
} finite_guard;

static bool is_given(const char *text)
{
    return text && *text;
}

/* The inspection. */

static hs_code check_type(const char *name, hs_dtype dtype, hs_error *err)
{
    if (dtype == HS_FLOAT || dtype == HS_DOUBLE || dtype == HS_HALF || dtype == HS_BFLOAT16)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "tensor '%s' is of type %s; only float, double, half and bfloat16 can be watched; to dump it, list "
                        "it in dump_also",
                        name, hs_dtype_name(dtype));
}

static hs_code check_spike(finite_guard *hook, size_t index, const hs_tensor *loss, bool *is_spike, hs_error *err)
{
    finding *found = &hook->found;
    char shape[HS_SHAPE_TEXT_SIZE];
    double mean, zscore;
    const hs_shape of = hs_tensor_shape(loss);
    if (hs_shape_elements(&of) != 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "loss '%s' has shape %s; it must have one element",
                            hook->names[index], hs_shape_text(&of, shape, sizeof shape));
    const double value = hs_tensor_number(loss, 0);
    *is_spike = hs__spikes_check(&hook->spikes, index - hook->ends[LOSSES - 1], value, &mean, &zscore);
    if (*is_spike && !found->offenders)
        hs__snprintf(
            found->first, sizeof found->first,
            "loss '%.256s' is %.9g, which is %.3g standard deviations above %.9g, the mean of the last %lld values",
            hook->names[index], value, zscore, mean, (long long)hook->spikes.window);
    return HS_OK;
}

/* Sets hook->found. HS_INVALID_ARGUMENT: a tensor has a type without NaN, or a loss has several elements. Others: the code
 * of copying from a device. */
static hs_code inspect(finite_guard *hook, const hs_run_values *values, hs_error *err)
{
    finding *found = &hook->found;
    int stage = 0;
    found->offenders = 0;
    found->has_bad_parameter = false;
    found->further[0] = '\0';
    for (size_t i = 0; i < hook->ends[PARAMETERS]; i++) {
        const char *name = hook->names[i];
        const hs_tensor *value = hs_run_values_tensor(values, i);
        bool is_spike = false;
        hs_tensor checked;
        hs_nonfinite bad;
        while (i >= hook->ends[stage])
            stage++;
        hs_code code = check_type(name, value->dtype, err);
        if (code || (code = hs__find_nonfinite(values, i, name, hook->session_env, &checked, &bad, err)) ||
            (stage == LOSSES && (code = check_spike(hook, i, &checked, &is_spike, err))))
            return code;
        if (bad.first_index < 0 && !is_spike)
            continue;
        found->has_bad_parameter |= stage == PARAMETERS;
        if (found->offenders++)
            hs__append_item(found->further, sizeof found->further, "%s/%s", stages[stage].name, name);
        else if (!is_spike)
            hs__describe_nonfinite(found->first, sizeof found->first, stages[stage].singular, name, &checked, &bad);
    }
    return HS_OK;
}

/* Dumps. */

/* hs_safetensors_save saves the variables of a session. So the fetched tensors become the variables of a temporary graph,
 * "t0", "t1" and so on, because not all names of tensors are allowed for variables. */
static hs_code save_tensors(const finite_guard *hook, const hs_run_values *values, const char *path,
                            hs_safetensors_options options, hs_error *err)
{
    struct {
        char variable[32], saved[512];
    } * texts;
    const size_t n = hook->ends[DUMP_ALSO];
    int stage = 0;
    hs_session *session = NULL;
    hs_graph *graph = hs_graph_new(hook->session_env);
    if (!graph)
        return hs__no_memory(err, n * sizeof *texts, "the dumped tensors");
    texts = hs_graph_memory(graph, "texts", n * sizeof *texts, err);
    hs_checkpoint_name *names = texts ? hs_graph_memory(graph, "names", (n + 1) * sizeof *names, err) : NULL;
    for (size_t i = 0; names && i < n; i++) { /* the graph keeps its first error */
        const hs_tensor *value = hs_run_values_tensor(values, i);
        while (i >= hook->ends[stage])
            stage++;
        snprintf(texts[i].variable, sizeof texts[i].variable, "t%zu", i);
        snprintf(texts[i].saved, sizeof texts[i].saved, "%s/%s", stages[stage].name, hook->names[i]);
        names[i] = (hs_checkpoint_name){texts[i].variable, texts[i].saved};
        hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = texts[i].variable, .dtype = value->dtype,
                                                     .shape = hs_tensor_shape(value), .data = value->data,
                                                     .memory = value->memory));
    }
    options.names = names;
    if (names)
        session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(), err);
    hs_code code = session ? hs_safetensors_save(hs_session_raw(session), path, &options, err) : err->code;
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    return code;
}

/* Writes the fetched tensors to STEM.safetensors, and the variables to STEM.variables.safetensors. The stem has the first
 * number for which no file exists, so that no dump replaces another, except the last number. A failure is a warning in the
 * log. */
static void write_dump(finite_guard *hook, hs_raw_session *session, const hs_run_values *values)
{
    enum { PATH = 4096, MOST_DUMPS = 3, MOST_NUMBERS = 1000 };
    char stem[PATH], path[PATH + 32], step[32];
    hs_error error = {0};
    hs_env env;
    if (!is_given(hook->options.dump_dir) || hook->dumps >= MOST_DUMPS)
        return;
    hook->dumps++;
    snprintf(step, sizeof step, "%lld", (long long)hook->found.step);
    const hs_safetensors_options options = HS_INIT(
        hs_safetensors_options, .metadata = HS_SAFETENSORS_METADATA({"step", step}, {"message", hook->found.first}));
    hs_code code = hs__env_copy(&env, hook->session_env, &error);
    for (int i = 0; !code && i < MOST_NUMBERS; i++) {
        hs__snprintf(stem, sizeof stem, "%s/finite_guard-%s", hook->options.dump_dir, step);
        if (i)
            hs__append(stem, sizeof stem, ".%d", i);
        hs__snprintf(path, sizeof path, "%s.safetensors", stem);
        if (hs__file_missing(&env, path))
            break;
    }
    if (!code && !(code = save_tensors(hook, values, path, options, &error))) {
        hs_log(hook->session_env, HS_LOG_INFO, "step %s: dumped the watched tensors to %s", step, path);
        hs__snprintf(path, sizeof path, "%s.variables.safetensors", stem);
        code = hs_safetensors_save(session, path, &options, &error);
    }
    if (code)
        hs_log(hook->session_env, HS_LOG_WARNING, "step %s: cannot dump the watched tensors: %s", step, error.message);
}

/* A training run. */

/* Logs and dumps the finding, and does what the policy says. */
static hs_code handle_finding(finite_guard *hook, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    const hs_finite_guard_options *o = &hook->options;
    hs_raw_session *session = hs_run_context_session(run);
    finding *found = &hook->found;
    char outcome[600] = ""; /* follows the description of the finding */
    bool fails = false;
    found->step = hs_run_context_global_step(run, NULL);
    if (!found->offenders)
        snprintf(found->first, sizeof found->first, "another rank has a bad value");
    if (found->offenders > 1)
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %zu more of the %zu watched tensors are bad: %s",
               (long long)found->step, found->offenders - 1, hook->ends[PARAMETERS], found->further);
    if (found->offenders)
        write_dump(hook, session, values);
    switch (o->policy) {
    case HS_GUARD_FAIL:
        fails = true;
        break;
    case HS_GUARD_STOP:
        snprintf(outcome, sizeof outcome, "; stopping without a save");
        hs_run_context_request_stop(run);
        break;
    case HS_GUARD_ROLLBACK:
        fails = o->max_rollbacks != HS_NEVER && hook->now.rollbacks >= o->max_rollbacks;
        if (fails) {
            snprintf(outcome, sizeof outcome, "; all %lld rollbacks (max_rollbacks) are used%s%s",
                     (long long)o->max_rollbacks, hook->history[0] ? ": " : "", hook->history);
            break;
        }
        hook->rollback_pending = true;
        hs_run_context_request_boundary(run);
        break;
    case HS_GUARD_SKIP_STEP:
        fails = found->has_bad_parameter || (o->max_skips != HS_NEVER && hook->now.updates >= o->max_skips);
        if (found->has_bad_parameter)
            snprintf(outcome, sizeof outcome,
                     "; skipping the update does not help, because a parameter is already affected");
        else if (fails)
            snprintf(outcome, sizeof outcome, "; the %lld previous updates were skipped (max_skips)",
                     (long long)hook->now.updates);
        if (fails)
            break;
        hook->now.updates++;
        snprintf(outcome, sizeof outcome, "; update skipped, %lld in a row", (long long)hook->now.updates);
        hs_raw_session_set_metric(session, "finite_guard/skipped_in_a_row", (double)hook->now.updates, found->step, NULL);
        break;
    case HS_GUARD_WARN:
        break;
    }
    if (fails || o->policy == HS_GUARD_STOP || o->policy == HS_GUARD_ROLLBACK) {
        hs_error why; /* savers whose boundary is called before this hook's must not save the bad state, too */
        hs_error_set(&why, HS_FAILED_PRECONDITION, "%s", found->first);
        hs_raw_session_refuse_saves(session, &why);
    }
    if (fails)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s%s", found->first, outcome);
    if (!hook->rollback_pending) /* the rollback logs the finding */
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %s%s", (long long)found->step, found->first, outcome);
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    finite_guard *hook = self;
    hs_raw_session *session = hs_run_context_session(run);
    const char *update_op = hook->options.update_op;
    hs_code code = inspect(hook, values, err);
    bool is_bad = hook->found.offenders > 0;
    if (!code && is_given(update_op)) /* all ranks skip the update if one of them has a bad value, or run it */
        code = hs_raw_session_any(session, is_bad, &is_bad, err);
    if (code)
        return code;
    if (is_bad)
        return handle_finding(hook, run, values, err);
    if (!is_given(update_op))
        return HS_OK;
    hook->now.updates = 0;
    const hs_run_args args =
        HS_INIT(hs_run_args, .names = HS_NAMES(update_op), .feeds = hs_run_context_original_args(run)->feeds);
    if ((code = hs_raw_session_run(session, &args, NULL, err)))
        hs_error_prefix(err, "update_op '%s'", update_op);
    return code;
}

/* The rollback. */

/* Multiplies the learning rate by the factor, once for each rollback since the restored state was saved. */
static hs_code reduce_learning_rate(const finite_guard *hook, hs_raw_session *session, char *message, size_t size,
                                    hs_error *err)
{
    double before;
    hs_code code = hs__number_read(&hook->learning_rate, session, &before, err);
    if (code)
        return code;
    double now = before * pow(hook->options.learning_rate_factor, (double)(hook->now.rollbacks - hook->restored.rollbacks));
    hs__snprintf(message, size, "; %.64s is %.6g instead of %.6g", hook->options.learning_rate, now, before);
    return hs__number_write(&hook->learning_rate, session, now, err);
}

/* Stops early at a stop request, or at the end of the input, which stops the training. */
static hs_code skip_batches(finite_guard *hook, hs_run_context *run, int64_t batches, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    const char *skip_op = hook->options.skip_op;
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(skip_op));
    const int64_t step = hs_raw_session_global_step(session, NULL);
    bool ended = false, stops;
    for (int64_t i = 0; i < batches; i++) {
        hs_code code = hs_raw_session_any(session, ended || hs_raw_session_stop_requested(session), &stops, err);
        if (code)
            return code;
        if (stops)
            break;
        code = hs_raw_session_run(session, &args, NULL, err);
        if (code && code != HS_OUT_OF_RANGE) {
            hs_error_prefix(err, "skip_op '%s'", skip_op);
            return code;
        }
        ended = code == HS_OUT_OF_RANGE;
        hook->now.batches += !ended;
    }
    if (ended) {
        hs_error_clear(err);
        hs_log(hook->session_env, HS_LOG_WARNING, "the input ended while skipping batches; stopping");
        hs_run_context_request_stop(run);
    }
    if (hs_raw_session_global_step(session, NULL) != step)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "skip_op '%s' advances the global step; name an op that only draws a batch", skip_op);
    return HS_OK;
}

/* Restores the last good state, on all ranks of a group, and changes the training that follows. */
static hs_code roll_back(finite_guard *hook, hs_run_context *run, hs_error *err)
{
    const hs_finite_guard_options *o = &hook->options;
    const finding *found = &hook->found;
    const counts before = hook->now;
    hs_raw_session *session = hs_run_context_session(run);
    char rate[192] = "", most[32] = "";
    size_t n;
    hs_saver *saver = hs__find_saver(hs_raw_session_backend(session), o->saver, NULL, &n);
    hs__spikes_reset(&hook->spikes); /* load_state sets them and `restored`, unless the guard is not in the state */
    hook->restored = (counts){0};
    hs_code code = hs__raw_session_roll_back(session, saver, err);
    hook->now = hook->restored;
    hook->now.rollbacks = before.rollbacks + 1;
    const int64_t step = code ? 0 : hs_raw_session_global_step(session, err);
    if (step < 0)
        code = err->code;
    if (!code && is_given(o->learning_rate))
        code = reduce_learning_rate(hook, session, rate, sizeof rate, err);
    if (!code && is_given(o->skip_op)) {
        /* Batches that were skipped since the restored state was saved are skipped again. Then the rollback skips
         * skip_batches more, or the batches up to the batch of the bad step. */
        const int64_t again = before.batches - hook->restored.batches;
        code = skip_batches(hook, run, again + (o->skip_batches ? o->skip_batches : found->step - step), err);
    }
    if (code)
        return code;
    hs__append_item(hook->history, sizeof hook->history, "step %lld to %lld", (long long)found->step, (long long)step);
    const char *from = hs_raw_session_restored_from(session);
    if (o->max_rollbacks != HS_NEVER)
        snprintf(most, sizeof most, " of at most %lld", (long long)o->max_rollbacks);
    hs_log(hook->session_env, HS_LOG_WARNING,
           "step %lld: %s; rolled back to step %lld (%s), rollback %lld%s%s; %lld batches skipped", (long long)found->step,
           found->first, (long long)step, from ? from : "the copy in memory", (long long)hook->now.rollbacks, most, rate,
           (long long)(hook->now.batches - hook->restored.batches));
    hs_raw_session_set_metric(session, "finite_guard/rollbacks", (double)hook->now.rollbacks, step, NULL);
    return HS_OK;
}

/* A hs_gather_fn for rank 0: keeps the first finding. */
static void receive_finding(void *user, int32_t rank, hs_bytes bytes)
{
    finding *first = user, received;
    if (first->offenders || bytes.size != sizeof received)
        return;
    memcpy(&received, bytes.data, sizeof received);
    *first = received;
    snprintf(first->first, sizeof first->first, "rank %d: %.700s", (int)rank, received.first);
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    finite_guard *hook = self;
    hs_raw_session *session = hs_run_context_session(run);
    hs_error error = {0};
    bool pending = hook->rollback_pending;
    if (hook->options.policy != HS_GUARD_ROLLBACK || hs_run_context_boundary(run) != HS_BOUNDARY_RUN)
        return HS_OK;
    hook->rollback_pending = false;
    const hs_bytes mine = {&hook->found, pending ? sizeof hook->found : 0};
    hs_code code = hs_raw_session_any(session, pending, &pending, err);
    if (code || !pending)
        return code;
    if (hs_raw_session_rank_count(session) > 1) { /* copy the first finding to all ranks */
        finding first = {0};
        if ((code = hs_raw_session_gather(session, mine, receive_finding, &first, err)) ||
            (code = hs_raw_session_from_chief(session, &first, sizeof first, err)))
            return code;
        hook->found = first;
    }
    if (!(code = roll_back(hook, run, &error)))
        return HS_OK;
    hs_error_set(err, code, "%s; cannot roll back step %lld: %s", hook->found.first, (long long)hook->found.step,
                 error.message);
    hs_raw_session_refuse_saves(session, err); /* the state in memory is undefined */
    return code;
}

/* The session and the state. */

/* Errors: as of begin (finite_guard.h). */
static hs_code find_learning_rate(finite_guard *hook, hs_backend backend, hs_error *err)
{
    const char *name = hook->options.learning_rate;
    hs_variable found;
    size_t i;
    if (!hs__find_variable(backend, name, &i, &found))
        return hs_error_set(err, HS_NOT_FOUND, "learning_rate '%s' is not a variable", name);
    if (!hs__is_number(found.dtype, found.shape.rank))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "learning_rate '%s' is not a scalar of type float or double", name);
    if (found.flags & HS_VARIABLE_LOCAL)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "learning_rate '%s' is a local variable, which checkpoints do not contain", name);
    if (!backend.ops->read_variable || !backend.ops->write_variable)
        return hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' cannot set variable '%s'", backend.ops->name, name);
    hook->learning_rate = (hs__number){i, found.dtype};
    return HS_OK;
}

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    finite_guard *hook = self;
    const hs_finite_guard_options *o = &hook->options;
    hs_variable variable;
    hs_node node;
    size_t index;
    hs_code code = HS_OK;
    hook->session_env = hs_backend_env(backend);
    hook->dumps = 0;
    hook->now = hook->restored = (counts){0};
    hook->history[0] = '\0';
    hs__spikes_reset(&hook->spikes);
    for (size_t i = 0; !code && hook->names[i]; i++) {
        code = hs_backend_check_tensor(backend, hook->names[i], err);
        if (!code && i < hook->ends[PARAMETERS] && hs__find_variable(backend, hook->names[i], &index, &variable))
            code = check_type(variable.name, variable.dtype, err); /* the backend knows only the types of variables */
    }
    if (!code && o->policy == HS_GUARD_ROLLBACK)
        code = hs_backend_check_global_step(backend, err);
    if (!code && is_given(o->learning_rate))
        code = find_learning_rate(hook, backend, err);
    if (!code && is_given(o->skip_op))
        code = hs_backend_find(backend, o->skip_op, &node, err);
    if (!code && is_given(o->update_op))
        code = hs_backend_find(backend, o->update_op, &node, err);
    return code;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    finite_guard *hook = self;
    (void)coordinator, (void)err;
    hook->rollback_pending = false;
    if (hook->options.policy == HS_GUARD_ROLLBACK)
        hs__raw_session_want_last_good(session);
    return HS_OK;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const finite_guard *hook = self;
    hs_code code = hs_state_writer_write(out, &hook->now, sizeof hook->now, err);
    return code ? code : hs__spikes_save(&hook->spikes, out, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    finite_guard *hook = self;
    const int64_t most = INT64_MAX / 4; /* of each count, so that the sum of two cannot overflow */
    const int64_t rollbacks = hook->now.rollbacks;
    counts loaded;
    int64_t schedule[3];
    hs_code code = hs_state_reader_read(in, &loaded, sizeof loaded, err);
    if (code || (hs_state_reader_version(in) == 0 && (code = hs_state_reader_read(in, schedule, sizeof schedule, err))))
        return code;
    if (loaded.rollbacks < 0 || loaded.rollbacks > most || loaded.batches < 0 || loaded.batches > most ||
        loaded.updates < 0 || loaded.updates > most)
        return hs_error_set(err, HS_DATA_LOSS, "invalid counts: %lld rollbacks, %lld skipped batches, %lld skipped updates",
                            (long long)loaded.rollbacks, (long long)loaded.batches, (long long)loaded.updates);
    hook->now = hook->restored = loaded;
    if (rollbacks > loaded.rollbacks) /* a restore never decreases the number of rollbacks */
        hook->now.rollbacks = rollbacks;
    return hs__spikes_load(&hook->spikes, in, err);
}

static void destroy(void *self)
{
    finite_guard *hook = self;
    const hs_env *env = &hook->base.env;
    hs__spikes_free(&hook->spikes, env);
    hs__free(env, (void *)hook->texts);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "finite_guard", .begin = begin, .after_create_session = after_create_session,
            .after_run = after_run, .boundary = boundary, .save_state = save_state, .load_state = load_state,
            .destroy = destroy, .state_version = 1, .state_bytes = sizeof(counts), .rank_identity = hs__hook_rank_identity);

/* Options. */

static hs_code check(const void *given, hs_error *err)
{
    const hs_finite_guard_options *o = given;
    const size_t n_losses = hs__names_count(o->losses), n_dump_also = hs__names_count(o->dump_also);
    const bool rolls_back = o->policy == HS_GUARD_ROLLBACK, skips = o->policy == HS_GUARD_SKIP_STEP;
    const struct {
        const char *name;
        bool is_given;
        const char *needs; /* the option has no effect without it */
        bool has_it;
    } dependent[] = {
        {"spike_zscore", o->spike_zscore != 0, "losses", n_losses > 0},
        {"spike_window", o->spike_window != 0, "losses", n_losses > 0},
        {"dump_also", n_dump_also > 0, "dump_dir", is_given(o->dump_dir)},
        {"saver", o->saver != NULL, "HS_GUARD_ROLLBACK", rolls_back},
        {"max_rollbacks", o->max_rollbacks != 0, "HS_GUARD_ROLLBACK", rolls_back},
        {"learning_rate", is_given(o->learning_rate), "HS_GUARD_ROLLBACK", rolls_back},
        {"learning_rate_factor", o->learning_rate_factor != 0, "learning_rate", is_given(o->learning_rate)},
        {"skip_op", is_given(o->skip_op), "HS_GUARD_ROLLBACK", rolls_back},
        {"skip_batches", o->skip_batches != 0, "skip_op", is_given(o->skip_op)},
        {"update_op", is_given(o->update_op), "HS_GUARD_SKIP_STEP", skips},
        {"max_skips", o->max_skips != 0, "HS_GUARD_SKIP_STEP", skips},
    };
    const struct {
        const char *name;
        double value;
        bool is_valid;
        const char *range;
    } numbers[] = {
        {"policy", (int)o->policy, o->policy >= HS_GUARD_FAIL && o->policy <= HS_GUARD_WARN, "an hs_guard_policy"},
        {"spike_zscore", o->spike_zscore, o->spike_zscore >= 0 || o->spike_zscore == HS_NEVER, "above 0, or HS_NEVER"},
        {"spike_window", (double)o->spike_window, !o->spike_window || (o->spike_window >= 2 && o->spike_window <= 1 << 20),
         "from 2 to 2^20"},
        {"max_rollbacks", (double)o->max_rollbacks, o->max_rollbacks >= HS_NEVER, "at least 1, or HS_NEVER for no limit"},
        {"learning_rate_factor", o->learning_rate_factor, o->learning_rate_factor >= 0 && o->learning_rate_factor <= 1,
         "above 0 and at most 1"},
        {"skip_batches", (double)o->skip_batches, o->skip_batches >= 0, "at least 1"},
        {"max_skips", (double)o->max_skips, o->max_skips >= HS_NEVER, "at least 1, or HS_NEVER for no limit"},
    };
    if (!n_losses && !hs__names_count(o->inputs) && !hs__names_count(o->activations) && !hs__names_count(o->gradients) &&
        !hs__names_count(o->parameters))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "nothing to watch; name tensors in inputs, activations, gradients, parameters or losses");
    for (size_t i = 0; i < sizeof dependent / sizeof *dependent; i++)
        if (dependent[i].is_given && !dependent[i].has_it)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s has no effect without %s", dependent[i].name,
                                dependent[i].needs);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!numbers[i].is_valid)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %.9g; it must be %s", numbers[i].name, numbers[i].value,
                                numbers[i].range);
    if (skips && !is_given(o->update_op))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "HS_GUARD_SKIP_STEP requires update_op: let the training run only compute gradients, and name "
                            "the op that applies them");
    if (skips && (o->every_n_steps || hs__trigger_is_set(&o->when)))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "HS_GUARD_SKIP_STEP excludes %s, because it checks every training run",
                            o->every_n_steps ? "every_n_steps" : "when");
    return HS_OK;
}

static hs_code copy_texts(finite_guard *hook, const hs_finite_guard_options *o, hs_error *err)
{
    const char *const *const lists[STAGES] = {o->inputs,    o->activations, o->losses,
                                              o->gradients, o->parameters,  o->dump_also};
    const char *const single[] = {o->dump_dir, o->learning_rate, o->skip_op, o->update_op};
    const size_t n_single = sizeof single / sizeof *single;
    size_t n = n_single;
    for (int stage = 0; stage < STAGES; stage++) {
        n += hs__names_count(lists[stage]);
        hook->ends[stage] = n - n_single;
    }
    const char **all = hs__alloc(&hook->base.env, n + 1, sizeof *all);
    if (!all)
        return hs__no_memory(err, n * sizeof *all, "the hook's names");
    for (n = 0; n < n_single; n++)
        all[n] = single[n] ? single[n] : "";
    for (int stage = 0; stage < STAGES; stage++)
        for (size_t i = 0; i < hs__names_count(lists[stage]); i++)
            all[n++] = lists[stage][i];
    hook->texts = hs__hook_names(hook, all, err);
    hs__free(&hook->base.env, all);
    if (!hook->texts)
        return HS_RESOURCE_EXHAUSTED;
    hook->options.dump_dir = hook->texts[0];
    hook->options.learning_rate = hook->texts[1];
    hook->options.skip_op = hook->texts[2];
    hook->options.update_op = hook->texts[3];
    hook->base.fetches = hook->names = hook->texts + n_single;
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    finite_guard *hook = self;
    const hs_finite_guard_options *o = given;
    const hs__when_options when = {.steps = o->every_n_steps,
                                   .when = o->when,
                                   .first = true,
                                   .counts_runs = true,
                                   .optional = true,
                                   .no_last = "the guard checks runs"};
    hook->options = (hs_finite_guard_options){
        .policy = o->policy,
        .spike_zscore = o->spike_zscore != 0 ? o->spike_zscore : 7,
        .spike_window = o->spike_window ? o->spike_window : 128,
        .saver = o->saver,
        .max_rollbacks = o->max_rollbacks ? o->max_rollbacks : 3,
        .learning_rate_factor = o->learning_rate_factor != 0 ? o->learning_rate_factor : 0.5,
        .skip_batches = o->skip_batches,
        .max_skips = o->max_skips ? o->max_skips : 10,
    };
    hs_code code = hs__hook_when(hook, &when, err);
    if (!code)
        code = copy_texts(hook, o, err);
    if (!code)
        code = hs__spikes_init(&hook->spikes, hook->ends[LOSSES] - hook->ends[LOSSES - 1], hook->options.spike_window,
                               hook->options.spike_zscore, &hook->base.env, err);
    hook->base.flags = HS_HOOK_ALL_RANKS;
    if (hook->spikes.n > 0) { /* the state has the last losses */
        hook->base.flags |= HS_HOOK_PER_RANK | HS_HOOK_ANY_RANK_COUNT;
        if (hook->base.when.every_n_secs != 0) /* the clock decides which losses are seen */
            hook->base.flags |= HS_HOOK_STATE_VARIES;
    }
    return code;
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_finite_guard_options, policy),
    HS__RANK_OPTION(hs_finite_guard_options, spike_zscore),
    HS__RANK_OPTION(hs_finite_guard_options, spike_window),
    HS__RANK_OPTION(hs_finite_guard_options, max_rollbacks),
    HS__RANK_OPTION(hs_finite_guard_options, learning_rate),
    HS__RANK_OPTION(hs_finite_guard_options, learning_rate_factor),
    HS__RANK_OPTION(hs_finite_guard_options, skip_op),
    HS__RANK_OPTION(hs_finite_guard_options, skip_batches),
    HS__RANK_OPTION(hs_finite_guard_options, update_op),
    HS__RANK_OPTION(hs_finite_guard_options, max_skips),
    {0},
};

hs_hook hs_finite_guard_hook(const hs_finite_guard_options *given)
{
    return HS__HOOK_MAKE(&ops, finite_guard, hs_finite_guard_options, max_skips, check, fill, same, given);
}
