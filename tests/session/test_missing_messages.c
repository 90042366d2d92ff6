/* SPDX-License-Identifier: Apache-2.0 */
/* The code that a callback returns counts, even if it set no message, or an error with another code. */
#include "session/probe.h"

enum { CODE = HS_USER + 5 };

/* The failing function, and whether it sets an error with another code. */
typedef enum {
    NOTHING,
    STATUS,
    FIND,
    FINALIZE,
    COLLECT,
    GRAPH_DEF,
    OPEN,
    RUN,
    READ,
    WRITE,
    STEP,
    SHUT,
    INIT_FUNCTION,
    INITIALIZE,
    TO_HOST,
    FROM_HOST
} function;

static struct {
    function fails;
    bool sets_message;
} fault;

static hs_code fail_in(function here, hs_error *err)
{
    if (here != fault.fails)
        return HS_OK;
    if (fault.sets_message)
        hs_error_set(err, HS_NOT_FOUND, "a message");
    return CODE;
}

/* The script's backend. Any of its functions can be made to fail. */

static const hs_backend_ops *played(void)
{
    return hs_script_backend(NULL).ops;
}

static hs_code f_status(void *self, hs_error *err)
{
    (void)self;
    return fail_in(STATUS, err);
}

static hs_code f_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    hs_code code = fail_in(FIND, err);
    return code ? code : played()->find(self, name, node, err);
}

static hs_code f_finalize(void *self, bool finalized, hs_error *err)
{
    hs_code code = fail_in(FINALIZE, err);
    return code ? code : played()->finalize(self, finalized, err);
}

static hs_code f_collect(void *self, const char *key, const void *item, void (*release)(void *item), hs_error *err)
{
    hs_code code = fail_in(COLLECT, err);
    return code ? code : played()->add_to_collection(self, key, item, release, err);
}

static hs_code f_graph_def(void *self, hs_bytes *out, hs_error *err)
{
    (void)self, (void)out;
    hs_code code = fail_in(GRAPH_DEF, err);
    return code ? code : HS_UNIMPLEMENTED;
}

static hs_code f_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    hs_code code = fail_in(OPEN, err);
    return code ? code : played()->open(self, target, config, session, err);
}

static hs_code f_run(void *session, hs_backend_call *call, hs_error *err)
{
    hs_code code = fail_in(RUN, err);
    return code ? code : played()->run(session, call, err);
}

static hs_code f_read(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    hs_code code = fail_in(READ, err);
    return code ? code : played()->read_variable(session, index, value, err);
}

static hs_code f_write(void *session, size_t index, const hs_tensor *value, hs_error *err)
{
    hs_code code = fail_in(WRITE, err);
    return code ? code : played()->write_variable(session, index, value, err);
}

static hs_code f_step(void *session, int64_t *step, hs_error *err)
{
    hs_code code = fail_in(STEP, err);
    return code ? code : played()->global_step(session, step, err);
}

static hs_code f_close(void *session, hs_error *err)
{
    hs_code code = fail_in(SHUT, err);
    return code ? code : played()->close(session, err);
}

static int setup(void **state)
{
    int failed = play_setup(state);
    play *p = *state;
    fault.fails = NOTHING;
    if (failed)
        return failed;
    p->spied = *played();
    p->spied.status = f_status;
    p->spied.find = f_find;
    p->spied.finalize = f_finalize;
    p->spied.add_to_collection = f_collect;
    p->spied.graph_def = f_graph_def;
    p->spied.open = f_open;
    p->spied.run = f_run;
    p->spied.read_variable = f_read;
    p->spied.write_variable = f_write;
    p->spied.global_step = f_step;
    p->spied.close = f_close;
    p->backend.ops = &p->spied;
    return 0;
}

/* Opens a session that resumes from `directory`, trains once, saves and closes. Returns true if it opened. */
static bool live(play *p, const char *directory)
{
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = 1);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(saver), .checkpoint_dir = directory);
    hs_script_set_step(p->script, 0);
    p->session = hs_session_open(p->backend, &options, &p->err);
    bool opened = p->session != NULL;
    if (opened)
        hs_session_run(p->session, "train", &p->err);
    play_close(p);
    return opened;
}

/* Asserts the returned code, and a message: the function's or the library's. */
static void assert_reported(const hs_error *err)
{
    assert_says(err, CODE, fault.sets_message ? "a message" : "failed with USER");
}

static void assert_failed(const play *p, const char *where)
{
    assert_contains(p->err.message, where);
    assert_reported(&p->outcome.error);
    assert_reported(&p->err);
    assert_int_equal(p->outcome.reason, HS_REASON_FAILED);
    assert_int_equal(hs_outcome_exit_code(&p->outcome), 1);
}

/* Runs a session without failures, and then sessions in which each of these functions fails, without and with a message.
 * The error's message names the place. */
static void fail_each(play *p, const function *functions, bool opens, const char *where)
{
    char *directory = test_make_directory();
    fault.fails = NOTHING;
    assert_true(live(p, directory));
    assert_ok(p->err.code, &p->err);
    for (; *functions; functions++)
        for (int sets_message = 0; sets_message < 2; sets_message++) {
            fault.fails = *functions;
            fault.sets_message = sets_message;
            if (live(p, directory) != opens)
                fail_msg("with function %d failing the session %s", (int)fault.fails, opens ? "did not open" : "opened");
            assert_failed(p, where);
        }
    test_remove_directory(directory);
}

static void what_fails_in_the_opening(void **state)
{
    fail_each(*state, (const function[]){STATUS, FINALIZE, OPEN, STEP, GRAPH_DEF, NOTHING}, false, "");
}

/* Otherwise it would train from a step that does not match its variables. */
static void a_variable_that_cannot_be_restored(void **state)
{
    fail_each(*state, (const function[]){WRITE, NOTHING}, false, "");
}

static void what_fails_in_a_run_or_in_its_save(void **state)
{
    fail_each(*state, (const function[]){FIND, RUN, READ, NOTHING}, true, "");
}

static void what_fails_in_the_closing(void **state)
{
    fail_each(*state, (const function[]){SHUT, NOTHING}, true, "");
}

static hs_code ask_for_the_step(probe *p, const probe_call *call)
{
    hs_error err = {0};
    (void)p;
    if (call->point == PROBE_AFTER) {
        assert_int_equal(hs_run_context_global_step(call->run, &err), -1);
        assert_reported(&err);
    }
    return HS_OK;
}

/* The caller of the query gets the error: a hook, or the program. */
static void a_step_that_cannot_be_read(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = ask_for_the_step);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    fault.fails = STEP;
    for (int sets_message = 0; sets_message < 2; sets_message++) {
        fault.sets_message = sets_message;
        assert_int_equal(hs_raw_session_global_step(hs_session_raw(p->session), &p->err), -1);
        assert_reported(&p->err);
        assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
    }
}

static void a_variable_that_cannot_be_saved(void **state)
{
    play *p = *state;
    char *directory = test_make_directory();
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->t.env), NULL);
    play_open(p, NULL, 0);
    fault.fails = READ;
    for (int sets_message = 0; sets_message < 2; sets_message++) {
        fault.sets_message = sets_message;
        assert_int_equal(
            hs_saver_save(saver, hs_session_raw(p->session), test_path(directory, "model.ckpt"), 0, NULL, &p->err), CODE);
        assert_reported(&p->err);
    }
    hs_saver_free(saver);
    test_remove_directory(directory);
}

/* Opening with this scaffold. */
static void assert_opening_fails(play *p, const hs_scaffold_options *made, const char *where)
{
    for (int sets_message = 0; sets_message < 2; sets_message++) {
        fault.sets_message = sets_message;
        hs_session_options options =
            HS_INIT(hs_session_options, .scaffold = hs_scaffold_new(made, NULL), .take_scaffold = true);
        assert_null(hs_session_open(p->backend, &options, &p->err));
        play_close(p);
        assert_failed(p, where);
    }
}

static void an_init_op(void **state)
{
    play *p = *state;
    fault.fails = RUN;
    assert_opening_fails(p, HS_SCAFFOLD_OPTIONS(.init_op = "train"), "cannot run 'train'");
}

static hs_code init_function(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)user, (void)scaffold, (void)session;
    return fail_in(INIT_FUNCTION, err);
}

static void an_init_function(void **state)
{
    play *p = *state;
    fault.fails = INIT_FUNCTION;
    assert_opening_fails(p, HS_SCAFFOLD_OPTIONS(.init_fn = init_function), "init_fn: ");
}

static hs_code train_by_default(void *self, const char *key, const char **name, hs_error *err)
{
    (void)self, (void)err;
    *name = strcmp(key, HS_INIT_OP) == 0 ? "train" : NULL;
    return HS_OK;
}

/* The collections of savers and of ops. */
static void a_collection_that_takes_nothing(void **state)
{
    play *p = *state;
    fault.fails = COLLECT;
    assert_opening_fails(p, NULL, "");
    p->spied.default_op = train_by_default;
    assert_opening_fails(p, NULL, "");
}

/* Memory of a device, and a graph with a variable there. */

static hs_code device_to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)user;
    memcpy(host, device, bytes);
    return fail_in(TO_HOST, err);
}

static hs_code device_from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    (void)user;
    hs_code code = fail_in(FROM_HOST, err);
    if (!code)
        memcpy(device, host, bytes);
    return code;
}

static const hs_memory device = HS_INIT(hs_memory, .to_host = device_to_host, .from_host = device_from_host);

static hs_graph *use_device(play *p, double *data, const double *initial)
{
    hs_graph *graph = hs_graph_new(&p->t.env);
    hs_graph_add_variable(
        graph, HS_VARIABLE_DEF(.name = "w", .dtype = HS_DOUBLE, .data = data, .memory = &device, .initial = initial));
    hs_graph_op(graph, .name = "train", .advances_step = true);
    p->backend = hs_graph_backend(graph);
    return graph;
}

static void a_device_that_cannot_be_written_in_a_restore(void **state)
{
    play *p = *state;
    double w = 7;
    hs_graph *graph = use_device(p, &w, NULL);
    fail_each(p, (const function[]){FROM_HOST, NOTHING}, false, "cannot write variable 'w'");
    hs_graph_free(graph);
}

static void a_device_that_cannot_be_read_in_a_save(void **state)
{
    play *p = *state;
    double w = 7;
    hs_graph *graph = use_device(p, &w, NULL);
    fail_each(p, (const function[]){TO_HOST, NOTHING}, true, "cannot read variable 'w'");
    hs_graph_free(graph);
}

static void a_device_that_does_not_take_its_first_value(void **state)
{
    play *p = *state;
    double w = 7;
    const double initial = 8;
    hs_graph *graph = use_device(p, &w, &initial);
    fault.fails = FROM_HOST;
    assert_opening_fails(p, NULL, "cannot initialize variable 'w'");
    hs_graph_free(graph);
}

static hs_code first_value(void *self, const hs_tensor *value, hs_error *err)
{
    (void)self, (void)value;
    return fail_in(INITIALIZE, err);
}

static void a_variables_own_function(void **state)
{
    play *p = *state;
    hs_graph *graph = hs_graph_new(&p->t.env);
    hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "v", .dtype = HS_DOUBLE, .initialize = first_value));
    p->backend = hs_graph_backend(graph);
    fault.fails = INITIALIZE;
    assert_opening_fails(p, NULL, "cannot initialize variable 'v'");
    hs_graph_free(graph);
}

/* The outer run's values are copied to the host. */
static hs_code run_inside(probe *p, const probe_call *call)
{
    if (call->point != PROBE_AFTER)
        return HS_OK;
    hs_error err = {0};
    for (int sets_message = 0; sets_message < 2; sets_message++) {
        fault.sets_message = sets_message;
        assert_int_equal(hs_raw_session_run(p->raw, NULL, NULL, &err), CODE);
        assert_reported(&err);
    }
    return HS_OK;
}

static void a_device_that_cannot_be_read_before_a_run_inside_a_run(void **state)
{
    play *p = *state;
    double w = 7;
    hs_graph *graph = use_device(p, &w, NULL);
    play_probe(p, a, .act = run_inside);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    fault.fails = TO_HOST;
    assert_ok(play_run(p, HS_NAMES("w"), NULL), &p->err);
    assert_int_equal(p->a.calls[PROBE_AFTER], 1);
    fault.fails = NOTHING;
    play_close(p);
    hs_graph_free(graph);
}

static void a_tensor_that_cannot_be_brought_to_the_host(void **state)
{
    play *p = *state;
    const double w = 7;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &w), host;
    hs_host_copy copy = {0};
    value.memory = &device;
    fault.fails = TO_HOST;
    for (int sets_message = 0; sets_message < 2; sets_message++) {
        fault.sets_message = sets_message;
        assert_int_equal(hs_tensor_host(&value, &copy, &host, &p->err), CODE);
        assert_reported(&p->err);
    }
    hs_host_copy_free(&copy);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, play_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(what_fails_in_the_opening),
        test(a_variable_that_cannot_be_restored),
        test(what_fails_in_a_run_or_in_its_save),
        test(what_fails_in_the_closing),
        test(a_step_that_cannot_be_read),
        test(a_variable_that_cannot_be_saved),
        test(an_init_op),
        test(an_init_function),
        test(a_collection_that_takes_nothing),
        test(a_device_that_cannot_be_written_in_a_restore),
        test(a_device_that_cannot_be_read_in_a_save),
        test(a_device_that_does_not_take_its_first_value),
        test(a_variables_own_function),
        test(a_device_that_cannot_be_read_before_a_run_inside_a_run),
        test(a_tensor_that_cannot_be_brought_to_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
