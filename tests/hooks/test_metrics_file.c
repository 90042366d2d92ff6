/* SPDX-License-Identifier: Apache-2.0 */
#include "base/c_locale.h"
#include "checkpoint/model.h"
#include "hooks/stage.h"

#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A model with a loss, in the stage's directory, whose program sets an accuracy at every fifth step. */
typedef struct {
    stage *s;
    const char *name; /* of the file */
    const char *const *tensors;
    int64_t every, save_steps; /* save_steps 0: no checkpoints are saved */
    double secs;               /* seconds between rows, instead of `every` */
    bool no_hook;
    model m;
    float loss;
} trainer;

static trainer new_trainer(void **state, const char *name)
{
    static const char *const loss[] = {"loss", NULL};
    return (trainer){.s = *state, .name = name, .tensors = loss, .every = 3, .save_steps = 7};
}

static hs_code step(void *self, hs_op *op, hs_error *err)
{
    trainer *t = self;
    (void)err;
    t->loss = 1 / (float)(hs_op_global_step(op, NULL) + 1);
    return HS_OK;
}

static void build(trainer *t)
{
    hs_graph *graph = t->m.graph = hs_graph_new(&t->s->t.env);
    t->m.step = 0;
    hs_graph_variable(graph, "weights", HS_FLOAT, HS_SHAPE(2, 3), t->m.weights);
    hs_graph_global_step(graph, NULL, &t->m.step);
    hs_graph_value(graph, "loss", HS_FLOAT, HS_SCALAR, &t->loss);
    hs_graph_op(graph, .name = "train", .run = step, .user = t, .writes = HS_NAMES("loss"), .advances_step = true);
}

static hs_code try_open(trainer *t)
{
    const char *directory = t->s->directory;
    build(t);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = t->save_steps ? t->save_steps : 1);
    hs_hook sink =
        hs_metrics_file(.path = test_path(directory, t->name), .tensors = t->tensors, .metrics = HS_NAMES("accuracy"),
                        .every_n_steps = t->every, .every_n_secs = t->secs, .no_wall_time = true);
    hs_hook hooks[] = {t->no_hook ? saver : sink, saver, {.ops = NULL}};
    if (t->no_hook || !t->save_steps)
        hooks[1].ops = NULL;
    if (t->no_hook)
        hs_hook_free(sink);
    else if (!t->save_steps)
        hs_hook_free(saver);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = directory);
    t->m.session = hs_session_open(hs_graph_backend(t->m.graph), &options, &t->m.err);
    return t->m.session ? HS_OK : t->m.err.code;
}

static void train_on(trainer *t, int64_t last)
{
    while (t->m.step < last) {
        assert_ok(hs_session_run(t->m.session, "train", &t->m.err), &t->m.err);
        if (t->m.step % 5 == 0)
            assert_ok(hs_raw_session_set_metric(hs_session_raw(t->m.session), "accuracy", (double)t->m.step / 100,
                                                t->m.step, &t->m.err),
                      &t->m.err);
    }
}

static void train_to(trainer *t, int64_t last)
{
    assert_ok(try_open(t), &t->m.err);
    train_on(t, last);
    assert_ok(model_close(&t->m).error.code, &t->m.err);
}

/* The same in a child process that is killed after that step. */
static void train_and_die(trainer *t, int64_t last)
{
    pid_t child = fork();
    int status;
    assert_true(child >= 0);
    if (!child) {
        if (try_open(t))
            _exit(1);
        train_on(t, last);
        _exit(7);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* Returns the contents, in one of a few static buffers. */
static const char *text_of(const char *directory, const char *name)
{
    static char texts[2][1 << 14];
    static int next;
    char *text = texts[next++ % 2];
    size_t bytes;
    char *found = test_read_file(test_path(directory, name), &bytes);
    if (!found)
        fail_msg("%s does not exist", name);
    assert_true(found && bytes < sizeof texts[0]);
    memcpy(text, found, bytes + 1);
    free(found);
    return text;
}

static void put_text(const trainer *t, const char *name, const char *text)
{
    test_write_file(test_path(t->s->directory, name), text, strlen(text));
}

static void append_text(const trainer *t, const char *text)
{
    char whole[1 << 14];
    snprintf(whole, sizeof whole, "%s%s", text_of(t->s->directory, t->name), text);
    put_text(t, t->name, whole);
}

static void assert_file(const trainer *t, const char *text)
{
    assert_string_equal(text_of(t->s->directory, t->name), text);
}

static const char upto_10[] = "step,loss,accuracy\n1,1,\n4,0.25,\n7,0.14285715,0.05\n10,0.1,\n";

/* The contents. */

static void a_csv_file_has_a_header_and_rows(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    train_to(&t, 11);
    assert_file(&t, upto_10);
}

static void a_json_file_has_an_object_a_line(void **state)
{
    trainer t = new_trainer(state, "log.jsonl");
    train_to(&t, 8);
    assert_file(&t, "{\"step\":1,\"loss\":1,\"accuracy\":null}\n{\"step\":4,\"loss\":0.25,\"accuracy\":null}\n"
                    "{\"step\":7,\"loss\":0.14285715,\"accuracy\":0.05}\n");
}

static void the_time_is_in_thousandths_since_1970(void **state)
{
    stage *s = *state;
    const char *path = test_path(s->directory, "run/time.csv");
    stage_open(
        s, hs_metrics_file(.path = path, .tensors = HS_NAMES("global_step"), .labels = HS_NAMES("at"), .every_n_secs = 2));
    stage_run(s, "train", 4, 1.0625);
    stage_close(s);
    assert_string_equal(text_of(s->directory, "run/time.csv"),
                        "step,wall_time,at\n1,1700000000.000,1\n3,1700000002.125,3\n");
}

/* Returns the text of a number in a row. */
static const char *written(stage *s, const char *name, hs_dtype dtype, const void *value)
{
    const hs_tensor tensor = hs_tensor_of(dtype, HS_SCALAR, value);
    const char *path = test_path(s->directory, name);
    unlink(path);
    hs_script_set_step(s->script, 0);
    assert_ok(hs_script_constant(s->script, "value", &tensor), &s->err);
    stage_open(s, hs_metrics_file(.path = path, .tensors = HS_NAMES("value"), .labels = HS_NAMES("x"), .every_n_steps = 1,
                                  .no_wall_time = true));
    stage_run(s, "train", 1, 0);
    stage_close(s);
    char *text = (char *)text_of(s->directory, name) + strlen(strchr(name, 'j') ? "{\"step\":1,\"x\":" : "step,x\n1,");
    text[strcspn(text, "}\n")] = '\0';
    return text;
}

static void numbers_read_back_the_same(void **state)
{
    static const double doubles[] = {0.1, 1.0 / 3, 1e308, 5e-324, -0.0, 123456789012345680.0, 2.2250738585072014e-308};
    static const float floats[] = {0.1F, 1.0F / 3, 3.4028235e38F, 1.4e-45F, 16777216, 8.5e-9F};
    stage *s = *state;
    hs__c_locale locale = hs__c_locale_begin(); /* for strtod */
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        double back = strtod(written(s, "log.csv", HS_DOUBLE, &doubles[i]), NULL);
        assert_memory_equal(&back, &doubles[i], sizeof back);
    }
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        float back = strtof(written(s, "log.csv", HS_FLOAT, &floats[i]), NULL);
        assert_memory_equal(&back, &floats[i], sizeof back);
    }
    assert_string_equal(written(s, "log.csv", HS_FLOAT, &floats[0]), "0.1");
    hs__c_locale_end(locale);
}

static void integers_have_all_their_digits(void **state)
{
    stage *s = *state;
    assert_string_equal(written(s, "log.csv", HS_INT64, &(int64_t){INT64_MIN}), "-9223372036854775808");
    assert_string_equal(written(s, "log.csv", HS_UINT64, &(uint64_t){UINT64_MAX}), "18446744073709551615");
    assert_string_equal(written(s, "log.csv", HS_INT32, &(int32_t){100000000}), "100000000");
    assert_string_equal(written(s, "log.csv", HS_BOOL, &(unsigned char){1}), "1");
}

static void values_that_are_not_finite_can_be_parsed(void **state)
{
    static const float values[] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
    static const char *const csv[] = {"nan", "inf", "-inf"}, *const json[] = {"\"NaN\"", "\"Infinity\"", "\"-Infinity\""};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(written(*state, "log.csv", HS_FLOAT, &values[i]), csv[i]);
        assert_string_equal(written(*state, "log.jsonl", HS_FLOAT, &values[i]), json[i]);
    }
}

static void a_time_is_never_before_1970(void **state)
{
    stage *s = *state;
    s->t.now_ns = -500000000;
    stage_open(s, hs_metrics_file(.path = test_path(s->directory, "x.csv"), .tensors = HS_NAMES("global_step"),
                                  .labels = HS_NAMES("at"), .every_n_steps = 1));
    stage_run(s, "train", 2, 0.625999);
    stage_close(s);
    assert_string_equal(text_of(s->directory, "x.csv"), "step,wall_time,at\n1,0.000,1\n2,0.125,2\n");
}

/* As metrics_file.h shows them. */
static void a_row_has_step_time_tensors_and_new_metrics(void **state)
{
    stage *s = *state;
    const double losses[] = {0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.25};
    char csv[300], json[300];
    snprintf(csv, sizeof csv, "%s", test_path(s->directory, "metrics.csv"));
    snprintf(json, sizeof json, "%s", test_path(s->directory, "metrics.jsonl"));
    hs_hook hooks[] = {
        hs_metrics_file(.path = csv, .tensors = HS_NAMES("loss"), .metrics = HS_NAMES("accuracy"), .every_n_steps = 10),
        hs_metrics_file(.path = json, .tensors = HS_NAMES("loss"), .metrics = HS_NAMES("accuracy"), .every_n_steps = 10)};
    hs_script_series(s->script, "loss", losses, 11);
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    test_env_advance(&s->t, 0.125);
    stage_run(s, "train", 10, 0.75);
    hs_raw_session_set_metric(hs_session_raw(s->session), "accuracy", 0.91, 10, &s->err);
    test_env_advance(&s->t, 0.375);
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_string_equal(text_of(s->directory, "metrics.csv"), "step,wall_time,loss,accuracy\n"
                                                              "1,1700000000.125,0.5,\n"
                                                              "11,1700000007.250,0.25,0.91\n");
    assert_string_equal(text_of(s->directory, "metrics.jsonl"),
                        "{\"step\":1,\"wall_time\":1700000000.125,\"loss\":0.5,\"accuracy\":null}\n"
                        "{\"step\":11,\"wall_time\":1700000007.250,\"loss\":0.25,\"accuracy\":0.91}\n");
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(host, device, bytes);
    return HS_OK;
}

static void a_number_on_a_device_is_copied(void **state)
{
    stage *s = *state;
    const float number = 2.5;
    const hs_memory memory = HS_INIT(hs_memory, .to_host = to_host);
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SCALAR, &number);
    loss.memory = &memory;
    assert_ok(hs_script_constant(s->script, "loss", &loss), &s->err);
    stage_open(s, hs_metrics_file(.path = test_path(s->directory, "x.csv"), .tensors = HS_NAMES("loss"), .every_n_steps = 1,
                                  .no_wall_time = true));
    stage_run(s, "train", 1, 0);
    stage_close(s);
    char *text = test_read_file(test_path(s->directory, "x.csv"), NULL);
    assert_string_equal(text, "step,loss\n1,2.5\n");
    free(text);
}

static void a_tensor_with_several_elements_is_refused(void **state)
{
    stage *s = *state;
    static const float values[2] = {1, 2};
    hs_tensor pair = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), values);
    assert_ok(hs_script_constant(s->script, "pair", &pair), &s->err);
    stage_open(s, hs_metrics_file(.path = test_path(s->directory, "x.csv"), .tensors = HS_NAMES("pair")));
    assert_fails(stage_run_once(s, "train"), HS_INVALID_ARGUMENT, &s->err, "'pair' has more than one element");
}

/* After a crash. */

static void an_unknown_tensor_is_refused_at_the_opening(void **state)
{
    stage *s = *state;
    const char *path = test_path(s->directory, "x.csv");
    stage_refuses(s, hs_metrics_file(.path = path, .tensors = HS_NAMES("lost")), HS_NOT_FOUND, "'lost'");
}

static void assert_resumes_the_same(trainer t)
{
    char *elsewhere = test_make_directory(), *here = t.s->directory;
    char whole[1 << 14];
    train_to(&t, 40);
    snprintf(whole, sizeof whole, "%s", text_of(here, t.name));
    t.s->directory = elsewhere;
    train_and_die(&t, 12); /* the newest checkpoint is of step 8 */
    train_and_die(&t, 13);
    train_and_die(&t, 24);
    train_and_die(&t, 25);
    train_to(&t, 40);
    assert_string_equal(text_of(elsewhere, t.name), whole);
    t.s->directory = here;
    test_remove_directory(elsewhere);
}

static void a_resumed_csv_file_is_that_of_a_whole_run(void **state)
{
    assert_resumes_the_same(new_trainer(state, "log.csv"));
}

static void a_resumed_json_file_is_that_of_a_whole_run(void **state)
{
    assert_resumes_the_same(new_trainer(state, "log.jsonl"));
}

/* The restore clears the board. */
static void a_metric_set_before_a_stop_is_in_the_next_row(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    train_to(&t, 5);
    train_to(&t, 8);
    train_to(&t, 11);
    assert_file(&t, upto_10);
}

/* Steps 1 to 10, and a checkpoint of the end. */
static trainer ten_steps(void **state, const char *name)
{
    trainer t = new_trainer(state, name);
    train_to(&t, 10);
    return t;
}

static void rows_and_torn_rows_beyond_the_checkpoint_are_cut(void **state)
{
    trainer t = ten_steps(state, "log.csv");
    assert_file(&t, upto_10);
    append_text(&t, "13,0.5,\n16,0.");
    train_to(&t, 11);
    assert_file(&t, upto_10);
    assert_int_equal(test_count_files(t.s->directory, "log.csv"), 1);
}

static void a_file_that_is_too_short_is_a_warning(void **state)
{
    trainer t = ten_steps(state, "log.csv");
    put_text(&t, "log.csv", "step,loss,accuracy\n1,1,\n4,0.2");
    train_to(&t, 13);
    assert_contains(t.s->t.log,
                    "log.csv: has 24 bytes of rows, but the checkpoint of the session expects 58, up to step 10");
    assert_file(&t, "step,loss,accuracy\n1,1,\n13,0.07692308,0.1\n");
}

static void a_deleted_file_is_created_again(void **state)
{
    trainer t = ten_steps(state, "log.csv");
    unlink(test_path(t.s->directory, "log.csv"));
    train_to(&t, 13);
    assert_contains(t.s->t.log, "log.csv: has 19 bytes of rows");
    assert_file(&t, "step,loss,accuracy\n13,0.07692308,0.1\n");
}

static void assert_refuses_others(trainer t, const char *first_line)
{
    put_text(&t, t.name, first_line);
    assert_fails(try_open(&t), HS_FAILED_PRECONDITION, &t.m.err,
                 "has other columns than this hook; rename that file, or set another path");
    model_close(&t.m);
    assert_file(&t, first_line);
}

static void other_columns_are_refused(void **state)
{
    trainer t = ten_steps(state, "log.csv");
    assert_refuses_others(t, "step,loss,precision\n1,1,1\n");
    assert_refuses_others(t, "step,loss\n1,1\n");
    assert_refuses_others(t, "step,loss,accuracy,more\n1,1\n");
    t.name = "log.jsonl";
    assert_refuses_others(t, "{\"step\":1,\"loss\":2}\n");
    assert_refuses_others(t, "{\"step\":1,\"loss\":2,\"accuracy\":1,\"more\":1}\n");
    assert_refuses_others(t, "not at all\n");
}

/* Such a file is not a file of rows. It is not changed. */
static void a_file_of_one_endless_line_is_refused(void **state)
{
    enum { BYTES = (1 << 24) + 1 };
    trainer t = ten_steps(state, "log.csv");
    const char *path = test_path(t.s->directory, t.name);
    char *line = malloc(BYTES), *found;
    size_t bytes;
    memset(line, 'x', BYTES);
    test_write_file(path, line, BYTES);
    assert_fails(try_open(&t), HS_FAILED_PRECONDITION, &t.m.err, "log.csv: has a line of more than 16777216 bytes");
    model_close(&t.m);
    found = test_read_file(path, &bytes);
    assert_int_equal(bytes, BYTES);
    assert_memory_equal(found, line, BYTES);
    free(found);
    free(line);
}

static void a_checkpoint_without_the_hooks_state_cuts_by_steps(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    t.no_hook = true;
    train_to(&t, 8);
    t.no_hook = false;
    put_text(&t, "log.csv", "step,loss,accuracy\n5,1,\n8,1,\n9,1,\n7,1,\n");
    train_to(&t, 9);
    assert_file(&t, "step,loss,accuracy\n5,1,\n8,1,\n9,0.11111111,\n");
}

static void json_is_cut_by_steps_too(void **state)
{
    trainer t = new_trainer(state, "log.json");
    t.no_hook = true;
    train_to(&t, 8);
    t.no_hook = false;
    put_text(&t, "log.json", "{\"step\":8,\"loss\":1,\"accuracy\":null}\n{\"step\":9,\"loss\":1,\"accuracy\":null}\n");
    train_to(&t, 8);
    assert_file(&t, "{\"step\":8,\"loss\":1,\"accuracy\":null}\n");
}

static void a_file_larger_than_one_read(void **state)
{
    enum { ROWS = 20000, ROW = 16 };
    trainer t = ten_steps(state, "log.csv");
    char *big = malloc((size_t)ROWS * ROW), *found;
    size_t used = (size_t)sprintf(big, "step,loss,accuracy\n"), bytes;
    for (int i = 0; i < ROWS; i++)
        used += (size_t)sprintf(big + used, "%d,0.5,\n", 100 + i);
    t.name = "big.csv"; /* the checkpoint has 58 bytes */
    test_write_file(test_path(t.s->directory, t.name), big, used);
    train_to(&t, 10);
    found = test_read_file(test_path(t.s->directory, t.name), &bytes);
    assert_int_equal(bytes, 55);
    assert_memory_equal(found, big, bytes);
    free(found);
    free(big);
}

static void a_rollback_removes_its_rows(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    hs_state_copy *copy = NULL;
    assert_ok(try_open(&t), &t.m.err);
    train_on(&t, 5);
    hs_raw_session *raw = hs_session_raw(t.m.session);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &t.m.err), &t.m.err);
    train_on(&t, 8);
    assert_ok(hs_raw_session_restore_copy(raw, copy, &t.m.err), &t.m.err);
    assert_int_equal(t.m.step, 5);
    train_on(&t, 11);
    assert_file(&t, upto_10);
    hs_state_copy_free(copy);
    assert_ok(model_close(&t.m).error.code, &t.m.err);
}

/* The checkpoint has no state of the hook, so the step decides which rows are kept. */
static void a_rollback_without_the_hooks_state_cuts_by_steps(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    hs_saver *saver;
    t.no_hook = true;
    train_to(&t, 5);
    t.no_hook = false;
    t.every = 1;
    t.save_steps = 100;
    assert_ok(try_open(&t), &t.m.err);
    train_on(&t, 8);
    hs_raw_session *raw = hs_session_raw(t.m.session);
    saver = hs_saver_new(NULL, &t.m.err);
    assert_non_null(saver);
    assert_ok(hs_saver_restore(saver, raw, test_path(t.s->directory, "model.ckpt-5"), NULL, &t.m.err), &t.m.err);
    assert_int_equal(t.m.step, 5);
    train_on(&t, 7);
    assert_file(&t, "step,loss,accuracy\n6,0.16666667,\n7,0.14285715,\n");
    assert_ok(model_close(&t.m).error.code, &t.m.err);
    hs_saver_free(saver);
}

/* The next row is due some steps after the rollback. */
static void a_rollback_cuts_at_the_restored_step_whenever_the_next_row_comes(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    hs_saver *saver = hs_saver_new(NULL, &t.m.err);
    assert_non_null(saver);
    t.no_hook = true;
    train_to(&t, 5);
    t.no_hook = false;
    t.every = 0;
    t.secs = 1;
    t.save_steps = 100;
    assert_ok(try_open(&t), &t.m.err);
    train_on(&t, 6);
    test_env_advance(&t.s->t, 1);
    train_on(&t, 7);
    assert_ok(
        hs_saver_restore(saver, hs_session_raw(t.m.session), test_path(t.s->directory, "model.ckpt-5"), NULL, &t.m.err),
        &t.m.err);
    train_on(&t, 8);
    test_env_advance(&t.s->t, 1);
    train_on(&t, 9);
    assert_file(&t, "step,loss,accuracy\n6,0.16666667,\n9,0.11111111,\n");
    assert_ok(model_close(&t.m).error.code, &t.m.err);
    hs_saver_free(saver);
}

static void a_rollback_at_the_end_removes_its_rows(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    hs_state_copy *copy = NULL;
    t.save_steps = 0;
    t.every = 1;
    assert_ok(try_open(&t), &t.m.err);
    train_on(&t, 2);
    hs_raw_session *raw = hs_session_raw(t.m.session);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &t.m.err), &t.m.err);
    train_on(&t, 4);
    assert_ok(hs_raw_session_restore_copy(raw, copy, &t.m.err), &t.m.err);
    hs_state_copy_free(copy);
    assert_ok(model_close(&t.m).error.code, &t.m.err);
    assert_file(&t, "step,loss,accuracy\n1,1,\n2,0.5,\n");
}

static void resume_with_labels(stage *s, const char *name, const char *const *tensors, const char *const *labels)
{
    for (int64_t step = 0; step < 2; step++) {
        hs_script_set_step(s->script, step);
        stage_open(s, hs_metrics_file(.path = test_path(s->directory, name), .tensors = tensors, .labels = labels,
                                      .every_n_steps = 1, .no_wall_time = true));
        stage_run(s, "train", 1, 0);
        stage_close(s);
    }
}

static void names_may_have_odd_characters(void **state)
{
    stage *s = *state;
    const char *const *tensors = HS_NAMES("global_step"), *const *labels = HS_NAMES("a\n\"b\",\r\nc");
    resume_with_labels(s, "log.jsonl", tensors, labels);
    assert_string_equal(text_of(s->directory, "log.jsonl"), "{\"step\":1,\"a\\n\\\"b\\\",\\r\\nc\":1}\n"
                                                            "{\"step\":2,\"a\\n\\\"b\\\",\\r\\nc\":2}\n");
    stage_refuses(s, hs_metrics_file(.path = "log.csv", .tensors = tensors, .labels = labels), HS_INVALID_ARGUMENT,
                  "the name contains a newline");
    resume_with_labels(s, "log.csv", tensors, HS_NAMES("a \"b\",\rc"));
    assert_string_equal(text_of(s->directory, "log.csv"), "step,\"a \"\"b\"\",\rc\"\n1,1\n2,2\n");
}

static void names_are_quoted(void **state)
{
    stage *s = *state;
    const char *const *step =
        HS_NAMES("global_step", "global_step", "global_step", "global_step", "global_step", "global_step", "global_step");
    const char *const *labels = HS_NAMES("a,b", "say \"x\"", "plain", "tab\there", " first", "last ", "mid dle");
    resume_with_labels(s, "log.csv", step, labels);
    assert_string_equal(text_of(s->directory, "log.csv"),
                        "step,\"a,b\",\"say \"\"x\"\"\",plain,tab\there,\" first\",\"last \",mid dle\n"
                        "1,1,1,1,1,1,1,1\n2,2,2,2,2,2,2,2\n");
    resume_with_labels(s, "log.jsonl", step, labels);
    assert_contains(text_of(s->directory, "log.jsonl"),
                    "{\"step\":2,\"a,b\":2,\"say \\\"x\\\"\":2,\"plain\":2,\"tab\\there\":2,"
                    "\" first\":2,\"last \":2,\"mid dle\":2}\n");
}

static void a_row_may_be_longer_than_one_read(void **state)
{
    enum { COLUMNS = 10, NAME = 10000 };
    stage *s = *state;
    const char *tensors[COLUMNS + 1] = {0}, *labels[COLUMNS + 1] = {0};
    char *text = malloc(COLUMNS * (NAME + 1)), *found;
    size_t csv, json;
    for (size_t i = 0; i < COLUMNS; i++) {
        char *name = text + i * (NAME + 1);
        memset(name, 'a' + (int)i, NAME);
        name[NAME] = '\0';
        tensors[i] = "global_step";
        labels[i] = name;
    }
    resume_with_labels(s, "log.csv", tensors, labels);
    resume_with_labels(s, "log.jsonl", tensors, labels);
    found = test_read_file(test_path(s->directory, "log.csv"), &csv);
    free(found);
    found = test_read_file(test_path(s->directory, "log.jsonl"), &json);
    free(found);
    free(text);
    assert_int_equal(csv, 4 + COLUMNS * (NAME + 1) + 1 + 2 * (1 + 2 * COLUMNS + 1));
    assert_int_equal(json, 2 * (9 + COLUMNS * (NAME + 5) + 2));
}

/* A new training. */

static void an_earlier_file_is_renamed(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    t.save_steps = 0;
    put_text(&t, "log.csv", "something\nelse\n");
    train_to(&t, 3);
    assert_string_equal(text_of(t.s->directory, "log.csv.1"), "something\nelse\n");
    assert_contains(t.s->t.log, "the earlier rows are now in ");
    train_to(&t, 11);
    assert_string_equal(text_of(t.s->directory, "log.csv.2"), "step,loss,accuracy\n1,1,\n");
    assert_file(&t, upto_10);
}

static void a_file_without_rows_is_not_renamed(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    t.save_steps = 0;
    put_text(&t, "log.csv", "step,lo");
    train_to(&t, 1);
    assert_file(&t, "step,loss,accuracy\n1,1,\n");
    put_text(&t, "log.csv", "step,loss,accuracy\n");
    train_to(&t, 1);
    assert_file(&t, "step,loss,accuracy\n1,1,\n");
    assert_int_equal(test_count_files(t.s->directory, "log.csv"), 1);
}

/* Options. */

/* Links. */

static void a_file_with_another_name_keeps_its_rows_there(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    const char *directory = t.s->directory;
    train_to(&t, 11);
    const char *other = test_path(directory, "other.csv");
    assert_int_equal(link(test_path(directory, "log.csv"), other), 0);
    train_to(&t, 13);
    assert_string_equal(text_of(directory, "other.csv"), upto_10);
    assert_contains(text_of(directory, "log.csv"), "10,0.1,\n13,");
    assert_true(test_env_logged(&t.s->t, "log.csv: replaced by a copy, because it was a link"));
}

static void a_symbolic_link_is_replaced_by_a_file_with_the_same_rows(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    const char *directory = t.s->directory;
    train_to(&t, 11);
    assert_int_equal(rename(test_path(directory, "log.csv"), test_path(directory, "other.csv")), 0);
    assert_int_equal(symlink("other.csv", test_path(directory, "log.csv")), 0);
    train_to(&t, 13);
    assert_string_equal(text_of(directory, "other.csv"), upto_10);
    assert_contains(text_of(directory, "log.csv"), "10,0.1,\n13,");
}

static void a_link_to_nothing_is_replaced_by_a_file(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    assert_int_equal(symlink("nowhere", test_path(t.s->directory, "log.csv")), 0);
    train_to(&t, 11);
    assert_file(&t, upto_10);
    assert_false(test_exists(t.s->directory, "nowhere"));
}

static void a_fifo_is_refused(void **state)
{
    trainer t = new_trainer(state, "log.csv");
    assert_int_equal(mkfifo(test_path(t.s->directory, "log.csv"), 0666), 0);
    assert_fails(try_open(&t), HS_INVALID_ARGUMENT, &t.m.err, "log.csv: is not a regular file");
    model_close(&t.m);
}

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    const char *const *loss = HS_NAMES("global_step");
    stage_refuses(s, hs_metrics_file(.tensors = loss), HS_INVALID_ARGUMENT, "path is missing");
    stage_refuses(s, hs_metrics_file(.path = "log.txt", .tensors = loss), HS_INVALID_ARGUMENT,
                  "log.txt: the name must end with .csv, .jsonl or .json");
    stage_refuses(s, hs_metrics_file(.path = "log.csv"), HS_INVALID_ARGUMENT, "neither tensors nor metrics");
    stage_refuses(s, hs_metrics_file(.path = "log.csv", .metrics = HS_NAMES("step")), HS_INVALID_ARGUMENT,
                  "two columns have the name 'step'");
    stage_refuses(s, hs_metrics_file(.path = "log.csv", .tensors = loss, .labels = HS_NAMES("a", "b")), HS_INVALID_ARGUMENT,
                  "2 labels are given for 1 tensors");
    stage_refuses(s, hs_metrics_file(.path = "log.csv", .tensors = loss, .every_n_steps = 1, .every_n_secs = 1),
                  HS_INVALID_ARGUMENT, "each of every_n_secs and every_n_steps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(a_csv_file_has_a_header_and_rows),
        with_stage(a_json_file_has_an_object_a_line),
        with_stage(the_time_is_in_thousandths_since_1970),
        with_stage(numbers_read_back_the_same),
        with_stage(integers_have_all_their_digits),
        with_stage(values_that_are_not_finite_can_be_parsed),
        with_stage(a_time_is_never_before_1970),
        with_stage(a_row_has_step_time_tensors_and_new_metrics),
        with_stage(a_number_on_a_device_is_copied),
        with_stage(a_tensor_with_several_elements_is_refused),
        with_stage(an_unknown_tensor_is_refused_at_the_opening),
        with_stage(a_resumed_csv_file_is_that_of_a_whole_run),
        with_stage(a_resumed_json_file_is_that_of_a_whole_run),
        with_stage(a_metric_set_before_a_stop_is_in_the_next_row),
        with_stage(rows_and_torn_rows_beyond_the_checkpoint_are_cut),
        with_stage(a_file_that_is_too_short_is_a_warning),
        with_stage(a_deleted_file_is_created_again),
        with_stage(other_columns_are_refused),
        with_stage(a_file_of_one_endless_line_is_refused),
        with_stage(a_checkpoint_without_the_hooks_state_cuts_by_steps),
        with_stage(json_is_cut_by_steps_too),
        with_stage(a_file_larger_than_one_read),
        with_stage(a_rollback_removes_its_rows),
        with_stage(a_rollback_without_the_hooks_state_cuts_by_steps),
        with_stage(a_rollback_cuts_at_the_restored_step_whenever_the_next_row_comes),
        with_stage(a_rollback_at_the_end_removes_its_rows),
        with_stage(names_may_have_odd_characters),
        with_stage(names_are_quoted),
        with_stage(a_row_may_be_longer_than_one_read),
        with_stage(an_earlier_file_is_renamed),
        with_stage(a_file_without_rows_is_not_renamed),
        with_stage(a_file_with_another_name_keeps_its_rows_there),
        with_stage(a_symbolic_link_is_replaced_by_a_file_with_the_same_rows),
        with_stage(a_link_to_nothing_is_replaced_by_a_file),
        with_stage(a_fifo_is_refused),
        with_stage(invalid_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
