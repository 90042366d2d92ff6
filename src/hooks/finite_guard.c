/* SPDX-License-Identifier: Apache-2.0 */
/* The hook that watches for NaN, infinity and spikes. after_run inspects the fetched tensors. handle_finding dumps them and
 * follows the policy. The boundary shares a finding with the other ranks and rolls back (finite_rollback.c). */
#include <hooksess/hooks/finite_guard.h>

#include <hooksess/graph.h>
#include <hooksess/safetensors.h>
#include <hooksess/session.h>

#include "base/c_locale.h"
#include "base/files.h"
#include "base/text.h"
#include "base/trigger.h"
#include "hooks/finite_rollback.h"
#include "hooks/finite_spike.h"
#include "hooks/lookup.h"
#include "hooks/make.h"
#include "session/services.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The inspection. Finds values that are not finite, and spikes of losses, in the tensors that a guard fetches. */

/* The role of a tensor, in the order of execution. Tensors of the last stage are dumped, but not inspected. */
enum { INPUTS, ACTIVATIONS, LOSSES, GRADIENTS, PARAMETERS, DUMP_ALSO, STAGES };

typedef struct {
    const char *const *names; /* of all stages, in their order; ended by NULL */
    size_t ends[STAGES];      /* the index after the last name of each stage */
} watched_list;

typedef struct {
    size_t offenders; /* bad tensors. 0: the other fields are not set */
    int first_stage;
    bool has_bad_parameter;
    int64_t step;
    char first[768];   /* describes the first bad tensor */
    char further[512]; /* the names of the others; "" if there are none */
} finding;

/* Returns the stage of the name with this index. */
static int stage_of(const watched_list *watched, size_t index)
{
    int stage = 0;
    while (index >= watched->ends[stage])
        stage++;
    return stage;
}

/* Returns "inputs", "activations" and so on. Static. */
static const char *stage_name(int stage)
{
    static const char *const names[STAGES] = {"inputs", "activations", "losses", "gradients", "parameters", "dump_also"};
    return names[stage];
}

static bool is_watchable(hs_dtype dtype)
{
    return dtype == HS_FLOAT || dtype == HS_DOUBLE || dtype == HS_HALF || dtype == HS_BFLOAT16;
}

static hs_code refuse_type(const char *name, hs_dtype dtype, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "tensor '%s' is of type %s; only float, double, half and bfloat16 can be watched; to dump it, list "
                        "it in dump_also",
                        name, hs_dtype_name(dtype));
}

/* HS_INVALID_ARGUMENT: a watched variable has a type without NaN. The backend knows only the types of variables. */
static hs_code check_watched_variables(const watched_list *watched, hs_backend backend, hs_error *err)
{
    hs_variable variable;
    for (size_t i = 0; hs_backend_variable(backend, i, &variable); i++)
        for (size_t k = 0; k < watched->ends[PARAMETERS] && !is_watchable(variable.dtype); k++)
            if (strcmp(watched->names[k], variable.name) == 0)
                return refuse_type(variable.name, variable.dtype, err);
    return HS_OK;
}

/* "parameter 'w', float [2,3], is not finite: first at [0,1] (element 1); 2 NaN, ... of 6, the other elements from ..." */
static void describe_nonfinite(finding *found, const watched_list *watched, size_t index, const hs_tensor *host,
                               const hs_nonfinite *bad)
{
    static const char *const stages[STAGES] = {"input", "activation", "loss", "gradient", "parameter", ""};
    char shape[HS_SHAPE_TEXT_SIZE];
    hs_shape of = hs_tensor_shape(host);
    size_t n = host->bytes / hs_dtype_size(host->dtype);
    snprintf(found->first, sizeof found->first, "%s '%.256s', %s %s, is not finite: first at [", stages[found->first_stage],
             watched->names[index], hs_dtype_name(host->dtype), hs_shape_text(&of, shape, sizeof shape));
    int64_t at[HS_MAX_RANK], rest = bad->first_index;
    for (int i = host->rank - 1; i >= 0; i--) {
        at[i] = rest % host->dims[i];
        rest /= host->dims[i];
    }
    for (int i = 0; i < host->rank; i++)
        hs__append(found->first, sizeof found->first, i ? ",%lld" : "%lld", (long long)at[i]);
    hs__append(found->first, sizeof found->first, "] (element %lld); %llu NaN, %llu +infinity, %llu -infinity of %zu",
               (long long)bad->first_index, (unsigned long long)bad->nan, (unsigned long long)bad->positive_infinity,
               (unsigned long long)bad->negative_infinity, n);
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double number = hs_tensor_number(host, i);
        if (!isfinite(number))
            continue;
        least = number < least ? number : least;
        most = number > most ? number : most;
    }
    if (least <= most)
        hs__append(found->first, sizeof found->first, ", the other elements from %.9g to %.9g", least, most);
}

/* Counts a bad tensor. Returns true if it is the first one, which the caller describes. */
static bool count_offender(finding *found, const watched_list *watched, size_t index, hs_run_context *run)
{
    int stage = stage_of(watched, index);
    found->has_bad_parameter |= stage == PARAMETERS;
    if (found->offenders++) {
        hs__append_item(found->further, sizeof found->further, "%s/%s", stage_name(stage), watched->names[index]);
        return false;
    }
    found->first_stage = stage;
    found->step = hs_run_context_global_step(run, NULL);
    return true;
}

static hs_code check_spike(const watched_list *watched, size_t index, hs__spikes *spikes, hs_run_context *run,
                           const hs_tensor *host, finding *found, hs_error *err)
{
    char shape[HS_SHAPE_TEXT_SIZE];
    double mean, zscore, value = hs_tensor_number(host, 0);
    hs_shape of = hs_tensor_shape(host);
    if (hs_shape_elements(&of) != 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "loss '%s' has shape %s; it must have one element",
                            watched->names[index], hs_shape_text(&of, shape, sizeof shape));
    if (!hs__spikes_check(spikes, index - watched->ends[LOSSES - 1], value, &mean, &zscore) ||
        !count_offender(found, watched, index, run))
        return HS_OK;
    hs__snprintf(found->first, sizeof found->first,
                 "loss '%.256s' is %.9g, which is %.3g standard deviations above %.9g, the mean of the last %lld values",
                 watched->names[index], value, zscore, mean, (long long)spikes->window);
    return HS_OK;
}

/* Inspects the values of a run. HS_INVALID_ARGUMENT: a tensor has a type without NaN, or a loss has several elements.
 * Others: the code of copying from a device. */
static hs_code inspect(const watched_list *watched, hs__spikes *spikes, hs_run_context *run, const hs_run_values *values,
                       hs_host_copy *copy, finding *found, hs_error *err)
{
    found->offenders = 0;
    found->has_bad_parameter = false;
    found->further[0] = '\0';
    for (size_t i = 0; i < watched->ends[PARAMETERS]; i++) {
        const hs_tensor *value = hs_run_values_tensor(values, i);
        hs_tensor host;
        if (!is_watchable(value->dtype))
            return refuse_type(watched->names[i], value->dtype, err);
        hs_code code = hs_tensor_host(value, copy, &host, err);
        if (code) {
            hs_error_prefix(err, "tensor '%s'", watched->names[i]);
            return code;
        }
        hs_nonfinite bad = hs_tensor_nonfinite(&host);
        if (bad.first_index >= 0 && count_offender(found, watched, i, run))
            describe_nonfinite(found, watched, i, &host, &bad);
        if (stage_of(watched, i) == LOSSES && (code = check_spike(watched, i, spikes, run, &host, found, err)))
            return code;
    }
    return HS_OK;
}

/* Dumps. */

/* Writes the tensors of a bad step to safetensors files. A failure is a warning in the log. */
typedef struct {
    char *directory; /* NULL: no dumps */
    int made;
} dump_files;

enum { PATH = 4096, NAME = 32, MOST_DUMPS = 3 };

/* Returns the names of the fetched tensors in the file, for hs_env_free. Not all names of tensors are allowed for
 * variables, so the variables are "t0", "t1" and so on. The text is in the same block. */
static hs_checkpoint_name *make_names(const hs_env *env, const watched_list *watched, hs_error *err)
{
    size_t n = watched->ends[DUMP_ALSO], room = 0;
    for (size_t i = 0; i < n; i++)
        room += strlen(watched->names[i]) + 2 * NAME;
    hs_checkpoint_name *names = hs_env_alloc(env, (n + 1) * sizeof *names + room);
    if (!names) {
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the names of the dumped tensors");
        return NULL;
    }
    char *text = (char *)(names + n + 1);
    for (size_t i = 0; i < n; i++) {
        names[i].variable = text;
        text += snprintf(text, NAME, "t%zu", i) + 1;
        names[i].name = text;
        text += sprintf(text, "%s/%s", stage_name(stage_of(watched, i)), watched->names[i]) + 1;
    }
    return names;
}

static bool find_path(char *path, const dump_files *dump, int64_t step, int try, const char *ending)
{
    char number[NAME] = "";
    if (try)
        snprintf(number, sizeof number, ".%d", try);
    int length =
        snprintf(path, PATH, "%s/finite_guard-%lld%s%s.safetensors", dump->directory, (long long)step, number, ending);
    return length > 0 && length < PATH;
}

/* Returns the first number for which neither file exists. If that cannot be determined, a file exists. -1: all are used. */
static int find_number(const dump_files *dump, const hs_env *given, int64_t step)
{
    enum { MOST_TRIES = 1000 };
    char path[PATH];
    hs_env env;
    if (hs__env_copy(&env, given, NULL))
        return -1;
    for (int try = 0; try < MOST_TRIES; try++) {
        bool used = false;
        for (int i = 0; i < 2; i++) {
            if (!find_path(path, dump, step, try, i ? ".variables" : ""))
                return -1;
            used |= !hs__file_missing(&env, path);
        }
        if (!used)
            return try;
    }
    return -1;
}

/* The fetched tensors become variables of a temporary graph, because hs_safetensors_save saves the variables of a session.
 */
static hs_code save_tensors(const char *path, hs_safetensors_options options, const hs_env *env,
                            const watched_list *watched, const hs_run_values *values, hs_error *err)
{
    hs_code code = HS_RESOURCE_EXHAUSTED;
    hs_session *session = NULL;
    hs_graph *graph = hs_graph_new(env);
    hs_checkpoint_name *names = make_names(env, watched, err);
    if (names && !graph)
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the dumped tensors");
    for (size_t i = 0; names && graph && i < watched->ends[DUMP_ALSO]; i++) { /* the graph keeps its first error */
        const hs_tensor *value = hs_run_values_tensor(values, i);
        hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = names[i].variable, .dtype = value->dtype,
                                                     .shape = hs_tensor_shape(value), .data = value->data,
                                                     .memory = value->memory));
    }
    if (names && graph) {
        options.names = names;
        session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(), err);
        code = session ? hs_safetensors_save(hs_session_raw(session), path, &options, err) : err->code;
    }
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    hs_env_free(env, names);
    return code;
}

/* Writes the watched tensors and the variables, unless MOST_DUMPS dumps were made. */
static void write_dump(dump_files *dump, const watched_list *watched, hs_raw_session *session, const hs_run_values *values,
                       const finding *found)
{
    const hs_env *env = hs__session_env(session);
    char path[PATH], step[NAME];
    hs_error error = {0};
    if (!dump->directory || dump->made >= MOST_DUMPS)
        return;
    dump->made++;
    snprintf(step, sizeof step, "%lld", (long long)found->step);
    const hs_safetensors_options options =
        HS_INIT(hs_safetensors_options, .metadata = HS_SAFETENSORS_METADATA({"step", step}, {"message", found->first}));
    int number = find_number(dump, env, found->step);
    if (number < 0) {
        hs_error_set(&error, HS_INVALID_ARGUMENT, "all file names for this step are used in '%s'", dump->directory);
    } else {
        find_path(path, dump, found->step, number, "");
        if (!save_tensors(path, options, env, watched, values, &error)) {
            hs_log(env, HS_LOG_INFO, "step %s: dumped the watched tensors to %s", step, path);
            find_path(path, dump, found->step, number, ".variables");
            hs_safetensors_save(session, path, &options, &error);
        }
    }
    if (error.code)
        hs_log(env, HS_LOG_WARNING, "step %s: cannot dump the watched tensors: %s", step, error.message);
}

/* The hook. */

enum { MOST_ROLLBACKS = 3, MOST_SKIPS = 10, SPIKE_ZSCORE = 7, SPIKE_WINDOW = 128, LARGEST_WINDOW = 1 << 20 };

static const int64_t LARGEST_COUNT = INT64_MAX / 2;

/* The part of the hook's state in checkpoints that is not the losses. In version 0, three numbers follow: the schedule,
 * which the session now saves. */
typedef struct {
    hs__rollback_count rollback;
    int64_t skips; /* in a row */
} record;

typedef struct {
    hs__hook_base base;
    watched_list watched;
    hs_guard_policy policy;
    int64_t skips, max_skips;
    char *update_op;
    bool rollback_pending; /* in the next boundary */
    finding found;
    hs__spikes spikes;
    dump_files dump;
    hs__rollback rollback;
    hs_host_copy copy;
    const hs_env *session_env;
} finite_guard;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    finite_guard *hook = self;
    hs_node node;
    hs_code code = HS_OK;
    hook->session_env = hs_backend_env(backend);
    hook->skips = hook->dump.made = 0;
    hook->rollback_pending = false;
    hs__spikes_reset(&hook->spikes);
    for (size_t i = 0; !code && hook->watched.names[i]; i++)
        code = hs_backend_check_tensor(backend, hook->watched.names[i], err);
    if (!code)
        code = check_watched_variables(&hook->watched, backend, err);
    if (!code && hook->update_op)
        code = hs_backend_find(backend, hook->update_op, &node, err);
    if (!code && hook->policy == HS_GUARD_ROLLBACK)
        code = hs__rollback_begin(&hook->rollback, backend, err);
    return code;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    finite_guard *hook = self;
    (void)coordinator, (void)err;
    hook->rollback_pending = false;
    if (hook->policy == HS_GUARD_ROLLBACK)
        hs__raw_session_want_last_good(session);
    return HS_OK;
}

static void refuse_saves(const finite_guard *hook, hs_run_context *run)
{
    hs_error why;
    hs_error_set(&why, HS_FAILED_PRECONDITION, "%s", hook->found.first);
    hs_raw_session_refuse_saves(hs_run_context_session(run), &why);
}

/* Ends the session with an error, and refuses to save the bad state. */
static hs_code fail_training(const finite_guard *hook, hs_run_context *run, const char *why, hs_error *err)
{
    refuse_saves(hook, run);
    return hs_error_set(err, HS_FAILED_PRECONDITION, "%s%s", hook->found.first, why);
}

static hs_code request_rollback(finite_guard *hook, hs_run_context *run, hs_error *err)
{
    const hs__rollback *rollback = &hook->rollback;
    refuse_saves(hook, run); /* savers whose boundary is called before this hook's must not save the bad step */
    if (!hs__rollback_allowed(rollback))
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s; all %lld rollbacks (max_rollbacks) are used%s%s",
                            hook->found.first, (long long)rollback->most, rollback->history[0] ? ": " : "",
                            rollback->history);
    hs_run_context_request_boundary(run);
    hook->rollback_pending = true;
    return HS_OK;
}

static hs_code skip_update(finite_guard *hook, hs_run_context *run, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    if (hook->found.has_bad_parameter)
        return fail_training(hook, run, "; skipping the update does not help, because a parameter is already affected",
                             err);
    if (hook->max_skips != HS_NEVER && hook->skips >= hook->max_skips) {
        refuse_saves(hook, run);
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s; the %lld previous updates were skipped (max_skips)",
                            hook->found.first, (long long)hook->skips);
    }
    hook->skips++;
    hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %s; update skipped, %lld in a row", (long long)hook->found.step,
           hook->found.first, (long long)hook->skips);
    hs_raw_session_set_metric(session, "finite_guard/skipped_in_a_row", (double)hook->skips, hook->found.step, NULL);
    return HS_OK;
}

static hs_code handle_finding(finite_guard *hook, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    const finding *found = &hook->found;
    if (found->offenders > 1)
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %zu more of the %zu watched tensors are bad: %s",
               (long long)found->step, found->offenders - 1, hook->watched.ends[PARAMETERS], found->further);
    write_dump(&hook->dump, &hook->watched, hs_run_context_session(run), values, found);
    switch (hook->policy) {
    case HS_GUARD_STOP:
        refuse_saves(hook, run);
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %s; stopping without a save", (long long)found->step,
               found->first);
        hs_run_context_request_stop(run);
        return HS_OK;
    case HS_GUARD_ROLLBACK:
        return request_rollback(hook, run, err);
    case HS_GUARD_SKIP_STEP:
        return skip_update(hook, run, err);
    case HS_GUARD_WARN:
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %s", (long long)found->step, found->first);
        return HS_OK;
    default:
        return fail_training(hook, run, "", err);
    }
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    finite_guard *hook = self;
    hs_raw_session *session = hs_run_context_session(run);
    finding *found = &hook->found;
    hs_code code = inspect(&hook->watched, &hook->spikes, run, values, &hook->copy, found, err);
    if (code)
        return code;
    if (!hook->update_op)
        return found->offenders ? handle_finding(hook, run, values, err) : HS_OK;
    /* Collective in a group: all ranks skip the update if one of them has a bad value, or run it. */
    bool skip;
    if ((code = hs_raw_session_any(session, found->offenders > 0, &skip, err)))
        return code;
    if (found->offenders)
        return handle_finding(hook, run, values, err);
    if (skip) {
        found->step = hs_run_context_global_step(run, NULL);
        snprintf(found->first, sizeof found->first, "another rank has a bad value");
        return skip_update(hook, run, err);
    }
    hook->skips = 0;
    const hs_run_args args =
        HS_INIT(hs_run_args, .names = HS_NAMES(hook->update_op), .feeds = hs_run_context_original_args(run)->feeds);
    if ((code = hs_raw_session_run(session, &args, NULL, err)))
        hs_error_prefix(err, "update_op '%s'", hook->update_op);
    return code;
}

/* A hs_gather_fn for rank 0: keeps the first finding. */
static void receive_finding(void *user, int32_t rank, hs_bytes bytes)
{
    finding *found = user;
    char first[sizeof found->first];
    if (found->offenders || !bytes.size || bytes.size != sizeof *found)
        return;
    memcpy(found, bytes.data, sizeof *found);
    memcpy(first, found->first, sizeof first);
    snprintf(found->first, sizeof found->first, "rank %d: %.700s", (int)rank, first);
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    finite_guard *hook = self;
    hs_raw_session *session = hs_run_context_session(run);
    bool pending = hook->rollback_pending;
    if (hook->policy != HS_GUARD_ROLLBACK || hs_run_context_boundary(run) != HS_BOUNDARY_RUN)
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
    hs__spikes_reset(&hook->spikes); /* the restored state has the values before its step */
    return hs__rollback_restore(&hook->rollback, run, hook->found.step, hook->found.first, err);
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const finite_guard *hook = self;
    const record now = {hook->rollback.count, hook->skips};
    hs_code code = hs_state_writer_write(out, &now, sizeof now, err);
    return code ? code : hs__spikes_save(&hook->spikes, out, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    finite_guard *hook = self;
    record loaded;
    int64_t schedule[3];
    hs_code code = hs_state_reader_read(in, &loaded, sizeof loaded, err);
    if (code || (hs_state_reader_version(in) == 0 && (code = hs_state_reader_read(in, schedule, sizeof schedule, err))))
        return code;
    if (loaded.skips < 0 || loaded.skips > LARGEST_COUNT)
        return hs_error_set(err, HS_DATA_LOSS, "invalid count: %lld skipped updates", (long long)loaded.skips);
    if ((code = hs__rollback_load(&hook->rollback, &loaded.rollback, err)))
        return code;
    hook->skips = loaded.skips;
    return hs__spikes_load(&hook->spikes, in, err);
}

static void destroy(void *self)
{
    finite_guard *hook = self;
    const hs_env *env = &hook->base.env;
    hs_host_copy_free(&hook->copy);
    hs__spikes_free(&hook->spikes, env);
    hs_env_free(env, (void *)hook->watched.names);
    hs_env_free(env, hook->update_op);
    hs_env_free(env, hook->dump.directory);
    hs_env_free(env, hook->rollback.learning_rate);
    hs_env_free(env, hook->rollback.skip_op);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "finite_guard", .begin = begin, .after_create_session = after_create_session,
            .after_run = after_run, .boundary = boundary, .save_state = save_state, .load_state = load_state,
            .destroy = destroy, .state_version = 1, .state_bytes = sizeof(record));

/* Options. */

/* An option that has no effect without another one. */
typedef struct {
    const char *name;
    bool set;
} given_option;

static hs_code refuse_unused(const given_option *options, size_t n, const char *without, hs_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (options[i].set)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s has no effect without %s", options[i].name, without);
    return HS_OK;
}
#define REFUSE_UNUSED(without, err, ...)                                                                                   \
    refuse_unused((const given_option[]){__VA_ARGS__}, sizeof((const given_option[]){__VA_ARGS__}) / sizeof(given_option), \
                  without, err)

static hs_code check_count(const char *name, int64_t count, bool may_be_never, hs_error *err)
{
    if (count >= (may_be_never ? HS_NEVER : 0))
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %lld; it must be at least 1%s", name, (long long)count,
                        may_be_never ? ", or HS_NEVER for no limit" : "");
}

static bool is_given(const char *text)
{
    return text && *text;
}

static hs_code check_rollback(const hs_finite_guard_options *o, hs_error *err)
{
    hs_code code;
    if (o->policy != HS_GUARD_ROLLBACK)
        return REFUSE_UNUSED("HS_GUARD_ROLLBACK", err, {"saver", o->saver}, {"max_rollbacks", o->max_rollbacks},
                             {"learning_rate", is_given(o->learning_rate)},
                             {"learning_rate_factor", o->learning_rate_factor != 0}, {"skip_op", is_given(o->skip_op)},
                             {"skip_batches", o->skip_batches});
    if ((code = check_count("max_rollbacks", o->max_rollbacks, true, err)) ||
        (code = check_count("skip_batches", o->skip_batches, false, err)))
        return code;
    if (!is_given(o->learning_rate) &&
        (code = REFUSE_UNUSED("learning_rate", err, {"learning_rate_factor", o->learning_rate_factor != 0})))
        return code;
    if (!is_given(o->skip_op) && (code = REFUSE_UNUSED("skip_op", err, {"skip_batches", o->skip_batches})))
        return code;
    if (!(o->learning_rate_factor >= 0 && o->learning_rate_factor <= 1))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "learning_rate_factor is %g; it must be above 0 and at most 1",
                            o->learning_rate_factor);
    return HS_OK;
}

static hs_code check_skip(const hs_finite_guard_options *o, hs_error *err)
{
    if (o->policy != HS_GUARD_SKIP_STEP)
        return REFUSE_UNUSED("HS_GUARD_SKIP_STEP", err, {"update_op", is_given(o->update_op)}, {"max_skips", o->max_skips});
    if (!is_given(o->update_op))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "HS_GUARD_SKIP_STEP requires update_op: let the training run only compute gradients, and name the op that "
            "applies them");
    if (o->every_n_steps || hs__trigger_is_set(&o->when))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "HS_GUARD_SKIP_STEP excludes %s, because it checks every training run",
                            o->every_n_steps ? "every_n_steps" : "when");
    return check_count("max_skips", o->max_skips, true, err);
}

static bool has_names(const char *const *names)
{
    return names && names[0];
}

static hs_code check_spikes(const hs_finite_guard_options *o, hs_error *err)
{
    hs_code code;
    if (!has_names(o->losses) &&
        (code = REFUSE_UNUSED("losses", err, {"spike_zscore", o->spike_zscore != 0}, {"spike_window", o->spike_window})))
        return code;
    if (!(o->spike_zscore >= 0 || o->spike_zscore == HS_NEVER))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "spike_zscore is %g; it must be above 0, or HS_NEVER",
                            o->spike_zscore);
    if (o->spike_window && (o->spike_window < 2 || o->spike_window > LARGEST_WINDOW))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "spike_window is %lld; it must be from 2 to %d",
                            (long long)o->spike_window, LARGEST_WINDOW);
    return HS_OK;
}

static hs_code check(const void *options, hs_error *err)
{
    const hs_finite_guard_options *o = options;
    hs_code code;
    if (!has_names(o->inputs) && !has_names(o->activations) && !has_names(o->gradients) && !has_names(o->parameters) &&
        !has_names(o->losses))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "nothing to watch; name tensors in inputs, activations, gradients, parameters or losses");
    if (o->policy < HS_GUARD_FAIL || o->policy > HS_GUARD_WARN)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "policy is %d, not an hs_guard_policy", (int)o->policy);
    if (!is_given(o->dump_dir) && (code = REFUSE_UNUSED("dump_dir", err, {"dump_also", has_names(o->dump_also)})))
        return code;
    if ((code = check_spikes(o, err)) || (code = check_rollback(o, err)))
        return code;
    return check_skip(o, err);
}

/* Copies all names to one list. */
static hs_code copy_names(finite_guard *hook, const hs_finite_guard_options *o, hs_error *err)
{
    const char *const *const lists[STAGES] = {o->inputs,    o->activations, o->losses,
                                              o->gradients, o->parameters,  o->dump_also};
    size_t n = 0;
    for (int stage = 0; stage < STAGES; stage++) {
        for (size_t i = 0; lists[stage] && lists[stage][i]; i++)
            n++;
        hook->watched.ends[stage] = n;
    }
    const char **all = hs_env_alloc(&hook->base.env, (n + 1) * sizeof *all);
    if (!all)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the hook's names");
    n = 0;
    for (int stage = 0; stage < STAGES; stage++)
        for (size_t i = 0; lists[stage] && lists[stage][i]; i++)
            all[n++] = lists[stage][i];
    hook->watched.names = hs__hook_names(hook, all, err);
    hs_env_free(&hook->base.env, all);
    hook->base.fetches = hook->watched.names;
    return hook->watched.names ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

static int64_t value_or(int64_t given, int64_t default_value)
{
    return given ? given : default_value;
}

static hs_code copy_text(finite_guard *hook, char **to, const char *text, hs_error *err)
{
    return !text || !*text || (*to = hs__hook_text(hook, text, err)) ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    finite_guard *hook = self;
    const hs_finite_guard_options *o = given;
    hook->policy = o->policy;
    const hs__when_options when = {.steps = o->every_n_steps,
                                   .when = o->when,
                                   .first = true,
                                   .counts_runs = true,
                                   .optional = true,
                                   .no_last = "the guard checks runs"};
    hook->max_skips = value_or(o->max_skips, MOST_SKIPS);
    hook->copy.env = &hook->base.env;
    hook->rollback = (hs__rollback){.saver = o->saver,
                                    .most = value_or(o->max_rollbacks, MOST_ROLLBACKS),
                                    .factor = o->learning_rate_factor != 0 ? o->learning_rate_factor : 0.5,
                                    .skip_batches = o->skip_batches};
    hs_code code = hs__hook_when(hook, &when, err);
    if (!code && !(code = copy_names(hook, o, err)) &&
        !(code = hs__spikes_init(&hook->spikes, hook->watched.ends[LOSSES] - hook->watched.ends[LOSSES - 1],
                                 value_or(o->spike_window, SPIKE_WINDOW),
                                 o->spike_zscore != 0 ? o->spike_zscore : SPIKE_ZSCORE, &hook->base.env, err)) &&
        !(code = copy_text(hook, &hook->update_op, o->update_op, err)) &&
        !(code = copy_text(hook, &hook->dump.directory, o->dump_dir, err)) &&
        !(code = copy_text(hook, &hook->rollback.learning_rate, o->learning_rate, err)))
        code = copy_text(hook, &hook->rollback.skip_op, o->skip_op, err);
    hook->base.flags = HS_HOOK_ALL_RANKS;
    if (hook->base.when.every_n_secs != 0 && o->losses) /* the clock decides which losses are seen */
        hook->base.flags |= HS_HOOK_STATE_VARIES;
    if (has_names(o->losses)) /* their last values */
        hook->base.flags |= HS_HOOK_PER_RANK | HS_HOOK_ANY_RANK_COUNT;
    return code;
}

hs_hook hs_finite_guard_hook(const hs_finite_guard_options *given)
{
    return HS__HOOK_MAKE(&ops, finite_guard, hs_finite_guard_options, max_skips, check, fill, given);
}
