/* SPDX-License-Identifier: Apache-2.0 */
/* Run options of the caller and of hooks, and the run's metadata. */
#include "session/probe.h"

#include "run_metadata.pb-c.h"

static hs_code keep_options(probe *p, const probe_call *call)
{
    if (call->point == PROBE_AFTER)
        p->user = (void *)hs_run_values_options(call->values);
    return HS_OK;
}

static hs_code give_42(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    *(double *)hs_op_output(op, 0)->data = 42;
    return HS_OK;
}

/* Sees the merged options and the metadata of the run. */
static hs_code check_merged(probe *p, const probe_call *call)
{
    if (call->point != PROBE_AFTER)
        return HS_OK;
    const hs_run_options *options = hs_run_values_options(call->values);
    hs_bytes bytes = hs_run_values_metadata(call->values);
    Hs__Pb__RunMetadata *metadata = hs__pb__run_metadata__unpack(NULL, bytes.size, bytes.data);
    assert_int_equal(options->trace_level, 3);
    assert_true(options->timeout_secs == 60);
    assert_true(options->output_partition_graphs && options->report_tensor_allocations_upon_oom);
    assert_string_equal(options->debug_watches[0].node_name, "A");
    assert_string_equal(options->debug_watches[1].node_name, "B");
    assert_null(options->debug_watches[2].node_name);
    assert_true(metadata->n_partition_graphs == 1 && metadata->partition_graphs[0]->n_node > 0);
    assert_true(metadata->step_stats->dev_stats[0]->n_node_stats > 0);
    hs__pb__run_metadata__free_unpacked(metadata, NULL);
    p->user = (void *)options;
    return HS_OK;
}

static void ms_072_ms_119s_hooks_options_are_merged_and_seen_by_all(void **state)
{
    play *p = *state;
    hs_run_options ask_a = HS_INIT(hs_run_options, .trace_level = 2, .timeout_secs = 30,
                                   .debug_watches = HS_DEBUG_WATCHES({.node_name = "A"}));
    hs_run_options ask_b =
        HS_INIT(hs_run_options, .trace_level = 3, .timeout_secs = 60, .debug_watches = HS_DEBUG_WATCHES({.node_name = "B"}),
                .output_partition_graphs = true, .report_tensor_allocations_upon_oom = true);
    play_probe(p, a, .wants = HS_RUN_ARGS(.options = &ask_a), .act = check_merged);
    play_probe(p, b, .wants = HS_RUN_ARGS(.options = &ask_b), .act = check_merged);
    hs_graph *graph = hs_graph_new(&p->t.env);
    hs_graph_op(graph, .name = "answer", .run = give_42, .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    p->backend = hs_graph_backend(graph);
    play_open(p, (hs_hook[]){probe_hook(&p->a), probe_hook(&p->b)}, 2);
    assert_true(play_number(p, "answer") == 42);
    assert_non_null(p->a.user);
    assert_ptr_equal(p->a.user, p->b.user); /* one object for all */
    assert_ptr_equal(p->a.user, hs_run_values_options(p->values));
    play_close(p);
    hs_graph_free(graph);
}

static void ms_117s_the_larger_number_and_any_flag_count(void **state)
{
    play *p = *state;
    hs_run_options mine = HS_INIT(hs_run_options, .trace_level = 3, .timeout_secs = 5, .inter_op_thread_pool = 1,
                                  .report_tensor_allocations_upon_oom = true);
    hs_run_options hooks = HS_INIT(hs_run_options, .trace_level = 1, .timeout_secs = 9, .inter_op_thread_pool = 2,
                                   .output_partition_graphs = true, .reset_disk_byte_usage = true);
    play_probe(p, a, .wants = HS_RUN_ARGS(.options = &hooks));
    play_open_probes(p, 1);
    assert_ok(play_args(p, HS_RUN_ARGS(.options = &mine)), &p->err);
    assert_string_equal(hs_script_last_run(p->script), "fetch; feed; trace 3 timeout 9 pool 2 graphs 1 oom 1 disk 1 watch");
}

static void ms_117s_negative_numbers_do_not_win(void **state)
{
    play *p = *state;
    hs_run_options mine = HS_INIT(hs_run_options, .inter_op_thread_pool = -1),
                   hooks = HS_INIT(hs_run_options, .timeout_secs = 1);
    play_probe(p, a, .wants = HS_RUN_ARGS(.options = &hooks));
    play_open_probes(p, 1);
    assert_ok(play_args(p, HS_RUN_ARGS(.options = &mine)), &p->err);
    assert_contains(hs_script_last_run(p->script), "pool 0");
}

/* Options without a timeout do not lift another's timeout. */
static void ms_117s_a_timeout_counts_more_than_none(void **state)
{
    play *p = *state;
    hs_run_options mine = HS_INIT(hs_run_options, .timeout_secs = 5),
                   hooks = HS_INIT(hs_run_options, .trace_level = HS_TRACE_FULL);
    play_probe(p, a, .wants = HS_RUN_ARGS(.options = &hooks));
    play_open_probes(p, 1);
    assert_ok(play_args(p, HS_RUN_ARGS(.options = &mine)), &p->err);
    assert_contains(hs_script_last_run(p->script), "trace 3 timeout 5 ");
    hooks.timeout_secs = HS_NEVER;
    assert_ok(play_args(p, HS_RUN_ARGS(.options = &mine)), &p->err);
    assert_contains(hs_script_last_run(p->script), "trace 3 timeout 5 ");
}

static void the_given_options_are_not_changed(void **state)
{
    play *p = *state;
    hs_debug_watch watches[] = {{.node_name = "x"}, {.node_name = NULL}, {.node_name = "y"}};
    hs_run_options options[3];
    for (int i = 0; i < 3; i++)
        options[i] = *HS_RUN_OPTIONS(.trace_level = i, .debug_watches = watches);
    hs_run_options before[3];
    memcpy(before, options, sizeof before);
    play_probe(p, a, .wants = HS_RUN_ARGS(.options = &options[1]));
    play_probe(p, b, .wants = HS_RUN_ARGS(.options = &options[2]));
    play_open_probes(p, 2);
    for (int i = 0; i < 3; i++)
        assert_ok(play_args(p, HS_RUN_ARGS(.options = &options[0])), &p->err);
    assert_memory_equal(before, options, sizeof before);
    assert_string_equal(watches[2].node_name, "y");
    assert_contains(hs_script_last_run(p->script), "trace 2 timeout 0 pool 0 graphs 0 oom 0 disk 0 watch x x x");
}

/* The list grows for the watches from several sources. */
static void watches_are_appended_in_their_order(void **state)
{
    play *p = *state;
    char names[12][16];
    hs_debug_watch watches[15] = {{.node_name = NULL}}; /* three lists, of 2, 8 and 2 */
    for (int i = 0; i < 12; i++) {
        snprintf(names[i], sizeof names[i], "w%d", i);
        watches[i + (i >= 2) + (i >= 10)] = (hs_debug_watch){.node_name = names[i]};
    }
    hs_run_options mine = HS_INIT(hs_run_options, .debug_watches = watches), none = HS_INIT(hs_run_options);
    hs_run_options many = HS_INIT(hs_run_options, .debug_watches = watches + 3);
    hs_run_options last = HS_INIT(hs_run_options, .debug_watches = watches + 12);
    play_probe(p, a, .wants = HS_RUN_ARGS(.options = &none));
    play_probe(p, b, .wants = HS_RUN_ARGS(.options = &many));
    play_probe(p, c, .wants = HS_RUN_ARGS(.options = &last));
    play_open_probes(p, 3);
    assert_ok(play_args(p, HS_RUN_ARGS(.options = &mine)), &p->err);
    assert_contains(hs_script_last_run(p->script), "watch w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11");
}

static void a_single_set_of_options_is_passed_unchanged(void **state)
{
    play *p = *state;
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = 1);
    play_probe(p, a, .act = keep_options);
    play_probe(p, b, .wants = HS_RUN_ARGS(.options = &options));
    play_open_probes(p, 2);
    play_train(p);
    assert_ptr_equal(p->a.user, &options);
    assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
}

static void options_end_with_their_run(void **state)
{
    play *p = *state;
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = 1);
    play_probe(p, a, .act = keep_options);
    play_open_probes(p, 1);
    assert_ok(play_args(p, HS_RUN_ARGS(.options = &options)), &p->err);
    assert_ptr_equal(p->a.user, &options);
    play_train(p);
    assert_null(p->a.user);
    assert_null(hs_run_values_options(NULL));
    assert_int_equal(hs_run_values_metadata(NULL).size, 0);
}

/* Options of a caller that was compiled against headers with more members. */
static void options_of_a_later_version_are_taken(void **state)
{
    play *p = *state;
    struct {
        hs_run_options options;
        void *more;
    } newer = {.options = {.size = sizeof newer, .trace_level = 2}};
    const hs_run_options known = HS_INIT(hs_run_options, .trace_level = 3);
    play_probe(p, a, .wants = HS_RUN_ARGS(.options = &known));
    play_open_probes(p, 1);
    assert_ok(play_args(p, HS_RUN_ARGS(.options = &newer.options)), &p->err);
    assert_contains(hs_script_last_run(p->script), "trace 3 timeout 0");
    p->a.wants = NULL;
    assert_ok(play_args(p, HS_RUN_ARGS(.options = &newer.options)), &p->err);
    assert_contains(hs_script_last_run(p->script), "trace 2 timeout 0");
    p->a.wants = HS_RUN_ARGS(.options = &known);
    play_train(p);
    assert_contains(hs_script_last_run(p->script), "trace 3 timeout 0");
    newer.more = &newer;
    assert_fails(play_args(p, HS_RUN_ARGS(.options = &newer.options)), HS_INVALID_ARGUMENT, &p->err, "hs_run_options");
    assert_fails(play_args(p, HS_RUN_ARGS(.options = &(hs_run_options){.trace_level = 1})), HS_INVALID_ARGUMENT, &p->err,
                 "HS_INIT(hs_run_options");
}

static hs_code ask_with(probe *p, const probe_call *call)
{
    if (call->point == PROBE_AFTER)
        assert_fails(hs_raw_session_run(p->raw, p->user, NULL, call->err), HS_INVALID_ARGUMENT, call->err,
                     "hs_run_options.size is 1");
    return HS_OK;
}

/* Options of the caller, of a hook in addition to the caller's, and of a raw run. */
static void options_without_their_size_are_refused(void **state)
{
    play *p = *state;
    hs_run_options wrong = {.size = 1}, right = HS_INIT(hs_run_options);
    hs_run_args asks = HS_INIT(hs_run_args, .options = &wrong), mine = HS_INIT(hs_run_args, .options = &right);
    play_probe(p, a, .act = ask_with, .user = &asks);
    play_open_probes(p, 1);
    assert_fails(play_args(p, &asks), HS_INVALID_ARGUMENT, &p->err, "hs_run_options.size is 1");
    assert_int_equal(hs_script_runs(p->script), 0);
    assert_ok(play_args(p, &mine), &p->err);
    p->a.wants = &asks;
    assert_fails(play_args(p, &mine), HS_INVALID_ARGUMENT, &p->err, "hook 'a', before_run at step 0: hs_run_options.size");
    wrong = right;
    wrong.debug_watches = HS_DEBUG_WATCHES({.node_name = "x"}, {.node_name = "y"});
    p->a.act = NULL;
    assert_ok(play_args(p, &mine), &p->err);
    assert_contains(hs_script_last_run(p->script), "watch x y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_072_ms_119s_hooks_options_are_merged_and_seen_by_all),
        play_test(ms_117s_the_larger_number_and_any_flag_count),
        play_test(ms_117s_negative_numbers_do_not_win),
        play_test(ms_117s_a_timeout_counts_more_than_none),
        play_test(the_given_options_are_not_changed),
        play_test(watches_are_appended_in_their_order),
        play_test(a_single_set_of_options_is_passed_unchanged),
        play_test(options_end_with_their_run),
        play_test(options_of_a_later_version_are_taken),
        play_test(options_without_their_size_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
