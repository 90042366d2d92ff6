/* SPDX-License-Identifier: Apache-2.0 */
/* Nested runs do not change the values of outer runs. */
#include "session/probe.h"

#include "backends/bare.h"

/* A graph in which every run changes all values. */
typedef struct {
    play *p;
    hs_graph *graph;
    double counter; /* a value that "count" writes */
    char text[16];  /* what "words" shows */
    hs_string words[2];
    unsigned char device[8]; /* holds the complement of a double */
    hs_memory memory;
} world;

static hs_code count(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    world *w = self;
    w->counter++;
    *(double *)hs_op_output(op, 0)->data = w->counter * 10;
    return HS_OK;
}

static hs_code speak(void *self, hs_op *op, hs_error *err)
{
    world *w = self;
    snprintf(w->text, sizeof w->text, "run %d", (int)w->counter);
    w->words[0] = (hs_string){w->text, strlen(w->text)};
    w->words[1] = (hs_string){"", 0};
    hs_tensor view = hs_tensor_of(HS_STRING, HS_SHAPE(2), w->words);
    return hs_op_set_output(op, 0, &view, err);
}

static hs_code complement(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)~((const unsigned char *)from)[i];
    return HS_OK;
}

static hs_code complement_back(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    world *w = user;
    return w->text[0] == '!' ? hs_error_set(err, HS_UNAVAILABLE, "the device is gone")
                             : complement(user, to, from, bytes, err);
}

static hs_code put_on_device(void *self, hs_op *op, hs_error *err)
{
    world *w = self;
    return complement(NULL, hs_op_output(op, 0)->data, &w->counter, sizeof w->counter, err);
}

static void make_world(world *w, play *p)
{
    *w = (world){.p = p, .graph = hs_graph_new(&p->t.env)};
    w->memory =
        (hs_memory)HS_INIT(hs_memory, .device_type = 2, .to_host = complement_back, .from_host = complement, .user = w);
    hs_graph *g = w->graph;
    hs_graph_value(g, "counter", HS_DOUBLE, HS_SCALAR, &w->counter);
    hs_graph_add_variable(g, HS_VARIABLE_DEF(.name = "owned", .dtype = HS_DOUBLE));
    hs_graph_op(g, .name = "bump", .run = bare_bump, .writes = HS_NAMES("owned"));
    hs_graph_op(g, .name = "count", .run = count, .user = w, .outputs = BARE_SCALAR, .writes = HS_NAMES("counter"));
    hs_graph_op(g, .name = "words", .run = speak, .user = w, .control_inputs = HS_NAMES("count"),
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    hs_graph_op(g, .name = "far", .run = put_on_device, .user = w, .control_inputs = HS_NAMES("count"),
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .data = w->device, .memory = &w->memory}));
    hs_graph_placeholder(g, "x", HS_DOUBLE, HS_SCALAR);
    p->backend = hs_graph_backend(g);
}

static void end_world(world *w)
{
    play_close(w->p);
    hs_graph_free(w->graph);
}

static const hs_run_args everything =
    HS_INIT(hs_run_args, .names = HS_NAMES("count", "counter", "words", "far", "owned", "bump"));

/* The values are those of the run after which the counter had this number. */
static void assert_values_of(const hs_run_values *values, int n)
{
    char text[16];
    snprintf(text, sizeof text, "run %d", n);
    const hs_string *words = hs_run_values_tensor_at(values, "words")->data;
    assert_true(hs_run_values_number_at(values, "count") == n * 10);
    assert_true(hs_run_values_number_at(values, "counter") == n);
    assert_true(hs_run_values_number_at(values, "owned") == n);
    assert_true(hs_run_values_number_at(values, "far") == n);
    assert_int_equal(words[0].bytes, strlen(text));
    assert_memory_equal(words[0].data, text, strlen(text));
    assert_int_equal(words[1].bytes, 0);
    assert_null(hs_run_values_tensor_at(values, "bump"));
}

static hs_code run_inside(probe *p, const probe_call *call)
{
    const hs_run_values *inner;
    world *w = p->user;
    if (call->point != PROBE_AFTER)
        return HS_OK;
    for (int i = 0; i < 2; i++) {
        int before = (int)w->counter;
        assert_ok(hs_raw_session_run(hs_run_context_session(call->run), &everything, &inner, call->err), call->err);
        assert_values_of(inner, before + 1);
        assert_values_of(call->values, (int)(intptr_t)p->calls[PROBE_AFTER] * 3 - 2);
    }
    return HS_OK;
}

static hs_code look_after(probe *p, const probe_call *call)
{
    if (call->point == PROBE_AFTER)
        assert_values_of(call->values, (int)p->calls[PROBE_AFTER] * 3 - 2);
    return HS_OK;
}

static void a_run_inside_after_run_leaves_all_values_alone(void **state)
{
    play *p = *state;
    world w;
    make_world(&w, p);
    play_probe(p, a, .wants = &everything, .act = run_inside, .user = &w);
    play_probe(p, b, .wants = &everything, .act = look_after); /* called after the nested runs of a */
    play_open(p, (hs_hook[]){probe_hook(&p->a), probe_hook(&p->b)}, 2);
    for (int run = 1; run <= 3; run++) {
        assert_ok(play_args(p, &everything), &p->err);
        assert_values_of(p->values, run * 3 - 2);
    }
    end_world(&w);
}

static hs_code run_before(probe *p, const probe_call *call)
{
    const hs_run_values *values;
    if (call->point == PROBE_BEFORE) {
        assert_ok(hs_raw_session_run(hs_run_context_session(call->run), &everything, &values, call->err), call->err);
        p->number = hs_run_values_number(values, 0);
    }
    return HS_OK;
}

static void a_run_inside_before_run_is_seen_by_the_run(void **state)
{
    play *p = *state;
    world w;
    make_world(&w, p);
    play_probe(p, a, .act = run_before);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_ok(play_args(p, &everything), &p->err);
    assert_values_of(p->values, 2);
    end_world(&w);
}

static hs_code run_at_the_boundary(probe *p, const probe_call *call)
{
    (void)p;
    if (call->point == PROBE_BEFORE)
        hs_run_context_request_boundary(call->run);
    if (call->point == PROBE_BOUNDARY)
        assert_ok(hs_raw_session_run(hs_run_context_session(call->run), &everything, NULL, call->err), call->err);
    return HS_OK;
}

/* A save at the boundary may run the graph. The caller's values are those of the run before it. */
static void a_run_at_the_boundary_leaves_the_callers_values_alone(void **state)
{
    play *p = *state;
    world w;
    make_world(&w, p);
    play_probe(p, a, .act = run_at_the_boundary);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1); /* the first boundary makes a run */
    assert_ok(play_args(p, &everything), &p->err);
    assert_values_of(p->values, 2);
    assert_true(w.counter == 3);
    end_world(&w);
}

static hs_code fetch_a_feed(probe *p, const probe_call *call)
{
    const double other = 2;
    const hs_run_values *values;
    if (call->point != PROBE_AFTER)
        return HS_OK;
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("x"), .feeds = (hs_feed[]){play_feed("x", &other), {NULL}});
    assert_ok(hs_raw_session_run(hs_run_context_session(call->run), &args, &values, call->err), call->err);
    p->number = hs_run_values_number(values, 0);
    return HS_OK;
}

static void a_nested_run_has_its_own_feeds(void **state)
{
    play *p = *state;
    world w;
    const double one = 1;
    make_world(&w, p);
    play_probe(p, a, .act = fetch_a_feed);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_ok(play_run(p, HS_NAMES("x"), (hs_feed[]){play_feed("x", &one), {NULL}}), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 1);
    assert_true(p->a.number == 2);
    end_world(&w);
}

static hs_code fail_inside(probe *p, const probe_call *call)
{
    hs_error err = {0};
    if (call->point != PROBE_AFTER)
        return HS_OK;
    assert_int_equal(hs_raw_session_run(hs_run_context_session(call->run), HS_RUN_ARGS(.names = HS_NAMES("x")), NULL, &err),
                     HS_INVALID_ARGUMENT);
    assert_values_of(call->values, 1);
    (void)p;
    return HS_OK;
}

static void a_run_that_fails_inside_spoils_nothing(void **state)
{
    play *p = *state;
    world w;
    make_world(&w, p);
    play_probe(p, a, .wants = &everything, .act = fail_inside);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_ok(play_args(p, &everything), &p->err);
    assert_values_of(p->values, 1);
    assert_int_equal(play_close(p)->reason, HS_REASON_CLOSED);
    hs_graph_free(w.graph);
}

static hs_code break_the_device(probe *p, const probe_call *call)
{
    hs_error err = {0};
    world *w = p->user;
    if (call->point != PROBE_AFTER)
        return HS_OK;
    double before = hs_run_values_number_at(call->values, "far");
    w->text[0] = '!';
    assert_fails(hs_raw_session_run(hs_run_context_session(call->run), NULL, NULL, &err), HS_UNAVAILABLE, &err, "is gone");
    w->text[0] = ' ';
    assert_true(hs_run_values_number_at(call->values, "far") == before); /* at the same address */
    return HS_OK;
}

/* Values on a device are copied to the host. If that fails, the nested run is not made. */
static void values_that_cannot_be_kept_fail_the_run_inside(void **state)
{
    play *p = *state;
    world w;
    make_world(&w, p);
    play_probe(p, a, .wants = &everything, .act = break_the_device, .user = &w);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_ok(play_args(p, &everything), &p->err);
    assert_true(w.counter == 1);
    end_world(&w);
}

static hs_code trace_inside(probe *p, const probe_call *call)
{
    static const hs_run_options options = HS_INIT(hs_run_options, .trace_level = 1, .output_partition_graphs = true);
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("count"), .options = &options);
    if (call->point != PROBE_AFTER)
        return HS_OK;
    hs_bytes before = hs_run_values_metadata(call->values);
    char *copy = malloc(before.size);
    memcpy(copy, before.data, before.size);
    assert_ok(hs_raw_session_run(hs_run_context_session(call->run), &args, NULL, call->err), call->err);
    hs_bytes after = hs_run_values_metadata(call->values);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.data, copy, after.size);
    free(copy);
    (void)p;
    return HS_OK;
}

static void a_nested_run_keeps_the_outer_metadata(void **state)
{
    play *p = *state;
    world w;
    make_world(&w, p);
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = 1);
    play_probe(p, a, .act = trace_inside);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_ok(play_args(p, HS_RUN_ARGS(.names = HS_NAMES("count"), .options = &options)), &p->err);
    assert_true(hs_run_values_metadata(p->values).size > 0);
    end_world(&w);
}

/* Values that the backend keeps are not copied. */
static size_t levels[8];
static size_t n_levels;

static hs_code note_level(void *session, hs_backend_call *call, hs_error *err)
{
    levels[n_levels++] = call->level;
    return hs_script_backend(NULL).ops->run(session, call, err);
}

static hs_code run_five(probe *p, const probe_call *call)
{
    const hs_run_args five = HS_INIT(hs_run_args, .names = HS_NAMES("five"));
    (void)p;
    return call->point == PROBE_AFTER ? hs_raw_session_run(hs_run_context_session(call->run), &five, NULL, call->err)
                                      : HS_OK;
}

static void the_backend_gets_the_level_of_a_run(void **state)
{
    play *p = *state;
    p->spied = *p->backend.ops;
    p->spied.run = note_level;
    p->spied.flags = HS_BACKEND_KEEPS_VALUES;
    p->backend.ops = &p->spied;
    play_probe(p, a, .act = run_five);
    play_open_probes(p, 1);
    n_levels = 0;
    assert_ok(play_run(p, HS_NAMES("ten"), NULL), &p->err);
    assert_ok(hs_raw_session_run(hs_session_raw(p->session), NULL, NULL, &p->err), &p->err);
    assert_int_equal(n_levels, 3);
    assert_true(levels[0] == 0 && levels[1] == 1 && levels[2] == 0);
    assert_true(p->backend.ops->flags == HS_BACKEND_KEEPS_VALUES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(a_run_inside_after_run_leaves_all_values_alone),
        play_test(a_run_inside_before_run_is_seen_by_the_run),
        play_test(a_run_at_the_boundary_leaves_the_callers_values_alone),
        play_test(a_nested_run_has_its_own_feeds),
        play_test(a_run_that_fails_inside_spoils_nothing),
        play_test(values_that_cannot_be_kept_fail_the_run_inside),
        play_test(a_nested_run_keeps_the_outer_metadata),
        play_test(the_backend_gets_the_level_of_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
