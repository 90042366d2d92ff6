/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a checkpoint: all variables that exist when it is saved, in the order of their names, and states that the
 * program saves by callbacks. */
#include "checkpoint/model.h"

/* A table of the program that is not a variable. */
typedef struct {
    char key[16];
    int64_t value;
    int saves, loads; /* calls */
} table;

static hs_code save_table(void *self, hs_state_writer *out, hs_error *err)
{
    table *t = self;
    t->saves++;
    hs_code code = hs_state_writer_write(out, t->key, sizeof t->key, err);
    return code ? code : hs_state_writer_write(out, &t->value, sizeof t->value, err);
}

static hs_code load_table(void *self, hs_state_reader *in, hs_error *err)
{
    table *t = self;
    t->loads++;
    hs_code code = hs_state_reader_read(in, t->key, sizeof t->key, err);
    return code ? code : hs_state_reader_read(in, &t->value, sizeof t->value, err);
}

/* A graph with the table. Its variables are in the session's memory, and have an initial value only if the test sets one.
 */
typedef struct {
    hs_graph *graph;
    hs_session *session;
    table table;
} program;

static void begin_program(fixture *f, program *p)
{
    *p = (program){.graph = hs_graph_new(&f->t.env)};
    hs_graph_state(p->graph, "table", save_table, load_table, &p->table);
    hs_graph_op(p->graph, .name = "nothing");
}

static void add_variable(program *p, const char *name, hs_dtype dtype, const void *initial)
{
    hs_graph_add_variable(p->graph, HS_VARIABLE_DEF(.name = name, .dtype = dtype, .initial = initial));
}

static void open_program(fixture *f, program *p, bool initialize)
{
    hs_scaffold_options nothing =
        HS_INIT(hs_scaffold_options, .init_op = "nothing", .ready_op = "nothing", .ready_for_local_init_op = "nothing");
    hs_session_options options = HS_INIT(
        hs_session_options, .scaffold = initialize ? NULL : hs_scaffold_new(&nothing, &f->err), .take_scaffold = true);
    p->session = hs_session_open(hs_graph_backend(p->graph), &options, &f->err);
    assert_non_null(p->session);
}

static void end_program(program *p)
{
    hs_session_close(p->session, NULL);
    hs_graph_free(p->graph);
}

/* A graph with v0 and v1, initialized unless `values` is NULL. */
static void open_with(fixture *f, program *p, const double *values, const char *key, int64_t value)
{
    begin_program(f, p);
    add_variable(p, "v0", HS_DOUBLE, values);
    add_variable(p, "v1", HS_DOUBLE, values ? values + 1 : NULL);
    snprintf(p->table.key, sizeof p->table.key, "%s", key);
    p->table.value = value;
    open_program(f, p, values != NULL);
}

static const char *path_of(const fixture *f)
{
    return test_path(f->directory, "x");
}

static hs_code save_program(fixture *f, const program *p)
{
    return hs_saver_save(f->saver, hs_session_raw(p->session), path_of(f), -1, NULL, &f->err);
}

static hs_code restore_program(fixture *f, const program *p)
{
    return hs_saver_restore(f->saver, hs_session_raw(p->session), path_of(f), NULL, &f->err);
}

static hs_code read_variable(fixture *f, const program *p, const char *name, double *value)
{
    const hs_run_values *values;
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(name));
    hs_code code = hs_raw_session_run(hs_session_raw(p->session), &args, &values, &f->err);
    *value = code ? 0 : hs_run_values_number(values, 0);
    return code;
}

static void assert_value(fixture *f, const program *p, const char *name, double expected)
{
    double value;
    assert_ok(read_variable(f, p, name, &value), &f->err);
    assert_true(value == expected);
}

/* The names of the tensors, each followed by a space. */
static const char *tensors_of(fixture *f)
{
    static char text[256];
    const char *name;
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, path_of(f), &f->err);
    assert_non_null(reader);
    text[0] = '\0';
    for (size_t i = 0; hs_checkpoint_tensor(reader, i, &name, NULL); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", name);
    hs_checkpoint_close(reader);
    return text;
}

/* Round trips. */

static void sa_001_sa_010_all_comes_back_with_a_table(void **state)
{
    fixture *f = *state;
    program p;
    open_with(f, &p, (double[]){10, 20}, "k1", 30);
    assert_ok(save_program(f, &p), &f->err);
    assert_string_equal(hs_saver_last_path(f->saver), path_of(f)); /* the path of the call, without a step */
    end_program(&p);
    for (int run = 0; run < 2; run++) {
        open_with(f, &p, run ? (double[]){1000, 2000} : NULL, run ? "k1000" : "", run ? 3000 : 0);
        assert_ok(restore_program(f, &p), &f->err);
        assert_value(f, &p, "v0", 10);
        assert_value(f, &p, "v1", 20);
        assert_string_equal(p.table.key, "k1");
        assert_int_equal(p.table.value, 30);
        end_program(&p);
    }
}

static void sa_007_listed_variables_go_by_their_own_names(void **state)
{
    fixture *f = *state;
    program p;
    double value;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = HS_NAMES("v1", "v0")));
    open_with(f, &p, (double[]){10, 20}, "k1", 30);
    assert_ok(save_program(f, &p), &f->err);
    assert_string_equal(tensors_of(f), "hooksess/state/table v0 v1 ");
    end_program(&p);
    open_with(f, &p, NULL, "", 0);
    assert_fails(read_variable(f, &p, "v0", &value), HS_FAILED_PRECONDITION, &f->err, "variable 'v0' is not initialized");
    assert_ok(restore_program(f, &p), &f->err);
    assert_value(f, &p, "v0", 10);
    assert_value(f, &p, "v1", 20);
    end_program(&p);
}

static void sa_004_int64(void **state)
{
    fixture *f = *state;
    program p;
    double value;
    for (int run = 0; run < 2; run++) {
        begin_program(f, &p);
        add_variable(&p, "v", HS_INT64, run ? NULL : &(int64_t){15});
        open_program(f, &p, run == 0);
        if (run)
            assert_fails(read_variable(f, &p, "v", &value), HS_FAILED_PRECONDITION, &f->err,
                         "variable 'v' is not initialized");
        assert_ok(run ? restore_program(f, &p) : save_program(f, &p), &f->err);
        assert_value(f, &p, "v", 15);
        end_program(&p);
    }
}

/* Which variables. */

/* A saver reads the graph when it saves, so it can be created before the graph is complete. */
static void sa_011_sa_012_sa_013_a_saver_may_be_older_than_its_variables(void **state)
{
    fixture *f = *state;
    program p;
    for (int listed = 0; listed < 2; listed++) {
        use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = listed ? HS_NAMES("later") : NULL));
        begin_program(f, &p);
        add_variable(&p, "sooner", HS_DOUBLE, &(double){1});
        add_variable(&p, "later", HS_DOUBLE, &(double){2});
        open_program(f, &p, true);
        assert_ok(save_program(f, &p), &f->err);
        assert_string_equal(tensors_of(f), listed ? "hooksess/state/table later " : "hooksess/state/table later sooner ");
        end_program(&p);
    }
}

/* Without variables the states of hooks and graph are saved. */
static void sa_009_a_graph_without_variables(void **state)
{
    fixture *f = *state;
    program p;
    begin_program(f, &p);
    p.table.value = 30;
    open_program(f, &p, true);
    assert_ok(save_program(f, &p), &f->err);
    assert_true(hs_checkpoint_exists(&f->t.env, path_of(f)));
    p.table.value = 31;
    assert_ok(restore_program(f, &p), &f->err);
    assert_int_equal(p.table.value, 30);
    end_program(&p);
}

static void sa_009_nothing_at_all(void **state)
{
    fixture *f = *state;
    program p = {.graph = hs_graph_new(&f->t.env)};
    open_program(f, &p, true);
    assert_ok(save_program(f, &p), &f->err);
    assert_string_equal(tensors_of(f), "");
    assert_ok(restore_program(f, &p), &f->err);
    char *newest = hs_checkpoint_latest(&f->t.env, f->directory, NULL, &f->err);
    assert_string_equal(newest, path_of(f));
    hs_env_free(&f->t.env, newest);
    end_program(&p);
}

/* States of the program. */

static void sa_033_a_provider_is_asked_once_for_each_save(void **state)
{
    fixture *f = *state;
    program p;
    open_with(f, &p, (double[]){10, 20}, "k1", 30);
    for (int background = 0; background < 2; background++) {
        hs_save_options options = HS_INIT(hs_save_options, .background = background);
        hs_code code = hs_saver_save(f->saver, hs_session_raw(p.session), path_of(f), -1, &options, &f->err);
        assert_ok(code, &f->err);
        hs_saver_wait(f->saver);
        assert_int_equal(p.table.saves, background + 1);
    }
    assert_int_equal(p.table.loads, 0);
    assert_ok(restore_program(f, &p), &f->err);
    assert_int_equal(p.table.saves, 2);
    assert_int_equal(p.table.loads, 1);
    end_program(&p);
}

/* The order. */

/* The files of a checkpoint whose variables were declared and listed in this order. */
static void save_in_order(fixture *f, const char *const *names, bool background, char *files[2], size_t bytes[2])
{
    program p;
    double values[3];
    hs_save_options options = HS_INIT(hs_save_options, .background = background);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = names));
    begin_program(f, &p);
    for (int i = 0; i < 3; i++) {
        values[i] = (double)strlen(names[i]) + names[i][0];
        add_variable(&p, names[i], HS_DOUBLE, &values[i]);
    }
    open_program(f, &p, true);
    assert_ok(hs_checkpoint_remove(&f->t.env, path_of(f), &f->err), &f->err);
    assert_ok(hs_saver_save(f->saver, hs_session_raw(p.session), path_of(f), -1, &options, &f->err), &f->err);
    hs_saver_wait(f->saver);
    files[0] = test_read_file(test_path(f->directory, "x." DATA), &bytes[0]);
    files[1] = test_read_file(test_path(f->directory, "x.index"), &bytes[1]);
    end_program(&p);
}

static void sa_049s_the_order_of_variables_does_not_show_in_the_files(void **state)
{
    fixture *f = *state;
    char *one[2], *other[2];
    size_t one_bytes[2], other_bytes[2];
    for (int background = 0; background < 2; background++) {
        save_in_order(f, HS_NAMES("a", "b/w", "b"), false, one, one_bytes);
        save_in_order(f, HS_NAMES("b", "a", "b/w"), background, other, other_bytes);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(one_bytes[i], other_bytes[i]);
            assert_memory_equal(one[i], other[i], one_bytes[i]);
            free(one[i]);
            free(other[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(sa_001_sa_010_all_comes_back_with_a_table),
        with_fixture(sa_007_listed_variables_go_by_their_own_names),
        with_fixture(sa_004_int64),
        with_fixture(sa_011_sa_012_sa_013_a_saver_may_be_older_than_its_variables),
        with_fixture(sa_009_a_graph_without_variables),
        with_fixture(sa_009_nothing_at_all),
        with_fixture(sa_033_a_provider_is_asked_once_for_each_save),
        with_fixture(sa_049s_the_order_of_variables_does_not_show_in_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
