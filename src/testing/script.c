/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted backend, for tests of hooks. */
#include <hooksess/testing.h>

#include "base/buffer.h"
#include "base/map.h"
#include "base/tensor.h"

#include <string.h>

enum { ROOM_FOR_CALLS = 1 << 12 }; /* words of usual tests fit without asking for memory */

typedef enum { OP, STEP, SERIES, CONSTANT, PLACEHOLDER } kind;

typedef struct {
    kind kind;
    const char *name;
    double *series;
    size_t n;
    double current; /* of a series, in this run */
    hs_tensor value;
} item;

/* What is to happen in a run. */
typedef struct {
    size_t run;
    hs_code code;
    char *message;
    double delay;
    hs_bytes metadata;
} event;

typedef struct {
    char *key;
    const void *item;
    void (*release)(void *item);
} collected;

struct hs_script {
    hs_env env;
    bool own_clock;
    int64_t now_ns;
    item **items;
    size_t n_items, items_capacity;
    hs__map names;
    event *events;
    size_t n_events, events_capacity;
    collected *collected;
    size_t n_collected, collected_capacity;
    int64_t step, steps_per_run;
    size_t runs;
    bool finalized;
    hs__buffer calls, last_run;
};

/* The clock that stands still. */

static int64_t script_now(void *user)
{
    return ((hs_script *)user)->now_ns;
}

static void script_sleep(void *user, int64_t ns)
{
    ((hs_script *)user)->now_ns += ns > 0 ? ns : 0;
}

void hs_script_advance(hs_script *script, double secs)
{
    if (script)
        script->now_ns += (int64_t)(secs * 1e9);
}

/* Making one. */

static hs_code not_added(const hs_script *script, const char *name)
{
    return script && name ? HS_RESOURCE_EXHAUSTED : HS_INVALID_ARGUMENT;
}

static item *add_item(hs_script *script, kind what, const char *name)
{
    size_t at = script && name ? hs__map_find(&script->names, name) : HS__NONE;
    if (!script || !name)
        return NULL;
    if (at != HS__NONE) {
        item *old = script->items[at];
        hs__free(&script->env, old->series);
        *old = (item){.kind = what, .name = old->name};
        return old;
    }
    item *made = hs__alloc(&script->env, 1, sizeof *made);
    if (!made)
        return NULL;
    made->kind = what;
    if (hs__reserve(&script->env, &script->items, &script->items_capacity, script->n_items + 1, sizeof *script->items,
                    NULL) ||
        hs__map_add(&script->names, name, script->n_items, &made->name, NULL)) {
        hs__free(&script->env, made);
        return NULL;
    }
    script->items[script->n_items++] = made;
    return made;
}

hs_script *hs_script_new(const hs_env *given)
{
    hs_env env;
    if (hs__env_take(&env, given, NULL))
        return NULL;
    hs_script *script = hs__alloc(&env, 1, sizeof *script);
    if (!script)
        return NULL;
    script->env = env;
    script->own_clock = !given || !given->clock.monotonic_ns;
    if (script->own_clock)
        script->env.clock = (hs_clock){script_now, script_now, script_sleep, script};
    script->now_ns = 1000000000000000000; /* some day in 2001 */
    script->steps_per_run = 1;
    hs__map_init(&script->names, &script->env);
    hs__buffer_init(&script->calls, &script->env);
    hs__buffer_init(&script->last_run, &script->env);
    item *step = add_item(script, STEP, "global_step");
    if (!step || !add_item(script, OP, "train") || !hs__buffer_room(&script->calls, ROOM_FOR_CALLS) ||
        !hs__buffer_room(&script->last_run, ROOM_FOR_CALLS)) {
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
    hs_env env = script->env;
    for (size_t i = script->n_collected; i-- > 0;) {
        if (script->collected[i].release)
            script->collected[i].release((void *)script->collected[i].item);
        hs__free(&env, script->collected[i].key);
    }
    for (size_t i = 0; i < script->n_items; i++) {
        hs__free(&env, script->items[i]->series);
        hs__free(&env, script->items[i]);
    }
    for (size_t i = 0; i < script->n_events; i++)
        hs__free(&env, script->events[i].message);
    hs__free(&env, script->items);
    hs__free(&env, script->events);
    hs__free(&env, script->collected);
    hs__map_free(&script->names);
    hs__buffer_free(&script->calls);
    hs__buffer_free(&script->last_run);
    hs__free(&env, script);
}

const hs_env *hs_script_env(const hs_script *script)
{
    return script ? &script->env : hs_env_default();
}

hs_code hs_script_series(hs_script *script, const char *name, const double *values, size_t n)
{
    double *copy = script ? hs__alloc(&script->env, n, sizeof *copy) : NULL;
    item *series = copy ? add_item(script, SERIES, name) : NULL;
    if (!series) {
        if (copy)
            hs__free(&script->env, copy);
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

static event *event_at(hs_script *script, size_t run)
{
    for (size_t i = 0; script && i < script->n_events; i++)
        if (script->events[i].run == run)
            return &script->events[i];
    if (!script || hs__reserve(&script->env, &script->events, &script->events_capacity, script->n_events + 1,
                               sizeof *script->events, NULL))
        return NULL;
    event *added = &script->events[script->n_events++];
    *added = (event){.run = run};
    return added;
}

hs_code hs_script_fail_at(hs_script *script, size_t run, hs_code code, const char *message)
{
    event *at = event_at(script, run);
    char *copy = at ? hs__strdup(&script->env, message ? message : "") : NULL;
    if (!copy)
        return not_added(script, "");
    hs__free(&script->env, at->message);
    at->message = copy;
    at->code = code;
    return HS_OK;
}

hs_code hs_script_delay_at(hs_script *script, size_t run, double secs)
{
    event *at = event_at(script, run);
    if (!at)
        return not_added(script, "");
    at->delay = secs;
    return HS_OK;
}

hs_code hs_script_metadata_at(hs_script *script, size_t run, hs_bytes metadata)
{
    event *at = event_at(script, run);
    if (!at)
        return not_added(script, "");
    at->metadata = metadata;
    return HS_OK;
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

/* What was called. */

void hs_script_note(hs_script *script, const char *word)
{
    if (script)
        hs__buffer_text(&script->calls, script->calls.size ? " %s" : "%s", word);
}

const char *hs_script_calls(hs_script *script)
{
    return script && script->calls.size ? (const char *)script->calls.data : "";
}

void hs_script_clear_calls(hs_script *script)
{
    if (script)
        hs__buffer_clear(&script->calls);
}

size_t hs_script_runs(const hs_script *script)
{
    return script ? script->runs : 0;
}

const char *hs_script_last_run(const hs_script *script)
{
    return script && script->last_run.size ? (const char *)script->last_run.data : "";
}

/* The backend. */

static const hs_env *backend_env(void *self)
{
    return self ? &((hs_script *)self)->env : NULL;
}

static hs_code backend_status(void *self, hs_error *err)
{
    return self ? HS_OK
                : hs_error_set(err, HS_RESOURCE_EXHAUSTED,
                               "there is no script (NULL, as hs_script_new returns it where there is no memory)");
}

static hs_code backend_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    const hs_script *script = self;
    if (!script)
        return backend_status(self, err);
    size_t length = strlen(name);
    bool is_output = length > 2 && strcmp(name + length - 2, ":0") == 0;
    char *base = is_output ? hs__strndup(&script->env, name, length - 2) : NULL;
    if (is_output && !base)
        return hs__no_memory(err, length, "a name");
    size_t at = hs__map_find(&script->names, base ? base : name);
    hs__free(&script->env, base);
    if (at == HS__NONE)
        return hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the script", name);
    bool is_op = script->items[at]->kind == OP;
    *node = (hs_node){.op = script->items[at], .output = is_op ? -1 : 0, .n_outputs = !is_op};
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
    for (size_t i = 0; script && i < script->n_collected; i++)
        if (strcmp(script->collected[i].key, key) == 0 && index-- == 0) {
            *out = script->collected[i].item;
            return true;
        }
    return false;
}

static hs_code backend_add_to_collection(void *self, const char *key, const void *value, void (*release)(void *item),
                                         hs_error *err)
{
    hs_script *script = self;
    if (!script)
        return backend_status(self, err);
    hs_code code = hs__reserve(&script->env, &script->collected, &script->collected_capacity, script->n_collected + 1,
                               sizeof *script->collected, err);
    char *copy = code ? NULL : hs__strdup(&script->env, key);
    if (!copy)
        return code ? code : hs__no_memory(err, strlen(key), "a name");
    script->collected[script->n_collected++] = (collected){copy, value, release};
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
    (void)target, (void)config, (void)err;
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

/* Says in words what the run was asked for. */
static void describe(hs_script *script, const hs_backend_call *call)
{
    hs__buffer *text = &script->last_run;
    hs__buffer_clear(text);
    hs__buffer_text(text, "fetch");
    for (size_t i = 0; i < call->n_fetches; i++)
        hs__buffer_text(text, " %s", ((const item *)call->fetches[i].op)->name);
    hs__buffer_text(text, "; feed");
    for (size_t i = 0; i < call->n_feeds; i++)
        hs__buffer_text(text, " %s", ((const item *)call->feeds[i].node.op)->name);
    const hs_run_options *options = call->options;
    if (!options)
        return;
    hs__buffer_text(text, "; trace %lld timeout %g pool %lld graphs %d oom %d disk %d watch",
                    (long long)options->trace_level, options->timeout_secs, (long long)options->inter_op_thread_pool,
                    options->output_partition_graphs, options->report_tensor_allocations_upon_oom,
                    options->reset_disk_byte_usage);
    for (const hs_debug_watch *watch = options->debug_watches; watch && watch->node_name; watch++)
        hs__buffer_text(text, " %s", watch->node_name);
}

static const hs_tensor *feed_of(const hs_backend_call *call, const item *fetched)
{
    for (size_t i = 0; i < call->n_feeds; i++)
        if (call->feeds[i].node.op == fetched)
            return call->feeds[i].value;
    return NULL;
}

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
    const event *at = NULL;
    script->runs++;
    hs_script_note(script, "run");
    describe(script, call);
    if (hs__buffer_check(&script->calls, "the record of the calls", err) ||
        hs__buffer_check(&script->last_run, "the description of the run", err))
        return HS_RESOURCE_EXHAUSTED;
    for (size_t i = 0; i < script->n_events; i++)
        if (script->events[i].run == script->runs)
            at = &script->events[i];
    if (at) {
        script->now_ns += (int64_t)(at->delay * 1e9);
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
