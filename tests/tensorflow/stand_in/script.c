/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a test's script in TensorFlow. The program is linked with --wrap, so that hs_script_backend returns the backend
 * below: a session on it runs a TensorFlow graph with the names of the script. The script still records the runs, and
 * determines which of them fail or take long. It also returns the expected values: if TensorFlow returns other values, the
 * run fails.
 *
 * A series or a constant is a tensor that is fed with the script's value for the run. A placeholder has type double. Runs
 * of ops that are not in the script, such as the graph's initializers, are not recorded. */
#include "tensorflow/stand_in/engine.h"

#include <hooksess/testing.h>

void __real_hs_script_free(hs_script *script);
hs_backend __real_hs_script_backend(hs_script *script);
hs_code __real_hs_script_placeholder(hs_script *script, const char *name);
void __real_hs_script_steps_per_run(hs_script *script, int64_t steps);
void __real_hs_script_set_step(hs_script *script, int64_t step);
hs_code __real_hs_script_fail_at(hs_script *script, size_t run, hs_code code, const char *message);

void __wrap_hs_script_free(hs_script *script);
hs_backend __wrap_hs_script_backend(hs_script *script);
hs_code __wrap_hs_script_placeholder(hs_script *script, const char *name);
void __wrap_hs_script_steps_per_run(hs_script *script, int64_t steps);
void __wrap_hs_script_set_step(hs_script *script, int64_t step);
hs_code __wrap_hs_script_fail_at(hs_script *script, size_t run, hs_code code, const char *message);

enum { NAME = 64, MOST_PARTS = 1024, MOST_FAILURES = 32 };

/* A name of the script and its node in the graph. */
typedef struct {
    char name[NAME];
    void *op;       /* of the script's hs_node */
    bool is_value;  /* not an op */
    hs_node node;   /* in the graph; op NULL: not added yet */
    hs_node given;  /* the placeholder that is fed with its value; op NULL: none */
    hs_dtype dtype; /* of `given` */
} part;

typedef struct stand_in {
    struct stand_in *next;
    hs_script *script;
    hs_backend tf;
    hs_node first, by; /* of the step: initial value and increment (engine.h) */
    hs_error error;    /* why the graph could not be opened */
    part parts[MOST_PARTS];
    size_t n_parts;
    char placeholders[MOST_PARTS][NAME];
    size_t n_placeholders;
    size_t failures[MOST_FAILURES]; /* runs that must fail */
    size_t n_failures;
    int64_t steps_per_run;
    void *session;
    size_t opens; /* how often the session is open */
    bool moved;   /* the test has set the script's step; the session's is not set yet */
} stand_in;

/* A run of the script, and the arguments of the same run in TensorFlow. */
typedef struct {
    stand_in *s;
    hs_backend_call *call;
    const part *parts[MOST_PARTS]; /* of the fetches */
    hs_tensor expected[MOST_PARTS];
    hs_node fetches[MOST_PARTS];
    hs_backend_feed feeds[2 * MOST_PARTS];
    size_t n_feeds;
    bool trains, initializes;
} performance;

/* All scripts: usually one, sometimes two. */
static stand_in *all;

static stand_in *of(const hs_script *script)
{
    stand_in *s = all;
    while (s && s->script != script)
        s = s->next;
    if (!s && (s = calloc(1, sizeof *s))) {
        s->script = (hs_script *)script;
        s->steps_per_run = 1;
        s->next = all;
        all = s;
    }
    assert_non_null(s);
    return s;
}

/* Returns the script's functions. */
static const hs_backend_ops *script_ops(void)
{
    return __real_hs_script_backend(NULL).ops;
}

static int64_t step_of(const stand_in *s)
{
    int64_t step = 0;
    script_ops()->global_step(s->script, &step, NULL);
    return step;
}

/* Makes the graph at the first call, as many scripts only record. */
static stand_in *opened(void *script)
{
    stand_in *s = of(script);
    if (s->tf.ops || s->error.code)
        return s;
    engine_graphs++;
    s->tf = engine_open(hs_script_env(s->script), &s->error);
    if (s->error.code)
        return s;
    const hs_backend_ops *ops = s->tf.ops;
    if (!engine_add(s->tf, "AssignAddVariableOp", "train", HS_NAMES("global_step", "global_step/by"), "dtype", HS_INT64,
                    &s->error) &&
        !ops->find(s->tf.self, "global_step/first", &s->first, &s->error))
        ops->find(s->tf.self, "global_step/by", &s->by, &s->error);
    return s;
}

/* The names. */

static part *part_of(stand_in *s, const void *op)
{
    for (size_t i = 0; i < s->n_parts; i++)
        if (s->parts[i].op == op)
            return &s->parts[i];
    return NULL;
}

static bool is_placeholder(const stand_in *s, const part *p)
{
    for (size_t i = 0; i < s->n_placeholders; i++)
        if (strcmp(s->placeholders[i], p->name) == 0)
            return true;
    return false;
}

static hs_code sc_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    stand_in *s = opened(self);
    size_t length = strcspn(name, ":");
    if (s->error.code)
        return hs_error_set(err, s->error.code, "%s", s->error.message);
    if (length >= NAME || script_ops()->find(self, name, node, NULL))
        return s->tf.ops->find(s->tf.self, name, node, err);
    if (!part_of(s, node->op)) {
        assert_true(s->n_parts < MOST_PARTS);
        part *p = &s->parts[s->n_parts++];
        memcpy(p->name, name, length);
        p->op = node->op;
        p->is_value = node->output >= 0;
    }
    return HS_OK;
}

/* Adds the graph's tensor for a value of the script. A name whose dtype changes gets a tensor for each dtype. */
static hs_code add_given(stand_in *s, part *p, hs_dtype dtype, hs_error *err)
{
    char given[2 * NAME], shown[2 * NAME];
    snprintf(given, sizeof given, "%s/given%d", p->name, (int)dtype);
    snprintf(shown, sizeof shown, p->dtype ? "%s/as%d" : "%s", p->name, (int)dtype);
    hs_code code = engine_add(s->tf, "Placeholder", given, NULL, "dtype", dtype, err);
    if (!code && !(code = engine_add(s->tf, "Identity", shown, HS_NAMES(given), NULL, dtype, err)) &&
        !(code = s->tf.ops->find(s->tf.self, given, &p->given, err)))
        code = s->tf.ops->find(s->tf.self, shown, &p->node, err);
    p->dtype = dtype;
    return code;
}

static hs_code add_part(stand_in *s, part *p, const hs_tensor *value, hs_error *err)
{
    bool is_there = strcmp(p->name, "train") == 0 || strcmp(p->name, "global_step") == 0;
    hs_code code = HS_OK;
    if (!is_there && !is_placeholder(s, p) && p->is_value)
        return p->dtype == value->dtype ? HS_OK : add_given(s, p, value->dtype, err);
    if (p->node.op)
        return HS_OK;
    if (!is_there && is_placeholder(s, p))
        code = engine_add(s->tf, "Placeholder", p->name, NULL, "dtype", HS_DOUBLE, err);
    else if (!is_there)
        code = engine_add(s->tf, "NoOp", p->name, NULL, NULL, HS_DTYPE_NONE, err);
    return code ? code : s->tf.ops->find(s->tf.self, p->name, &p->node, err);
}

/* Runs. */

/* Sets the session's step to the step that the test has set. */
static hs_code move_step(stand_in *s, hs_error *err)
{
    int64_t step = step_of(s), before;
    if (!s->moved || !s->session || s->tf.ops->global_step(s->session, &before, NULL))
        return HS_OK; /* a session that is not initialized yet begins at it (run_other, perform) */
    const hs_tensor value = hs_tensor_of(HS_INT64, HS_SCALAR, &step);
    s->moved = false;
    return s->tf.ops->write_variable(s->session, 0, &value, err);
}

/* Runs ops that are not in the script. */
static hs_code run_other(stand_in *s, hs_backend_call *call, hs_error *err)
{
    int64_t step = step_of(s);
    const hs_tensor first = hs_tensor_of(HS_INT64, HS_SCALAR, &step);
    hs_backend_feed feeds[MOST_PARTS] = {{s->first, &first}};
    assert_true(call->n_feeds < MOST_PARTS);
    for (size_t i = 0; i < call->n_feeds; i++)
        feeds[i + 1] = call->feeds[i];
    hs_backend_call with_step = *call;
    with_step.feeds = feeds;
    with_step.n_feeds = call->n_feeds + 1;
    hs_code code = s->tf.ops->run(s->session, &with_step, err);
    call->metadata = with_step.metadata;
    return code;
}

static bool must_fail(const stand_in *s)
{
    for (size_t i = 0; i < s->n_failures; i++)
        if (s->failures[i] == hs_script_runs(s->script))
            return true;
    return false;
}

/* Collects the caller's feeds, and the values of the other fetches. */
static hs_code collect_feeds(performance *r, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < r->call->n_feeds; i++) {
        part *p = part_of(r->s, r->call->feeds[i].node.op);
        if (p && !(code = add_part(r->s, p, r->call->feeds[i].value, err)))
            r->feeds[r->n_feeds++] = (hs_backend_feed){p->node, r->call->feeds[i].value};
        else if (!code)
            r->feeds[r->n_feeds++] = r->call->feeds[i];
    }
    for (size_t i = 0; i < r->call->n_fetches; i++)
        if (r->parts[i]->given.op)
            r->feeds[r->n_feeds++] = (hs_backend_feed){r->parts[i]->given, &r->expected[i]};
    return code;
}

/* Does not compare the bytes of strings, of device memory, and of the step, which changes. */
static bool are_alike(const part *p, const hs_tensor *given, const hs_tensor *expected)
{
    bool same = given->dtype == expected->dtype && given->rank == expected->rank && given->bytes == expected->bytes;
    bool is_plain = given->dtype != HS_STRING && !expected->memory && strcmp(p->name, "global_step") != 0;
    return same && (!given->bytes || !is_plain || memcmp(given->data, expected->data, given->bytes) == 0);
}

static hs_code compare(const performance *r, hs_error *err)
{
    for (size_t i = 0; i < r->call->n_fetches; i++)
        if (!are_alike(r->parts[i], &r->call->values[i], &r->expected[i]))
            return hs_error_set(err, HS_INTERNAL, "TensorFlow's '%s' differs from the script's", r->parts[i]->name);
    return HS_OK;
}

static hs_code perform(performance *r, hs_error *err)
{
    stand_in *s = r->s;
    int64_t step = step_of(s);
    const hs_tensor by = hs_tensor_of(HS_INT64, HS_SCALAR, &s->steps_per_run);
    const hs_tensor first = hs_tensor_of(HS_INT64, HS_SCALAR, &step);
    hs_code code = collect_feeds(r, err);
    for (size_t i = 0; !code && i < r->call->n_fetches; i++)
        r->fetches[i] = r->parts[i]->node;
    if (r->trains)
        r->feeds[r->n_feeds++] = (hs_backend_feed){s->by, &by};
    if (r->initializes)
        r->feeds[r->n_feeds++] = (hs_backend_feed){s->first, &first};
    hs_backend_call call = *r->call;
    call.fetches = r->fetches;
    call.feeds = r->feeds;
    call.n_feeds = r->n_feeds;
    call.metadata = (hs_bytes){NULL, 0};
    if (!code)
        code = s->tf.ops->run(s->session, &call, err);
    if (!r->call->metadata.size)
        r->call->metadata = call.metadata;
    return code ? code : compare(r, err);
}

static hs_code sc_run(void *session, hs_backend_call *call, hs_error *err)
{
    stand_in *s = opened(session);
    performance r = {.s = s, .call = call};
    int64_t before = step_of(s);
    assert_true(call->n_fetches <= MOST_PARTS && call->n_feeds < MOST_PARTS);
    for (size_t i = 0; i < call->n_fetches; i++)
        if (!(r.parts[i] = part_of(s, call->fetches[i].op)))
            return run_other(s, call, err);
    for (size_t i = 0; i < call->n_fetches; i++) {
        r.trains |= strcmp(r.parts[i]->name, "train") == 0;
        r.initializes |= strcmp(r.parts[i]->name, "init") == 0;
    }
    hs_error said = {0};
    hs_code code = move_step(s, err);
    if (code)
        return code;
    hs_backend_call theirs = *call;
    theirs.values = r.expected;
    hs_code expected = script_ops()->run(s->script, &theirs, &said);
    call->metadata = theirs.metadata;
    /* If a feed is missing, TensorFlow must also fail. */
    if (expected && (must_fail(s) || expected != HS_INVALID_ARGUMENT))
        return hs_error_set(err, said.code, "%s", said.message);
    for (size_t i = 0; !code && i < call->n_fetches; i++)
        code = add_part(s, (part *)r.parts[i], &r.expected[i], err);
    if (!code && (code = perform(&r, err)) && !expected)
        __real_hs_script_set_step(s->script, before);
    return !code && expected ? hs_error_set(err, HS_INTERNAL, "TensorFlow does not fail: %s", said.message) : code;
}

/* The rest of the backend. */

static const hs_env *sc_env(void *self)
{
    return hs_script_env(self);
}

static hs_code sc_status(void *self, hs_error *err)
{
    const stand_in *s = opened(self);
    return s->error.code ? hs_error_set(err, s->error.code, "%s", s->error.message) : HS_OK;
}

static hs_code sc_finalize(void *self, bool finalized, hs_error *err)
{
    stand_in *s = opened(self);
    return s->tf.ops->finalize(s->tf.self, finalized, err);
}

static bool sc_finalized(void *self)
{
    stand_in *s = opened(self);
    return s->tf.ops->finalized(s->tf.self);
}

static const char *sc_step_name(void *self)
{
    stand_in *s = opened(self);
    return s->tf.ops->global_step_name(s->tf.self);
}

static bool sc_collection_item(void *self, const char *key, size_t index, const void **item)
{
    stand_in *s = opened(self);
    return s->tf.ops->collection_item(s->tf.self, key, index, item);
}

static hs_code sc_collect(void *self, const char *key, const void *item, void (*release)(void *item), hs_error *err)
{
    stand_in *s = opened(self);
    return s->tf.ops->add_to_collection(s->tf.self, key, item, release, err);
}

static hs_code sc_default_op(void *self, const char *key, const char **name, hs_error *err)
{
    stand_in *s = opened(self);
    return s->tf.ops->default_op(s->tf.self, key, name, err);
}

static bool sc_variable(void *self, size_t index, hs_variable *out)
{
    stand_in *s = opened(self);
    return s->tf.ops->variable(s->tf.self, index, out);
}

/* Initializes the step as a chief would. */
static hs_code initialize(stand_in *s, hs_error *err)
{
    int64_t step = step_of(s);
    const hs_tensor first = hs_tensor_of(HS_INT64, HS_SCALAR, &step);
    return engine_has_chief ? s->tf.ops->write_variable(s->session, 0, &first, err) : HS_OK;
}

/* A script has one session. */
static hs_code sc_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    stand_in *s = opened(self);
    hs_code code = s->opens ? HS_OK : s->tf.ops->open(s->tf.self, target, config, &s->session, err);
    if (!code && !s->opens && (code = initialize(s, err)))
        s->tf.ops->close(s->session, NULL);
    if (!code) {
        s->opens++;
        *session = self;
    }
    return code;
}

static hs_code sc_close(void *session, hs_error *err)
{
    stand_in *s = opened(session);
    void *last = s->session;
    if (--s->opens)
        return HS_OK;
    s->session = NULL;
    return s->tf.ops->close(last, err);
}

static hs_code sc_read(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    stand_in *s = opened(session);
    hs_code code = move_step(s, err);
    return code ? code : s->tf.ops->read_variable(s->session, index, value, err);
}

static hs_code sc_write(void *session, size_t index, const hs_tensor *value, hs_error *err)
{
    stand_in *s = opened(session);
    hs_code code = s->tf.ops->write_variable(s->session, index, value, err);
    if (!code)
        script_ops()->write_variable(s->script, index, value, NULL);
    return code;
}

static hs_code sc_step(void *session, int64_t *step, hs_error *err)
{
    stand_in *s = opened(session);
    hs_code code = move_step(s, err);
    if (!code && !(code = s->tf.ops->global_step(s->session, step, err)) && *step != step_of(s))
        code = hs_error_set(err, HS_INTERNAL, "TensorFlow is at step %lld, the script at %lld", (long long)*step,
                            (long long)step_of(s));
    return code;
}

hs_backend __wrap_hs_script_backend(hs_script *script)
{
    static const hs_backend_ops ops =
        HS_INIT(hs_backend_ops, .name = "script of TensorFlow's", .flags = HS_BACKEND_KEEPS_VALUES | HS_BACKEND_KEEPS_VIEWS,
                .env = sc_env, .status = sc_status, .find = sc_find, .finalize = sc_finalize, .finalized = sc_finalized,
                .global_step_name = sc_step_name, .collection_item = sc_collection_item, .add_to_collection = sc_collect,
                .default_op = sc_default_op, .variable = sc_variable, .open = sc_open, .run = sc_run, .close = sc_close,
                .read_variable = sc_read, .write_variable = sc_write, .global_step = sc_step);
    return (hs_backend){&ops, script};
}

/* Functions that fill a script. */

hs_code __wrap_hs_script_placeholder(hs_script *script, const char *name)
{
    stand_in *s = of(script);
    assert_true(s->n_placeholders < MOST_PARTS);
    snprintf(s->placeholders[s->n_placeholders++], NAME, "%s", name);
    return __real_hs_script_placeholder(script, name);
}

void __wrap_hs_script_steps_per_run(hs_script *script, int64_t steps)
{
    of(script)->steps_per_run = steps;
    __real_hs_script_steps_per_run(script, steps);
}

void __wrap_hs_script_set_step(hs_script *script, int64_t step)
{
    of(script)->moved = true;
    __real_hs_script_set_step(script, step);
}

hs_code __wrap_hs_script_fail_at(hs_script *script, size_t run, hs_code code, const char *message)
{
    stand_in *s = of(script);
    assert_true(s->n_failures < MOST_FAILURES);
    s->failures[s->n_failures++] = run;
    return __real_hs_script_fail_at(script, run, code, message);
}

void __wrap_hs_script_free(hs_script *script)
{
    stand_in **at = &all;
    while (*at && (*at)->script != script)
        at = &(*at)->next;
    stand_in *s = *at;
    if (s) {
        *at = s->next;
        if (s->session) /* a test's own close did not close it */
            s->tf.ops->close(s->session, NULL);
        hs_tensorflow_free(s->tf);
        free(s);
    }
    __real_hs_script_free(script);
}
