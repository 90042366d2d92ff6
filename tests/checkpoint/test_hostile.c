/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes that claim more than their data files have. That is damage, and no memory is allocated for it. */
#include "base/meter.h"
#include "checkpoint/model.h"
#include "formats/bundles.h"

#include "checkpoint/saver.h"

enum { ENOUGH = 1 << 20, N_VAST = 16 };
#define LOADER "hooksess/state/loader"

static hs_code save_state(void *self, hs_state_writer *out, hs_error *error)
{
    return hs_state_writer_write(out, self, 8, error);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *error)
{
    return hs_state_reader_read(in, self, 8, error);
}

/* A model with a state and an intact checkpoint of step 9. The bundle that a test writes becomes the newest. */
static fixture *begin(void **state)
{
    static int64_t loader;
    fixture *f = *state;
    test_env_init(&t);
    directory = f->directory;
    model_close(&f->m);
    model_build(&f->m, &f->t.env);
    hs_graph_state(f->m.graph, "loader", save_state, load_state, &loader);
    f->m.session = hs_session_open(hs_graph_backend(f->m.graph), NULL, &f->err);
    assert_non_null(f->m.session);
    save_at(f, 9);
    write_state(f, "model_checkpoint_path: \"b\"\nall_model_checkpoint_paths: \"model.ckpt-9\"\n");
    return f;
}

/* A bundle with 64 bytes of data that fits the model except for one entry. The entry's data follow those of the others,
 * unless the claim has an offset. */
static void write_lie(const char *name, const claim *lie)
{
    struct {
        const char *name;
        claim entry;
    } entries[] = {
        {"bias", {.dtype = HS_DOUBLE, .n_dims = 1, .dims = {2}, .size = 16}},
        {"global_step", {.dtype = HS_INT64, .size = 8}},
        {LOADER, {.dtype = HS_UINT8, .n_dims = 1, .dims = {8}, .size = 8}},
        {"weights", {.n_dims = 2, .dims = {2, 3}, .size = 24}},
    };
    static const char data[64];
    int64_t at = 0, end = 48;
    index_begin();
    index_put_header(1);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        claim *entry = &entries[i].entry;
        if (strcmp(entries[i].name, name) == 0) {
            *entry = *lie;
            entry->offset = lie->offset ? lie->offset : end;
        } else {
            entry->offset = at;
            at += entry->size;
        }
        index_put_claim(entries[i].name, entry);
    }
    assert_true(at <= end);
    index_end();
    test_write_file(DATA_FILE, data, sizeof data);
}

static void assert_older_one_is_taken(fixture *f, const char *name, const claim *lie)
{
    meter m;
    meter_init(&m, &f->t.env);
    write_lie(name, lie);
    test_env_clear_log(&f->t);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .env = &m.env));
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 9));
    assert_string_equal(f->restored, file_of(f, 9, NULL));
    assert_contains(f->t.log, "/b' skipped: ");
    assert_contains(f->t.log, lie->why);
    assert_in_range(m.bytes, 0, ENOUGH);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_fails(hs_saver_restore(f->saver, model_raw(&f->m), PREFIX, NULL, &f->err), lie->code, &f->err, lie->why);
}

static void a_variable_that_lies_makes_way_for_the_older_one(void **state)
{
    fixture *f = begin(state);
    const claim lies[] = {
        {"too few for 'weights'", HS_DATA_LOSS, .n_dims = 2, .dims = {2, 3}, .size = 24, .offset = 41},
        {"too few for 'weights'", HS_DATA_LOSS, .n_dims = 2, .dims = {2, 3}, .size = 24, .offset = INT64_MAX},
        {"need 24", HS_DATA_LOSS, .n_dims = 2, .dims = {2, 3}, .size = (int64_t)1 << 40},
        {"need 24", HS_DATA_LOSS, .n_dims = 2, .dims = {2, 3}, .size = INT64_MAX},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        assert_older_one_is_taken(f, "weights", &lies[i]);
}

static void a_state_that_lies_makes_way_for_the_older_one(void **state)
{
    fixture *f = begin(state);
    const int64_t large = (int64_t)1 << 40;
    const claim lies[] = {
        {"too few for '" LOADER "'", HS_DATA_LOSS, .dtype = HS_UINT8, .n_dims = 1, .dims = {65}, .size = 65},
        {"too few for '" LOADER "'", HS_DATA_LOSS, .dtype = HS_UINT8, .n_dims = 1, .dims = {large}, .size = large},
        {"too few for '" LOADER "'", HS_DATA_LOSS, .dtype = HS_UINT8, .n_dims = 1, .dims = {INT64_MAX}, .size = INT64_MAX},
        {"need 1099511627776", HS_DATA_LOSS, .dtype = HS_UINT8, .n_dims = 1, .dims = {large}, .size = 8},
        {"is not a vector of uint8", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {large}, .size = 2 * large},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        assert_older_one_is_taken(f, LOADER, &lies[i]);
}

/* When training reaches the step of a checkpoint that was skipped, it is replaced. */
static void an_index_of_a_later_version_is_skipped_and_saved_over(void **state)
{
    fixture *f = begin(state);
    Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = 1;
    header.version = &version;
    version.producer = version.min_consumer = 2;
    index_begin();
    index_put_message("", &header.base);
    index_end();
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 9));
    assert_contains(f->t.log, "/b' skipped: ");
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), PREFIX, -1, NULL, &f->err), &f->err);
    assert_ok(restore_newest(f), &f->err);
    assert_string_equal(f->restored, PREFIX);
}

/* Models whose variables are as large as the index claims. */

static claim vast;

static bool vast_variable(void *self, size_t index, hs_variable *out)
{
    static const char *const names[N_VAST] = {"va", "vb", "vc", "vd", "ve", "vf", "vg", "vh",
                                              "vi", "vj", "vk", "vl", "vm", "vn", "vo", "vp"};
    (void)self;
    if (index >= N_VAST)
        return false;
    *out = (hs_variable){.name = names[index], .dtype = (hs_dtype)vast.dtype, .shape = hs_shape_of(1, vast.dims)};
    return true;
}

/* Restores variables of the size in `vast`, each in its own data file. */
static void assert_refused(fixture *f, const hs_env *env, hs_code code, const char *why)
{
    meter m;
    hs_variable variable;
    meter_init(&m, env);
    index_begin();
    index_put_header(N_VAST);
    for (size_t i = 0; vast_variable(NULL, i, &variable); i++) {
        char name[64];
        vast.shard = (int32_t)i;
        index_put_claim(variable.name, &vast);
        snprintf(name, sizeof name, "b.data-%05d-of-%05d", (int)i, N_VAST);
        test_write_file(in(name), "some data", 9);
    }
    index_end();
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .env = &m.env));
    bool (*honest)(void *, size_t, hs_variable *) = model_raw(&f->m)->ops.variable;
    model_raw(&f->m)->ops.variable = vast_variable;
    hs_error error;
    hs_code got = hs_saver_restore(f->saver, model_raw(&f->m), PREFIX, NULL, &error);
    model_raw(&f->m)->ops.variable = honest;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_fails(got, code, &error, why);
    assert_true(model_is(&f->m, 9));
    assert_in_range(m.bytes, 0, ENOUGH);
}

static void sizes_that_overflow_when_added_up(void **state)
{
    fixture *f = begin(state);
    const int64_t large = (int64_t)1 << 59;
    vast = (claim){.dtype = HS_FLOAT, .n_dims = 1, .dims = {large}, .size = 4 * large}; /* eight of them are 2 to the 64 */
    assert_refused(f, &f->t.env, HS_DATA_LOSS, "too few for 'va'");
}

static void strings_that_overflow_when_added_up(void **state)
{
    fixture *f = begin(state);
    const int64_t large = (int64_t)1 << 58;
    vast = (claim){.dtype = HS_STRING, .n_dims = 1, .dims = {large}, .size = large + 4};
    assert_refused(f, &f->t.env, HS_DATA_LOSS, "too few for 'va'");
}

static hs_code vast_stat(void *user, const char *path, hs_file_stat *out, hs_error *error)
{
    hs_code code = hs_env_default()->files.ops->stat(NULL, path, out, error);
    (void)user;
    if (!code && strstr(path, ".data-"))
        out->bytes = INT64_MAX;
    return code;
}

/* The file system reports a file that is large enough. In all the variables have 2 to the 65 bytes, so memory is exhausted.
 */
static void a_file_that_is_as_large_as_it_says(void **state)
{
    fixture *f = begin(state);
    hs_env env = f->t.env;
    hs_file_system_ops ops = *env.files.ops;
    const int64_t large = (int64_t)1 << 59;
    ops.stat = vast_stat;
    env.files.ops = &ops;
    vast = (claim){.dtype = HS_FLOAT, .n_dims = 1, .dims = {large}, .size = 4 * large};
    assert_refused(f, &env, HS_DATA_LOSS, "ends at byte 9");
}

/* Reading without a session. */

static void assert_unreadable(const claim *lie)
{
    meter m;
    hs_tensor info;
    char data[8] = "before";
    meter_init(&m, &t.env);
    write_lie("weights", lie);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&m.env, PREFIX, &err);
    assert_non_null(reader);
    meter_reset(&m);
    assert_ok(hs_checkpoint_find(reader, "weights", &info, &err), &err); /* it is there: as large as it says */
    assert_fails(hs_checkpoint_read(reader, "weights", data, info.bytes, &err), lie->code, &err, lie->why);
    assert_fails(hs_checkpoint_read(reader, "weights", NULL, info.bytes, &err), lie->code, &err, lie->why);
    assert_string_equal(data, "before");
    assert_in_range(m.bytes, 0, ENOUGH);
    assert_ok(hs_checkpoint_find(reader, "bias", &info, &err), &err);
    hs_checkpoint_close(reader);
}

static void false_index_entries_cannot_be_read(void **state)
{
    const int64_t large = (int64_t)1 << 40, most = (int64_t)1 << 60;
    const claim lies[] = {
        {"too few for 'weights'", HS_DATA_LOSS, .n_dims = 1, .dims = {large}, .size = 4 * large},
        {"too few for 'weights'", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = 24, .offset = INT64_MAX},
        {"too few for 'weights'", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {large}, .size = 2 * large},
        {"has an invalid shape", HS_DATA_LOSS, .n_dims = 2, .dims = {most, most}, .size = 24},
        {"has an invalid shape", HS_DATA_LOSS, .dtype = HS_STRING, .n_dims = 1, .dims = {most}, .size = INT64_MAX},
        {"has an invalid shape", HS_DATA_LOSS, .n_dims = 1, .dims = {-6}, .size = 24},
        {"need 24", HS_DATA_LOSS, .n_dims = 1, .dims = {6}, .size = INT64_MAX},
    };
    begin(state);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        assert_unreadable(&lies[i]);
    assert_int_equal(t.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_variable_that_lies_makes_way_for_the_older_one),
        with_fixture(a_state_that_lies_makes_way_for_the_older_one),
        with_fixture(an_index_of_a_later_version_is_skipped_and_saved_over),
        with_fixture(sizes_that_overflow_when_added_up),
        with_fixture(strings_that_overflow_when_added_up),
        with_fixture(a_file_that_is_as_large_as_it_says),
        with_fixture(false_index_entries_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
