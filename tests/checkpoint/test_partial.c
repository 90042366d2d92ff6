/* SPDX-License-Identifier: Apache-2.0 */
/* Restores of only some variables, and hs_restore_options.report. */
#include "checkpoint/model.h"

static hs_code restore_with(fixture *f, const hs_restore_options *options)
{
    model_set(&f->m, 9);
    return hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 3, NULL), options, &f->err);
}

/* A checkpoint of step 3 with another name for the weights. */
static fixture *with_renamed(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .names = HS_CHECKPOINT_NAMES({"weights", "layer1/kernel"})));
    save_at(f, 3);
    return f;
}

/* Names. */

static void a_saver_may_rename_variables(void **state)
{
    fixture *f = with_renamed(state);
    hs_tensor info;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, 3, NULL), &f->err);
    assert_ok(hs_checkpoint_find(reader, "layer1/kernel", &info, &f->err), &f->err);
    assert_int_equal(hs_checkpoint_find(reader, "weights", &info, &f->err), HS_NOT_FOUND);
    hs_checkpoint_close(reader);
    assert_ok(restore_with(f, NULL), &f->err);
    assert_came(f, true, true, true);
}

static void a_restore_may_rename_variables(void **state)
{
    fixture *f = with_renamed(state);
    hs_restore_options options = HS_INIT(hs_restore_options, .names = HS_CHECKPOINT_NAMES({"weights", "layer1/kernel"}));
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_fails(restore_with(f, NULL), HS_NOT_FOUND, &f->err, "'weights' is missing; 'layer1/kernel' is not in the model");
    assert_came(f, false, false, false);
    assert_ok(restore_with(f, &options), &f->err);
    assert_came(f, true, true, true);
}

static void sa_005_the_same_name_for_two_variables_is_refused(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .names = HS_CHECKPOINT_NAMES({"weights", "bias"})));
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 1, NULL, &f->err);
    assert_fails(code, HS_INVALID_ARGUMENT, &f->err, "'bias'");
    assert_int_equal(test_count_files(f->directory, "model.ckpt"), 0);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options,
                                           .names = HS_CHECKPOINT_NAMES({"weights", "bias"}, {"bias", "weights"})));
    save_at(f, 1);
}

/* Only one of the two would be saved, or restored. */
static void a_variable_is_listed_once(void **state)
{
    fixture *f = with_renamed(state);
    const hs_checkpoint_name *names = HS_CHECKPOINT_NAMES({"weights", "x"}, {"bias", "b"}, {"weights", "y"});
    hs_saver_options named = HS_INIT(hs_saver_options, .names = names);
    hs_saver_options listed = HS_INIT(hs_saver_options, .variables = HS_NAMES("bias", "weights", "bias"));
    hs_restore_options restoring = HS_INIT(hs_restore_options, .names = names);
    assert_null(hs_saver_new(&named, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "hs_saver_options.names lists variable 'weights' twice");
    assert_null(hs_saver_new(&listed, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "hs_saver_options.variables lists 'bias' twice");
    assert_fails(restore_with(f, &restoring), HS_INVALID_ARGUMENT, &f->err,
                 "hs_restore_options.names lists variable 'weights' twice");
    assert_came(f, false, false, false);
    assert_null(hs_session_open(hs_graph_backend(f->m.graph), HS_SESSION_OPTIONS(.restore_options = &restoring), &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "hs_restore_options.names lists variable 'weights' twice");
}

static size_t comparisons;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b)
{
    comparisons++;
    return __real_strcmp(a, b);
}

/* The number of comparisons does not grow with the square of the number of names. */
static void many_names_are_compared_few_times(void **state)
{
    enum { MANY = 2000, FEW = 10 * MANY };
    static char texts[MANY][16];
    static const char *variables[MANY + 1];
    static hs_checkpoint_name names[MANY + 1];
    fixture *f = with_renamed(state);
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "%d", i);
        names[i] = (hs_checkpoint_name){texts[i], texts[i]};
        variables[i] = texts[i];
    }
    comparisons = 0;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .variables = variables));
    assert_true(comparisons < FEW);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .names = names));
    assert_true(comparisons < FEW);
    assert_fails(restore_with(f, HS_RESTORE_OPTIONS(.names = names)), HS_INVALID_ARGUMENT, &f->err,
                 "'0', which is not a variable");
    assert_true(comparisons < FEW);
}

static void names_of_variables_that_there_are_not(void **state)
{
    fixture *f = with_renamed(state);
    hs_restore_options names = HS_INIT(hs_restore_options, .names = HS_CHECKPOINT_NAMES({"wieghts", "x"}));
    hs_restore_options nameless = HS_INIT(hs_restore_options, .names = HS_CHECKPOINT_NAMES({"weights", NULL}));
    hs_restore_options skip = HS_INIT(hs_restore_options, .skip = HS_NAMES("wieghts"));
    assert_fails(restore_with(f, &names), HS_INVALID_ARGUMENT, &f->err, "'wieghts', which is not a variable");
    assert_fails(restore_with(f, &nameless), HS_INVALID_ARGUMENT, &f->err, "has no name");
    assert_fails(restore_with(f, &skip), HS_INVALID_ARGUMENT, &f->err, "'wieghts', which is not a variable");
    assert_fails(restore_with(f, &(hs_restore_options){.reshape = true}), HS_INVALID_ARGUMENT, &f->err,
                 "HS_INIT(hs_restore_options");
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .names = HS_CHECKPOINT_NAMES({"wieghts", "x"})));
    assert_fails(restore_with(f, NULL), HS_INVALID_ARGUMENT, &f->err, "'wieghts', which is not a variable");
    hs_saver_options empty = HS_INIT(hs_saver_options, .names = HS_CHECKPOINT_NAMES({"weights", ""}));
    assert_null(hs_saver_new(&empty, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "lists 'weights' without a name");
}

/* Parts. */

static void skipped_variables_are_unchanged(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_ok(restore_with(f, HS_RESTORE_OPTIONS(.skip = HS_NAMES("weights", "global_step"))), &f->err);
    assert_came(f, false, true, false);
}

static void missing_variables_may_be_allowed(void **state)
{
    fixture *f = with_renamed(state);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_ok(restore_with(f, HS_RESTORE_OPTIONS(.allow_missing = true)), &f->err);
    assert_came(f, false, true, true);
}

/* A graph in which the weights have another shape. */
static hs_session *open_reshaped(fixture *f, float *weights, hs_shape shape, int64_t *step)
{
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, "weights", HS_FLOAT, shape, weights);
    hs_graph_global_step(graph, NULL, step);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_non_null(session);
    return session;
}

static void sa_014_other_shapes_on_purpose(void **state)
{
    fixture *f = *state;
    float weights[6] = {0};
    int64_t step = 0;
    save_at(f, 3); /* [2,3] */
    hs_session *session = open_reshaped(f, weights, HS_SHAPE(3, 2), &step);
    hs_graph *graph = hs_graph_of(hs_raw_session_backend(hs_session_raw(session)));
    hs_raw_session *raw = hs_session_raw(session);
    hs_restore_options reshape = HS_INIT(hs_restore_options, .reshape = true);
    assert_fails(hs_saver_restore(f->saver, raw, file_of(f, 3, NULL), NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "'weights' is float [2,3] in the checkpoint, but float [3,2] in the model");
    assert_ok(hs_saver_restore(f->saver, raw, file_of(f, 3, NULL), &reshape, &f->err), &f->err);
    assert_memory_equal(weights, f->m.weights, sizeof weights);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void other_numbers_of_elements_are_never_taken(void **state)
{
    fixture *f = *state;
    float weights[5] = {0};
    int64_t step = 0;
    save_at(f, 3);
    hs_session *session = open_reshaped(f, weights, HS_SHAPE(5), &step);
    hs_graph *graph = hs_graph_of(hs_raw_session_backend(hs_session_raw(session)));
    hs_restore_options reshape = HS_INIT(hs_restore_options, .reshape = true);
    hs_code code = hs_saver_restore(f->saver, hs_session_raw(session), file_of(f, 3, NULL), &reshape, &f->err);
    assert_fails(code, HS_INVALID_ARGUMENT, &f->err, "float [5] in the model");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* The report. */

static void keep_report(void *user, hs_restore_event event, const char *name, const char *detail)
{
    static const char *const events[] = {"taken", "skipped", "missing", "different", "extra", "rejected"};
    size_t used = strlen(user);
    const char *slash = strrchr(name, '/');
    snprintf((char *)user + used, 1024 - used, "%s %s%s%s. ", events[event],
             event == HS_RESTORE_EVENT_REJECTED ? slash + 1 : name,
             *detail && event == HS_RESTORE_EVENT_RESTORED ? " from " : "",
             event == HS_RESTORE_EVENT_RESTORED ? detail : "");
}

static void everything_is_reported(void **state)
{
    fixture *f = with_renamed(state);
    char report[1024] = "";
    hs_restore_options options =
        HS_INIT(hs_restore_options, .skip = HS_NAMES("bias"), .report = keep_report, .user = report);
    assert_ok(restore_with(f, &options), &f->err);
    assert_string_equal(report, "taken weights from layer1/kernel. skipped bias. taken global_step from global_step. "
                                "extra bias. ");
    report[0] = '\0';
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_int_equal(restore_with(f, &options), HS_NOT_FOUND);
    assert_contains(report, "missing weights. ");
}

/* Through a session. */

static hs_code open_session(fixture *f, hs_session_options options, hs_outcome *outcome)
{
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), &options, &f->err);
    if (f->m.session && outcome)
        *outcome = hs_session_close(f->m.session, NULL), f->m.session = NULL;
    return f->m.session || outcome ? HS_OK : f->err.code;
}

static hs_session_options from(const fixture *f, int64_t policy)
{
    return (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = f->directory, .restore = policy);
}

static void sessions_report_and_skip_too(void **state)
{
    fixture *f = *state;
    char report[1024] = "";
    save_at(f, 2);
    save_at(f, 3);
    flip_bit(file_of(f, 3, DATA), 8 * 47); /* of the weights: their name is the last */
    hs_session_options options = from(f, HS_RESTORE_REQUIRE);
    options.restore_options = HS_RESTORE_OPTIONS(.skip = HS_NAMES("bias"), .report = keep_report, .user = report);
    model_set(&f->m, 9);
    assert_ok(open_session(f, options, NULL), &f->err);
    assert_int_equal(f->m.step, 2);
    assert_contains(report, "rejected model.ckpt-3. ");
    assert_contains(report, "skipped bias. ");
}

static void where_one_is_required_none_is_an_error(void **state)
{
    fixture *f = *state;
    assert_fails(open_session(f, from(f, HS_RESTORE_REQUIRE), NULL), HS_NOT_FOUND, &f->err, "a checkpoint is required");
    assert_ok(open_session(f, from(f, HS_RESTORE_IF_PRESENT), NULL), &f->err);
    save_at(f, 3);
    assert_ok(open_session(f, from(f, HS_RESTORE_REQUIRE), NULL), &f->err);
    assert_int_equal(f->m.step, 3);
}

static void restore_never_starts_without_restoring_and_abandons_old_checkpoints(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    model_set(&f->m, 0);
    assert_ok(open_session(f, from(f, HS_RESTORE_NEVER), NULL), &f->err);
    assert_true(model_is(&f->m, 0));
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    save_at(f, 1);
    assert_true(has_file(f, 3, "abandoned.index"));
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
}

static void policies_that_there_are_not(void **state)
{
    fixture *f = *state;
    assert_fails(open_session(f, from(f, 3), NULL), HS_INVALID_ARGUMENT, &f->err, "hs_restore_policy");
    assert_fails(open_session(f, from(f, -1), NULL), HS_INVALID_ARGUMENT, &f->err, "hs_restore_policy");
    hs_session_options bad = from(f, 0);
    bad.restore_options = &(hs_restore_options){.reshape = true};
    assert_fails(open_session(f, bad, NULL), HS_INVALID_ARGUMENT, &f->err, "HS_INIT(hs_restore_options");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_saver_may_rename_variables),
        with_fixture(a_restore_may_rename_variables),
        with_fixture(sa_005_the_same_name_for_two_variables_is_refused),
        with_fixture(a_variable_is_listed_once),
        with_fixture(many_names_are_compared_few_times),
        with_fixture(names_of_variables_that_there_are_not),
        with_fixture(skipped_variables_are_unchanged),
        with_fixture(missing_variables_may_be_allowed),
        with_fixture(sa_014_other_shapes_on_purpose),
        with_fixture(other_numbers_of_elements_are_never_taken),
        with_fixture(everything_is_reported),
        with_fixture(sessions_report_and_skip_too),
        with_fixture(where_one_is_required_none_is_an_error),
        with_fixture(restore_never_starts_without_restoring_and_abandons_old_checkpoints),
        with_fixture(policies_that_there_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
