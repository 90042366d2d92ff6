/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of several data files. */
#include "checkpoint/wall.h"

#include <math.h>
#include <unistd.h>

static int setup(void **state)
{
    fixture_setup(state);
    use_shards(*state, 3);
    return 0;
}
#define with_shards(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

static wall the_wall;

static wall *build(fixture *f)
{
    assert_ok(wall_open(&the_wall, &f->t.env, (wall_kind){.no_state = false}), &the_wall.err);
    return &the_wall;
}

/* Assignment of tensors to data files. */

static void the_files_are_about_as_large_as_each_other(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    use_shards(f, 2);
    assert_ok(wall_save(w, f, 1, NULL), &f->err);
    assert_int_equal(shard_bytes(f, "wall", 0, 2), (1000 + 480 + 50 + 30) * 4 + 8); /* with the state */
    assert_int_equal(shard_bytes(f, "wall", 1, 2), (990 + 500 + 40) * 4);
    wall_close(w);
}

/* In each file. */
static void tensors_lie_in_the_order_of_their_names(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    uint64_t end[3] = {0};
    hs__bundle_reader reader;
    assert_ok(wall_save(w, f, 1, NULL), &f->err);
    open_bundle(f, "wall", &reader);
    assert_int_equal(reader.shards, 3);
    for (size_t i = 0; i < reader.n_entries; i++) {
        const hs__bundle_entry *entry = &reader.entries[i];
        if (!strstr(entry->name, "brick"))
            continue;
        assert_int_equal(entry->offset, end[entry->shard]);
        end[entry->shard] += entry->bytes;
    }
    for (int i = 1; i < 3; i++)
        assert_int_equal(shard_bytes(f, "wall", i, 3), end[i]);
    hs__bundle_reader_close(&reader);
    wall_close(w);
}

static void state_goes_to_the_first(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    hs__bundle_reader reader;
    assert_ok(wall_save(w, f, 1, NULL), &f->err);
    open_bundle(f, "wall", &reader);
    const hs__bundle_entry *entry = hs__bundle_find(&reader, "hooksess/state/number");
    assert_non_null(entry);
    assert_int_equal(entry->shard, 0);
    hs__bundle_reader_close(&reader);
    wall_close(w);
}

/* The bytes of index and data, one after the other. */
static char *all_bytes(fixture *f, size_t *bytes)
{
    static const char *const names[] = {"wall.index", "wall.data-00000-of-00003", "wall.data-00001-of-00003",
                                        "wall.data-00002-of-00003"};
    char *all = NULL;
    *bytes = 0;
    for (size_t i = 0, n; i < sizeof names / sizeof *names; i++) {
        char *data = test_read_file(test_path(f->directory, names[i]), &n);
        assert_non_null(data);
        all = realloc(all, *bytes + n);
        memcpy(all + *bytes, data, n);
        *bytes += n;
        free(data);
    }
    return all;
}

static void assert_same_files(fixture *f, wall_kind kind, const hs_save_options *options)
{
    size_t n[2];
    char *all[2];
    for (int i = 0; i < 2; i++) {
        assert_ok(wall_open(&the_wall, &f->t.env, i ? kind : (wall_kind){.no_state = false}), &the_wall.err);
        assert_ok(wall_save(&the_wall, f, 1, i ? options : NULL), &f->err);
        hs_saver_wait(f->saver);
        all[i] = all_bytes(f, &n[i]);
        assert_ok(hs_checkpoint_remove(NULL, test_path(f->directory, "wall"), &f->err), &f->err);
        wall_close(&the_wall);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(all[0], all[1], n[0]);
    free(all[0]);
    free(all[1]);
}

static void equal_models_give_equal_files(void **state)
{
    assert_same_files(*state, (wall_kind){.reversed = true}, NULL);
}

static void the_background_gives_the_same_files(void **state)
{
    fixture *f = *state;
    assert_same_files(f, (wall_kind){.no_state = false}, HS_SAVE_OPTIONS(.background = true));
    assert_same_files(f, (wall_kind){.no_state = false}, HS_SAVE_OPTIONS(.background = true, .overlap = true));
}

static void a_device_gives_the_same_files(void **state)
{
    assert_same_files(*state, (wall_kind){.on_device = {false, true, false, false, true, false, true}}, NULL);
    assert_int_equal(the_wall.device_reads, 3);
    assert_same_files(*state, (wall_kind){.on_device = {true, true, true, true, true, true, true}}, NULL);
    assert_int_equal(the_wall.device_reads, BRICKS);
}

/* A backend whose views are valid only until the next call. */
static const hs_backend_ops *inner;
static float view[LARGEST_BRICK];

static hs_code read_into_one_place(void *session, size_t index, hs_tensor *value, hs_error *err)
{
    hs_code code = inner->read_variable(session, index, value, err);
    memset(view, 0, sizeof view);
    if (!code)
        memcpy(view, value->data, value->bytes);
    value->data = view;
    return code;
}

static void views_that_do_not_stay_are_copied_in_time(void **state)
{
    fixture *f = *state;
    inner = hs_graph_backend(f->m.graph).ops;
    assert_true(inner->flags & HS_BACKEND_KEEPS_VIEWS);
    hs_backend_ops ops = *inner;
    ops.flags = 0;
    ops.read_variable = read_into_one_place;
    assert_same_files(f, (wall_kind){.on = &ops}, NULL);
}

/* Round trips. */

static void any_number_is_restored(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    for (int shards = 1; shards <= 9; shards++) {
        use_shards(f, shards);
        assert_ok(wall_save(w, f, shards, NULL), &f->err);
        assert_int_equal(test_count_files(f->directory, "wall.data-"), shards);
        assert_wall(w, f, shards);
    }
    wall_close(w);
}

/* Files of several buffers, each with a writing thread. */
static void large_variables(void **state)
{
    fixture *f = *state;
    enum { N = 3 << 20, VARIABLES = 3 };
    float *memory = malloc(sizeof(float) * N * VARIABLES);
    hs_graph *graph = hs_graph_new(&f->t.env);
    for (size_t i = 0; i < N * VARIABLES; i++)
        memory[i] = (float)(i % 8388608);
    for (size_t i = 0; i < VARIABLES; i++)
        hs_graph_variable(graph, HS_NAMES("a", "b", "c")[i], HS_FLOAT, HS_SHAPE(N), memory + N * i);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    const char *path = test_path(f->directory, "large");
    assert_ok(hs_saver_save(f->saver, hs_session_raw(session), path, -1, NULL, &f->err), &f->err);
    memset(memory, 0, sizeof(float) * N * VARIABLES);
    assert_ok(hs_saver_restore(f->saver, hs_session_raw(session), path, NULL, &f->err), &f->err);
    for (size_t i = 0; i < N * VARIABLES; i++)
        if (memory[i] != (float)(i % 8388608))
            fail_msg("element %zu is another one", i);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    free(memory);
}

static void more_files_than_variables(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    use_shards(f, 64);
    assert_ok(wall_save(w, f, 1, NULL), &f->err);
    assert_int_equal(shard_bytes(f, "wall", 63, 64), 0);
    assert_wall(w, f, 1);
    assert_ok(wall_save(w, f, 2, NULL), &f->err); /* over it: 1 to 64 of 65 */
    assert_int_equal(shard_bytes(f, "wall", 64, 65), 0);
    assert_int_equal(test_count_files(f->directory, "wall.data-"), 64);
    assert_wall(w, f, 2);
    wall_close(w);
}

static void a_model_without_anything(void **state)
{
    fixture *f = *state;
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_non_null(session);
    const char *path = test_path(f->directory, "empty");
    for (int i = 0; i < 2; i++)
        assert_ok(hs_saver_save(f->saver, hs_session_raw(session), path, -1, NULL, &f->err), &f->err);
    assert_ok(hs_saver_restore(f->saver, hs_session_raw(session), path, NULL, &f->err), &f->err);
    assert_int_equal(test_count_files(f->directory, "empty.data-"), 3);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void invalid_numbers_of_shards_are_refused(void **state)
{
    fixture *f = *state;
    for (int64_t shards = -1; shards <= 65; shards += 66) {
        assert_null(hs_saver_new(HS_SAVER_OPTIONS(.shards = shards), &f->err));
        assert_says(&f->err, HS_INVALID_ARGUMENT, "hs_saver_options.shards");
    }
}

/* Over another one. */

static void a_replacing_save_uses_other_file_names(void **state)
{
    fixture *f = *state;
    static const struct {
        int shards, first, of;
    } saves[] = {{2, 0, 2}, {2, 1, 3}, {3, 1, 4}, {3, 0, 3}, {1, 0, 1}, {1, 1, 2}, {2, 1, 3}, {2, 0, 2}};
    wall *w = build(f);
    for (size_t i = 0; i < sizeof saves / sizeof *saves; i++) {
        use_shards(f, saves[i].shards);
        assert_ok(wall_save(w, f, (int64_t)i, NULL), &f->err);
        assert_int_equal(test_count_files(f->directory, "wall.data-"), saves[i].shards);
        for (int shard = 0; shard < saves[i].shards; shard++)
            assert_true(shard_bytes(f, "wall", saves[i].first + shard, saves[i].of) > 0);
        assert_wall(w, f, (int64_t)i);
    }
    wall_close(w);
}

static void touch(fixture *f, const char *name)
{
    test_write_file(test_path(f->directory, name), "x", 1);
}

static void hold_again(fixture *f)
{
    use_shards(f, 2);
    assert_ok(hs_saver_hold(f->saver, NULL, test_path(f->directory, "wall"), &f->err), &f->err);
}

static void data_that_were_replaced_go(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    assert_ok(wall_save(w, f, 1, NULL), &f->err);
    touch(f, "wall.data-00000-of-00002");
    touch(f, "wall.data-00001-of-00002");
    touch(f, "wall.data-00003-of-00004");
    touch(f, "wall.data-00002-of-00003.tmp");
    hold_again(f);
    assert_int_equal(test_count_files(f->directory, "wall.data-"), 3);
    assert_wall(w, f, 1);
    wall_close(w);
}

/* If data files of the index are missing, other data files may belong to it. */
static void where_data_are_missing_none_go(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    assert_ok(wall_save(w, f, 1, NULL), &f->err);
    assert_int_equal(unlink(test_path(f->directory, "wall.data-00002-of-00003")), 0);
    touch(f, "wall.data-00001-of-00002");
    hold_again(f);
    assert_int_equal(test_count_files(f->directory, "wall.data-"), 3);
    wall_close(w);
}

/* NaN and infinity. */

/* At index 7 of one variable and 9 of the other, which may be the same variable. */
static hs_code save_poisoned(wall *w, fixture *f, size_t brick, size_t other)
{
    wall_set(w, 5);
    w->values[brick][7] = w->values[other][9] = NAN;
    return hs_saver_save(f->saver, hs_session_raw(w->session), test_path(f->directory, "wall"), -1, NULL, &f->err);
}

static void in_any_file_it_fails_the_save(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    assert_ok(wall_save(w, f, 1, NULL), &f->err);
    for (size_t i = 0; i < BRICKS; i++) {
        char says[64];
        snprintf(says, sizeof says, "'brick%zu' is not finite, first at index 7 (2 NaN", i);
        assert_fails(save_poisoned(w, f, i, i), HS_FAILED_PRECONDITION, &f->err, says);
        assert_int_equal(test_count_files(f->directory, "wall."), 5); /* the first one's, with its meta */
    }
    assert_wall(w, f, 1);
    wall_close(w);
}

static void the_first_nonfinite_variable_by_name_is_reported(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    for (size_t i = 0; i < BRICKS - 1; i++) {
        char says[64];
        snprintf(says, sizeof says, "'brick%zu' is not finite, first at index 7", i);
        assert_fails(save_poisoned(w, f, i, BRICKS - 1), HS_FAILED_PRECONDITION, &f->err, says);
        assert_contains(f->err.message, "and other variables are not finite either");
    }
    wall_close(w);
}

/* Rows of TensorFlow's tests. */

static void sa_021_sharded_basics(void **state)
{
    fixture *f = *state;
    wall *w = build(f);
    use_shards(f, 2);
    assert_ok(wall_save(w, f, 3, NULL), &f->err);
    assert_string_equal(hs_saver_last_path(f->saver), test_path(f->directory, "wall"));
    assert_true(shard_bytes(f, "wall", 0, 2) > 0 && shard_bytes(f, "wall", 1, 2) > 0);
    assert_wall(w, f, 3);
    wall_close(w);
}

static void sa_024_sharded_checkpoints_are_deleted_whole(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2, .shards = 2));
    for (int64_t step = 1; step <= 3; step++) {
        save_at(f, step);
        for (int64_t i = step > 2 ? 2 : 1; i <= step; i++) {
            char name[32];
            snprintf(name, sizeof name, "model.ckpt-%d.", (int)i);
            assert_int_equal(test_count_files(f->directory, name), 4);
        }
    }
    assert_int_equal(test_count_files(f->directory, "model.ckpt-1"), 0);
}

static void a_rollback_renames_all_files(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    use_shards(f, 2);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err), &f->err);
    save_at(f, 1);
    assert_int_equal(test_count_files(f->directory, "model.ckpt-2.abandoned.data-"), 3);
    assert_int_equal(test_count_files(f->directory, "model.ckpt-2."), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_shards(the_files_are_about_as_large_as_each_other),
        with_shards(tensors_lie_in_the_order_of_their_names),
        with_shards(state_goes_to_the_first),
        with_shards(equal_models_give_equal_files),
        with_shards(the_background_gives_the_same_files),
        with_shards(a_device_gives_the_same_files),
        with_shards(views_that_do_not_stay_are_copied_in_time),
        with_shards(any_number_is_restored),
        with_shards(large_variables),
        with_shards(more_files_than_variables),
        with_shards(a_model_without_anything),
        with_shards(invalid_numbers_of_shards_are_refused),
        with_shards(a_replacing_save_uses_other_file_names),
        with_shards(data_that_were_replaced_go),
        with_shards(where_data_are_missing_none_go),
        with_shards(in_any_file_it_fails_the_save),
        with_shards(the_first_nonfinite_variable_by_name_is_reported),
        with_shards(sa_021_sharded_basics),
        with_shards(sa_024_sharded_checkpoints_are_deleted_whole),
        with_shards(a_rollback_renames_all_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
