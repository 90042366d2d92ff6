/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted backend: a script is a list of items (ops and values) and of events (failures, delays) for the n-th run; the
 * backend's run function plays them. It uses public functions of the library only. */
#include <hooksess/testing.h>

#include "testing/complete_env.h"
#include "testing/seconds.h"
#include "testing/string_buffer.h"

#include <stdatomic.h>
#include <string.h>

enum { RESERVED_BYTES = 1 << 12 }; /* of the records; enough for most tests, so that runs allocate nothing */

typedef enum { OP, STEP, SERIES, CONSTANT, PLACEHOLDER } kind;

/* An op or a tensor. */
typedef struct item {
    struct item *next;
    kind kind;
    double *series;
    size_t n;
    double current; /* value of a series in this run */
    hs_tensor value;
    char name[];
} item;

typedef enum { RUN_EVENT, OPEN_EVENT } event_type;

/* Effects of a run, or of opening a session. */
typedef struct event {
    struct event *next;
    event_type type;
    size_t n; /* number of the run or open, from 1 */
    hs_code code;
    char *message;
    double delay_secs;
    hs_bytes metadata;
} event;

/* An item of a collection. */
typedef struct collected {
    struct collected *next;
    const void *item;
    void (*release)(void *item);
    char key[];
} collected;

struct hs_script {
    hs_env env;             /* complete */
    _Atomic int64_t now_ns; /* several threads read and advance the clock */
    item *items;
    event *events;
    collected *collected; /* the newest first */
    int64_t step, steps_per_run;
    size_t runs, opens;
    bool finalized;
    hs__string_buffer calls, last_run;
};

static char *copy_text(const hs_env *env, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = hs_env_alloc(env, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

static hs_code no_memory(hs_error *err, size_t bytes, const char *what)
{
    return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %s (%zu bytes)", what, bytes);
}

/* The clock. */

static int64_t script_now(void *user)
{
    return ((hs_script *)user)->now_ns;
}

static void script_sleep(void *user, int64_t ns)
{
    if (ns > 0)
        atomic_fetch_add(&((hs_script *)user)->now_ns, ns);
}

void hs_script_advance(hs_script *script, double secs)
{
    int64_t ns = hs__seconds_to_ns(secs);
    if (script && ns > 0)
        hs_env_sleep_ns(&script->env, ns);
}

/* Building a script. */

static hs_code not_added(const hs_script *script, const char *name)
{
    return script && name ? HS_RESOURCE_EXHAUSTED : HS_INVALID_ARGUMENT;
}

static item *find_item(const hs_script *script, const char *name, size_t length)
{
    item *at = script->items;
    while (at && (strncmp(at->name, name, length) != 0 || at->name[length]))
        at = at->next;
    return at;
}

/* Adds an item, or replaces the one of this name. */
static item *add_item(hs_script *script, kind what, const char *name)
{
    if (!script || !name)
        return NULL;
    item *added = find_item(script, name, strlen(name));
    if (added) {
        hs_env_free(&script->env, added->series);
    } else {
        added = hs_env_alloc(&script->env, sizeof *added + strlen(name) + 1);
        if (!added)
            return NULL;
        strcpy(added->name, name);
        added->next = script->items;
        script->items = added;
    }
    added->kind = what;
    added->series = NULL;
    added->n = 0;
    added->value = (hs_tensor){.data = NULL};
    return added;
}

hs_script *hs_script_new(const hs_env *given)
{
    hs_env env;
    if (!hs__complete_env(&env, given))
        return NULL;
    hs_script *script = hs_env_alloc(&env, sizeof *script);
    if (!script)
        return NULL;
    script->env = env;
    if (!given || !given->clock.monotonic_ns)
        script->env.clock = (hs_clock){script_now, script_now, script_sleep, script};
    atomic_init(&script->now_ns, HS__CLOCK_START_NS);
    script->steps_per_run = 1;
    hs__string_buffer_init(&script->calls, &script->env);
    hs__string_buffer_init(&script->last_run, &script->env);
    item *step = add_item(script, STEP, "global_step");
    if (!step || !add_item(script, OP, "train") || !hs__string_buffer_reserve(&script->calls, RESERVED_BYTES) ||
        !hs__string_buffer_reserve(&script->last_run, RESERVED_BYTES)) {
        hs_script_free(script);
        return NULL;
    }
    step->value = hs_tensor_of(HS_INT64, HS_SCALAR, &script->step);
    return script;
}

void hs_script_free(hs_script *script)
{
    if (!script)
        return;
    for (collected *at = script->collected, *next; at; at = next) {
        next = at->next;
        if (at->release)
            at->release((void *)at->item);
        hs_env_free(&script->env, at);
    }
    for (item *at = script->items, *next; at; at = next) {
        next = at->next;
        hs_env_free(&script->env, at->series);
        hs_env_free(&script->env, at);
    }
    for (event *at = script->events, *next; at; at = next) {
        next = at->next;
        hs_env_free(&script->env, at->message);
        hs_env_free(&script->env, at);
    }
    hs__string_buffer_free(&script->calls);
    hs__string_buffer_free(&script->last_run);
    hs_env env = script->env;
    hs_env_free(&env, script);
}

const hs_env *hs_script_env(const hs_script *script)
{
    return script ? &script->env : hs_test_system_env(NULL);
}

hs_code hs_script_series(hs_script *script, const char *name, const double *values, size_t n)
{
    if (n && !values)
        return HS_INVALID_ARGUMENT;
    double *copy = script && n <= SIZE_MAX / sizeof *copy ? hs_env_alloc(&script->env, n * sizeof *copy) : NULL;
    item *series = copy ? add_item(script, SERIES, name) : NULL;
    if (!series) {
        if (copy)
            hs_env_free(&script->env, copy);
        return not_added(script, name);
    }
    if (n)
        memcpy(copy, values, n * sizeof *copy);
    series->series = copy;
    series->n = n;
    series->value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &series->current);
    return HS_OK;
}

hs_code hs_script_constant(hs_script *script, const char *name, const hs_tensor *value)
{
    if (!value)
        return HS_INVALID_ARGUMENT;
    item *constant = add_item(script, CONSTANT, name);
    if (!constant)
        return not_added(script, name);
    constant->value = *value;
    return HS_OK;
}

hs_code hs_script_placeholder(hs_script *script, const char *name)
{
    return add_item(script, PLACEHOLDER, name) ? HS_OK : not_added(script, name);
}

hs_code hs_script_op(hs_script *script, const char *name)
{
    return add_item(script, OP, name) ? HS_OK : not_added(script, name);
}

static event *find_event(const hs_script *script, event_type type, size_t n)
{
    event *at = script->events;
    while (at && (at->type != type || at->n != n))
        at = at->next;
    return at;
}

/* Sets *out to the event of a run or open. Creates the event if it does not exist. */
static hs_code event_at(hs_script *script, event_type type, size_t n, event **out)
{
    if (!script || n == 0)
        return HS_INVALID_ARGUMENT;
    if ((*out = find_event(script, type, n)))
        return HS_OK;
    event *added = hs_env_alloc(&script->env, sizeof *added);
    if (!added)
        return HS_RESOURCE_EXHAUSTED;
    *added = (event){.next = script->events, .type = type, .n = n};
    *out = script->events = added;
    return HS_OK;
}

static hs_code fail_at(hs_script *script, event_type type, size_t n, hs_code code, const char *message)
{
    event *at;
    hs_code failed = event_at(script, type, n, &at);
    if (failed)
        return failed;
    char *copy = copy_text(&script->env, message ? message : "");
    if (!copy)
        return HS_RESOURCE_EXHAUSTED;
    hs_env_free(&script->env, at->message);
    at->message = copy;
    at->code = code;
    return HS_OK;
}

hs_code hs_script_fail_at(hs_script *script, size_t run, hs_code code, const char *message)
{
    return fail_at(script, RUN_EVENT, run, code, message);
}

hs_code hs_script_fail_open_at(hs_script *script, size_t n, hs_code code, const char *message)
{
    return fail_at(script, OPEN_EVENT, n, code, message);
}

hs_code hs_script_delay_at(hs_script *script, size_t run, double secs)
{
    event *at;
    if (hs__seconds_to_ns(secs) < 0)
        return HS_INVALID_ARGUMENT;
    hs_code code = event_at(script, RUN_EVENT, run, &at);
    if (!code)
        at->delay_secs = secs;
    return code;
}

hs_code hs_script_metadata_at(hs_script *script, size_t run, hs_bytes metadata)
{
    event *at;
    hs_code code = event_at(script, RUN_EVENT, run, &at);
    if (!code)
        at->metadata = metadata;
    return code;
}

void hs_script_steps_per_run(hs_script *script, int64_t steps)
{
    if (script)
        script->steps_per_run = steps;
}

void hs_script_set_step(hs_script *script, int64_t step)
{
    if (script)
        script->step = step;
}

/* The record of calls. */

void hs_script_note(hs_script *script, const char *word)
{
    if (script && word)
        hs__string_buffer_add(&script->calls, script->calls.length ? " %s" : "%s", word);
}

const char *hs_script_calls(hs_script *script)
{
    return script ? hs__string_buffer_text(&script->calls) : "";
}

void hs_script_clear_calls(hs_script *script)
{
    if (script)
        hs__string_buffer_clear(&script->calls);
}

size_t hs_script_runs(const hs_script *script)
{
    return script ? script->runs : 0;
}

const char *hs_script_last_run(const hs_script *script)
{
    return script ? hs__string_buffer_text(&script->last_run) : "";
}

/* The backend. */

static const hs_env *backend_env(void *self)
{
    return self ? &((hs_script *)self)->env : NULL;
}

static hs_code backend_status(void *self, hs_error *err)
{
    return self ? HS_OK : hs_error_set(err, HS_RESOURCE_EXHAUSTED, "the script is NULL: hs_script_new has failed");
}

static hs_code backend_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    const hs_script *script = self;
    if (!script)
        return backend_status(self, err);
    size_t length = strlen(name);
    if (length > 2 && strcmp(name + length - 2, ":0") == 0)
        length -= 2;
    item *found = find_item(script, name, length);
    if (!found)
        return hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the script", name);
    bool is_op = found->kind == OP;
    *node = (hs_node){.op = found, .output = is_op ? -1 : 0, .n_outputs = !is_op};
    return HS_OK;
}

static hs_code backend_finalize(void *self, bool finalized, hs_error *err)
{
    (void)err;
    ((hs_script *)self)->finalized = finalized;
    return HS_OK;
}

static bool backend_finalized(void *self)
{
    return self && ((hs_script *)self)->finalized;
}

static const char *backend_step_name(void *self)
{
    (void)self;
    return "global_step";
}

static bool backend_collection_item(void *self, const char *key, size_t index, const void **out)
{
    const hs_script *script = self;
    size_t n = 0; /* items of this collection */
    for (const collected *at = script ? script->collected : NULL; at; at = at->next)
        n += strcmp(at->key, key) == 0;
    if (index >= n)
        return false;
    for (const collected *at = script->collected; at; at = at->next)
        if (strcmp(at->key, key) == 0 && --n == index) {
            *out = at->item;
            break;
        }
    return true;
}

static hs_code backend_add_to_collection(void *self, const char *key, const void *value, void (*release)(void *item),
                                         hs_error *err)
{
    hs_script *script = self;
    if (!script)
        return backend_status(self, err);
    collected *added = hs_env_alloc(&script->env, sizeof *added + strlen(key) + 1);
    if (!added)
        return no_memory(err, strlen(key), "an item of a collection");
    strcpy(added->key, key);
    added->item = value;
    added->release = release;
    added->next = script->collected;
    script->collected = added;
    return HS_OK;
}

static bool backend_variable(void *self, size_t index, hs_variable *out)
{
    (void)self;
    *out = (hs_variable){.name = "global_step", .dtype = HS_INT64};
    return index == 0;
}

static hs_code backend_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    hs_script *script = self;
    const event *at = find_event(script, OPEN_EVENT, ++script->opens);
    (void)target, (void)config;
    if (at && at->code)
        return hs_error_set(err, at->code, "%s", at->message);
    *session = self;
    return HS_OK;
}

static hs_code backend_close(void *session, hs_error *err)
{
    (void)session, (void)err;
    return HS_OK;
}

static hs_code backend_read(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    (void)index, (void)err;
    *value = hs_tensor_of(HS_INT64, HS_SCALAR, &((hs_script *)session)->step);
    return HS_OK;
}

static hs_code backend_write(void *session, size_t index, const hs_tensor *value, hs_error *err)
{
    (void)index, (void)err;
    memcpy(&((hs_script *)session)->step, value->data, sizeof(int64_t));
    return HS_OK;
}

static hs_code backend_step(void *session, int64_t *step, hs_error *err)
{
    (void)err;
    *step = ((hs_script *)session)->step;
    return HS_OK;
}

/* Describes the fetches, feeds and options of a run. */
static void describe(hs_script *script, const hs_backend_call *call)
{
    hs__string_buffer *text = &script->last_run;
    hs__string_buffer_clear(text);
    hs__string_buffer_add(text, "fetch");
    for (size_t i = 0; i < call->n_fetches; i++)
        hs__string_buffer_add(text, " %s", ((const item *)call->fetches[i].op)->name);
    hs__string_buffer_add(text, "; feed");
    for (size_t i = 0; i < call->n_feeds; i++)
        hs__string_buffer_add(text, " %s", ((const item *)call->feeds[i].node.op)->name);
    const hs_run_options *options = call->options;
    if (!options)
        return;
    hs__string_buffer_add(text, "; trace %lld timeout %g pool %lld graphs %d oom %d disk %d watch",
                          (long long)options->trace_level, options->timeout_secs, (long long)options->inter_op_thread_pool,
                          options->output_partition_graphs, options->report_tensor_allocations_upon_oom,
                          options->reset_disk_byte_usage);
    for (const hs_debug_watch *watch = options->debug_watches; watch && watch->node_name; watch++)
        hs__string_buffer_add(text, " %s", watch->node_name);
}

static const hs_tensor *feed_of(const hs_backend_call *call, const item *fetched)
{
    for (size_t i = 0; i < call->n_feeds; i++)
        if (call->feeds[i].node.op == fetched)
            return call->feeds[i].value;
    return NULL;
}

/* Sets the value of a fetch. */
static hs_code play(hs_script *script, item *fetched, const hs_tensor *fed, hs_tensor *value, hs_error *err)
{
    *value = (hs_tensor){.data = NULL};
    if (fed) {
        *value = *fed;
    } else if (fetched->kind == PLACEHOLDER) {
        return hs_error_set(err, HS_INVALID_ARGUMENT, "placeholder '%s' must be fed", fetched->name);
    } else if (fetched->kind == SERIES) {
        if (script->runs > fetched->n)
            return hs_error_set(err, HS_OUT_OF_RANGE, "series '%s' of the script has %zu values, but this is run %zu",
                                fetched->name, fetched->n, script->runs);
        fetched->current = fetched->series[script->runs - 1];
        *value = fetched->value;
    } else if (fetched->kind != OP) {
        *value = fetched->value;
    }
    return HS_OK;
}

static hs_code backend_run(void *session, hs_backend_call *call, hs_error *err)
{
    hs_script *script = session;
    script->runs++;
    hs_script_note(script, "run");
    describe(script, call);
    if (script->calls.failed)
        return no_memory(err, script->calls.length, "the record of the calls");
    if (script->last_run.failed)
        return no_memory(err, script->last_run.length, "the description of the run");
    const event *at = find_event(script, RUN_EVENT, script->runs);
    if (at) {
        hs_script_advance(script, at->delay_secs);
        call->metadata = at->metadata;
        if (at->code)
            return hs_error_set(err, at->code, "%s", at->message);
    }
    bool trains = false;
    for (size_t i = 0; i < call->n_fetches; i++) {
        item *fetched = call->fetches[i].op;
        hs_code code = play(script, fetched, feed_of(call, fetched), &call->values[i], err);
        if (code)
            return code;
        trains |= fetched->kind == OP && strcmp(fetched->name, "train") == 0;
    }
    if (trains)
        script->step += script->steps_per_run;
    return HS_OK;
}

hs_backend hs_script_backend(hs_script *script)
{
    static const hs_backend_ops ops =
        HS_INIT(hs_backend_ops, .name = "script", .env = backend_env, .status = backend_status, .find = backend_find,
                .finalize = backend_finalize, .finalized = backend_finalized, .global_step_name = backend_step_name,
                .collection_item = backend_collection_item, .add_to_collection = backend_add_to_collection,
                .variable = backend_variable, .open = backend_open, .run = backend_run, .close = backend_close,
                .read_variable = backend_read, .write_variable = backend_write, .global_step = backend_step);
    return (hs_backend){&ops, script};
}
