/* SPDX-License-Identifier: Apache-2.0 */
/* Saving and restoring by the graph's own ops, and the parts of partitioned variables. */
#include "tensorflow/graphs.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>

static const char *const whole_graph = "kinds_whole.meta", *const parted = "kinds_resource.meta";

/* Sessions on a graph of export_checkpoints.py. */

typedef struct {
    hs_backend tf;
    hs_session *session;
    hs_raw_session *raw;
    char *directory;
    char prefix[1024]; /* DIRECTORY/model.ckpt */
} place;

static void open_over(place *p, const char *graph, const hs_tensorflow_options *given, char *directory)
{
    hs_error err = {0};
    hs_tensorflow_options options = given ? *given : (hs_tensorflow_options)HS_INIT(hs_tensorflow_options);
    p->directory = directory;
    snprintf(p->prefix, sizeof p->prefix, "%s/model.ckpt", directory);
    p->tf = hs_tensorflow_open(graph_path(graph), &options, &err);
    assert_ok(err.code, &err);
    p->session = hs_session_open(p->tf, NULL, &err);
    assert_ok(err.code, &err);
    p->raw = hs_session_raw(p->session);
}

static void open_place(place *p, const char *graph, const hs_tensorflow_options *options)
{
    open_over(p, graph, options, make_directory());
}

/* Keeps the directory. */
static void leave_place(place *p)
{
    hs_error err = {0};
    hs_session_close(p->session, &err);
    hs_tensorflow_free(p->tf);
}

static void close_place(place *p)
{
    leave_place(p);
    remove_directory(p->directory);
}

static const hs_tensorflow_options by_graph = HS_INIT(hs_tensorflow_options, .graph_saves = true, .graph_restores = true);

static const hs_bytes two_cpus = {"\x0a\x07\x0a\x03"
                                  "CPU\x10\x02",
                                  9}; /* a ConfigProto with device_count {"CPU": 2} */

/* Saves and restores with the graph's ops on this environment. */
static hs_tensorflow_options by_graph_on(const hs_env *env)
{
    return (hs_tensorflow_options)HS_INIT(hs_tensorflow_options, .env = env, .graph_saves = true, .graph_restores = true);
}

static hs_saver *saver_of(const place *p)
{
    const void *saver = NULL;
    assert_true(hs_backend_collection_item(p->tf, HS_SAVERS, 0, &saver));
    return (hs_saver *)saver;
}

static void save(const place *p, hs_saver *saver, int64_t step)
{
    hs_error err = {0};
    assert_ok(hs_saver_save(saver, p->raw, p->prefix, step, NULL, &err), &err);
}

static const char *path_of(const place *p, const char *ending)
{
    static char paths[4][1200];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s%s", p->prefix, ending);
    return path;
}

static bool exists(const place *p, const char *ending)
{
    struct stat found;
    return stat(path_of(p, ending), &found) == 0;
}

/* Returns the number of names in the directory that contain `part`. */
static size_t count_names(const place *p, const char *part)
{
    DIR *directory = opendir(p->directory);
    size_t n = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        n += strstr(entry->d_name, part) != NULL;
    closedir(directory);
    return n;
}

static size_t index_of(const place *p, const char *name)
{
    hs_variable variable;
    size_t i = 0;
    while (hs_backend_variable(p->tf, i, &variable) && strcmp(variable.name, name) != 0)
        i++;
    assert_true(hs_backend_variable(p->tf, i, &variable));
    return i;
}

static void set_scalar(const place *p, float value)
{
    hs_error err = {0};
    hs_tensor given = hs_tensor_of(HS_FLOAT, HS_SCALAR, &value);
    assert_ok(p->tf.ops->write_variable(hs_raw_session_handle(p->raw), index_of(p, "scalar"), &given, &err), &err);
}

static float first_of(const place *p, const char *name)
{
    hs_error err = {0};
    hs_tensor value;
    assert_ok(p->tf.ops->read_variable(hs_raw_session_handle(p->raw), index_of(p, name), &value, &err), &err);
    return *(const float *)value.data;
}

/* Refused options and graphs. */

static void a_graph_without_fitting_ops_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *graph;
        bool saves, restores;
        const char *says;
    } cases[] = {
        {"no_saver.meta", true, false, "graph_saves: the graph has no SaverDef"},
        {"no_saver.meta", false, true, "graph_restores: the graph has no SaverDef"},
        {"first_format.meta", true, false, "format V1"},
        {"first_format.meta", false, true, "format V1"},
        {"no_filename.meta", true, true, "filename_tensor_name"},
        {"no_save.meta", true, false, "save_tensor_name"},
        {"no_restore.meta", false, true, "restore_op_name"},
        {"ref.meta", true, false, "no SaverDef"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_error err = {0};
        hs_tensorflow_options options =
            HS_INIT(hs_tensorflow_options, .graph_saves = cases[i].saves, .graph_restores = cases[i].restores);
        hs_backend tf = hs_tensorflow_open(graph_path(cases[i].graph), &options, &err);
        assert_says(&err, HS_INVALID_ARGUMENT, cases[i].says);
        hs_tensorflow_free(tf);
    }
}

static void such_graphs_are_fine_without_the_options(void **state)
{
    (void)state;
    const char *const names[] = {"no_saver.meta", "first_format.meta", "no_filename.meta", "no_save.meta",
                                 "no_restore.meta"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        place p;
        open_place(&p, names[i], NULL);
        save(&p, saver_of(&p), 1);
        assert_true(exists(&p, "-1.index"));
        close_place(&p);
    }
}

static void a_slice_outside_of_its_whole_is_damage(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend tf = hs_tensorflow_open(graph_path("outside.meta"), NULL, &err);
    assert_says(&err, HS_DATA_LOSS, "is a slice that does not lie within 'rows'");
    hs_tensorflow_free(tf);
}

/* Saving by the graph. */

static void an_op_that_writes_nothing_is_found_out(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, "wrong_save.meta", &by_graph);
    assert_fails(hs_saver_save(saver_of(&p), p.raw, p.prefix, 1, NULL, &err), HS_NOT_FOUND, &err, "save/Const:0");
    assert_int_equal(count_names(&p, "model.ckpt"), 0);
    close_place(&p);
}

static void saving_again_under_a_name_replaces_it(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, parted, &by_graph);
    for (int i = 0; i < 4; i++) {
        set_scalar(&p, (float)i);
        save(&p, saver_of(&p), 1);
        assert_int_equal(count_names(&p, "model.ckpt-1.data-"), 1);
        assert_int_equal(count_names(&p, "tmp"), 0);
        set_scalar(&p, 77);
        assert_ok(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), &err);
        assert_true(first_of(&p, "scalar") == (float)i);
    }
    close_place(&p);
}

static void values_that_are_not_finite_are_handled_as_by_other_savers(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, parted, &by_graph);
    save(&p, saver_of(&p), 1);
    set_scalar(&p, NAN);
    assert_fails(hs_saver_save(saver_of(&p), p.raw, p.prefix, 2, NULL, &err), HS_FAILED_PRECONDITION, &err,
                 "'scalar' is not finite");
    assert_int_equal(count_names(&p, "model.ckpt-2"), 0);
    assert_true(exists(&p, "-1.index"));
    close_place(&p);
}

static void touch(const place *p, const char *ending)
{
    FILE *file = fopen(path_of(p, ending), "wb");
    assert_non_null(file);
    fclose(file);
}

static void what_a_save_that_was_cut_short_has_left_is_removed(void **state)
{
    (void)state;
    place p;
    open_place(&p, parted, &by_graph);
    assert_int_equal(mkdir(path_of(&p, "-7.tmp-variables"), 0777), 0);
    assert_int_equal(mkdir(path_of(&p, "-7.tmp-variables/variables_temp"), 0777), 0);
    touch(&p, "-7.tmp-variables/variables_temp/part-00000-of-00001.index");
    touch(&p, "-7.tmp-variables/variables.index");
    touch(&p, "-7.tmp-notes");
    assert_null(hs_checkpoint_latest(NULL, p.directory, NULL, NULL));
    save(&p, saver_of(&p), 1);
    assert_int_equal(count_names(&p, "tmp-variables"), 0);
    assert_true(exists(&p, "-7.tmp-notes"));
    close_place(&p);
}

/* Variables of 8-bit floats. */
static void a_type_that_this_library_does_not_know_is_copied(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_tensor info;
    place p;
    const hs_run_args sum = HS_INIT(hs_run_args, .names = HS_NAMES("small_floats/sum:0"));
    const hs_run_values *values;
    open_place(&p, "small_floats.meta", &by_graph);
    save(&p, saver_of(&p), 1);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path_of(&p, "-1"), &err);
    assert_ok(hs_checkpoint_find(reader, "small_floats", &info, &err), &err);
    assert_int_equal(hs_dtype_size(info.dtype), 0);
    assert_int_equal(info.bytes, 2);
    assert_ok(hs_checkpoint_verify(reader, "small_floats", &err), &err);
    hs_checkpoint_close(reader);
    assert_ok(hs_session_run(p.session, "small_floats/double", &err), &err);
    assert_ok(hs_session_run_args(p.session, &sum, &values, &err), &err);
    assert_true(hs_run_values_number(values, 0) == 6);
    assert_ok(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), &err);
    assert_ok(hs_session_run_args(p.session, &sum, &values, &err), &err);
    assert_true(hs_run_values_number(values, 0) == 3);
    close_place(&p);
}

static void a_save_in_the_background_is_made_at_once(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_save_result result;
    place p;
    open_place(&p, parted, &by_graph);
    hs_save_options background = HS_INIT(hs_save_options, .background = true);
    assert_ok(hs_saver_save(saver_of(&p), p.raw, p.prefix, 9, &background, &err), &err);
    assert_true(exists(&p, "-9.index"));
    assert_true(hs_saver_poll(saver_of(&p), NULL, &result));
    assert_int_equal(result.step, 9);
    assert_ok(result.error.code, &result.error);
    close_place(&p);
}

static hs_code save_number(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int), err);
}

static hs_code load_number(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int), err);
}

static void state_is_saved_in_addition_to_the_graphs_tensors(void **state)
{
    (void)state;
    hs_error err = {0};
    int number = 41;
    hs_state_provider provider =
        HS_INIT(hs_state_provider, .name = "number", .save = save_number, .load = load_number, .self = &number);
    place p;
    open_place(&p, parted, &by_graph);
    assert_ok(hs_raw_session_add_state(p.raw, &provider, &err), &err);
    save(&p, saver_of(&p), 1);
    assert_int_equal(count_names(&p, "model.ckpt-1.data-"), 1);
    number = 0;
    assert_ok(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), &err);
    assert_int_equal(number, 41);
    close_place(&p);
}

/* A disk on which one call fails, or all calls from that one on. */

static struct {
    hs_file_system_ops ops;
    const hs_file_system *real;
    int remaining; /* calls that succeed before one fails */
    bool dies;     /* all later calls fail as well */
} disk;

static bool fails(hs_error *err)
{
    if (disk.remaining > 0 || (disk.remaining < 0 && !disk.dies)) {
        disk.remaining--;
        return false;
    }
    disk.remaining--;
    hs_error_set(err, HS_DATA_LOSS, "the disk fails");
    return true;
}

static hs_code failing_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    return fails(err) ? HS_DATA_LOSS : disk.real->ops->open(user, path, mode, file, err);
}

static hs_code failing_sync(void *user, void *file, hs_error *err)
{
    return fails(err) ? HS_DATA_LOSS : disk.real->ops->sync(user, file, err);
}

static hs_code failing_rename(void *user, const char *from, const char *to, hs_error *err)
{
    return fails(err) ? HS_DATA_LOSS : disk.real->ops->rename(user, from, to, err);
}

static hs_code failing_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    return fails(err) ? HS_DATA_LOSS : disk.real->ops->write(user, file, data, bytes, err);
}

static hs_code failing_remove(void *user, const char *path, hs_error *err)
{
    if (disk.dies && disk.remaining <= 0)
        return hs_error_set(err, HS_DATA_LOSS, "the disk fails");
    return disk.real->ops->remove(user, path, err);
}

static void quiet(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level;
    test_check_line(text);
}

static hs_env env_of_failing_disk(bool dies)
{
    disk.real = &hs_env_default()->files;
    disk.ops = *disk.real->ops;
    disk.ops.open = failing_open;
    disk.ops.sync = failing_sync;
    disk.ops.rename = failing_rename;
    disk.ops.write = failing_write;
    disk.ops.remove = failing_remove;
    disk.remaining = INT32_MAX;
    disk.dies = dies;
    return (hs_env)HS_INIT(hs_env, .logger = {quiet, NULL}, .files = {&disk.ops, disk.real->user});
}

static void a_disk_that_fails_leaves_the_one_before(void **state)
{
    (void)state;
    hs_env env = env_of_failing_disk(false);
    place p;
    int calls = 0;
    bool done = false;
    const hs_tensorflow_options options = by_graph_on(&env);
    open_place(&p, parted, &options);
    hs_saver *saver = saver_of(&p);
    save(&p, saver, 1);
    for (; !done; calls++) {
        hs_error err = {0};
        disk.remaining = calls;
        done = hs_saver_save(saver, p.raw, p.prefix, 2, NULL, &err) == HS_OK && disk.remaining >= 0;
        disk.remaining = INT32_MAX;
        hs_error again = {0};
        assert_ok(hs_saver_restore(saver, p.raw, path_of(&p, "-1"), NULL, &again), &again);
        assert_int_equal(count_names(&p, "tmp"), 0);
        assert_true(calls < 200);
    }
    assert_true(calls > 10);
    close_place(&p);
}

/* The files are those of a killed process. The next process restores the newest complete checkpoint, and removes the rest.
 */
static void a_save_that_dies_at_any_call_leaves_a_complete_checkpoint(void **state)
{
    (void)state;
    hs_env env = env_of_failing_disk(true);
    bool done = false;
    int calls = 0;
    for (; !done; calls++) {
        hs_error err = {0};
        place p;
        hs_tensorflow_options options = by_graph_on(&env);
        options.config = two_cpus;
        open_place(&p, "kinds_sharded.meta", &options);
        save(&p, saver_of(&p), 1);
        disk.remaining = calls;
        done = hs_saver_save(saver_of(&p), p.raw, p.prefix, 2, NULL, &err) == HS_OK && disk.remaining > 0;
        leave_place(&p);
        disk.remaining = INT32_MAX;
        open_over(&p, "kinds_sharded.meta", &options, p.directory);
        char *newest = hs_checkpoint_latest(NULL, p.directory, NULL, &err);
        assert_ok(hs_saver_restore(saver_of(&p), p.raw, newest, NULL, &err), &err);
        hs_env_free(NULL, newest);
        save(&p, saver_of(&p), 3);
        assert_int_equal(count_names(&p, "tmp"), 0);
        close_place(&p);
        assert_true(calls < 200);
    }
    assert_true(calls > 10);
}

static struct {
    hs_allocator real;
    int remaining; /* allocations that succeed before one fails */
    int64_t live;  /* blocks */
} memory;

static void *failing_alloc(void *user, size_t bytes)
{
    void *block = memory.remaining-- == 0 ? NULL : memory.real.alloc(user, bytes);
    memory.live += block != NULL;
    return block;
}

static void *failing_realloc(void *user, void *block, size_t bytes)
{
    void *moved = memory.remaining-- == 0 ? NULL : memory.real.realloc(user, block, bytes);
    memory.live += moved && !block;
    return moved;
}

static void counting_free(void *user, void *block)
{
    memory.live -= block != NULL;
    memory.real.free(user, block);
}

/* A disk that returns other bytes than the graph wrote. */

static void *damaged_file; /* of the graph's data */

static hs_code damaging_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    hs_code code = disk.real->ops->open(user, path, mode, file, err);
    damaged_file = !code && strstr(path, ".tmp-variables/variables.data-") ? *file : NULL;
    return code;
}

static hs_code damaging_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    hs_code code = disk.real->ops->read(user, file, offset, data, bytes, got, err);
    for (size_t i = 0; !code && file == damaged_file && i < *got; i++)
        if (((char *)data)[i] == 'x')
            ((char *)data)[i] = 'y';
    return code;
}

static void parts_of_strings_are_verified(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_env env = env_of_failing_disk(false);
    disk.ops.open = damaging_open;
    disk.ops.read = damaging_read;
    place p;
    const hs_tensorflow_options options = by_graph_on(&env);
    open_place(&p, "words_parts.meta", &options);
    assert_fails(hs_saver_save(saver_of(&p), p.raw, p.prefix, 1, NULL, &err), HS_DATA_LOSS, &err,
                 "checksum mismatch of 'words'");
    assert_int_equal(count_names(&p, "model.ckpt"), 0);
    close_place(&p);
}

/* Saves with `allocations` allocations. Returns true if they suffice. In any case, the earlier checkpoint can be restored.
 */
static bool save_with(const place *p, hs_saver *saver, int allocations)
{
    hs_error err = {0};
    memory.remaining = allocations;
    hs_code code = hs_saver_save(saver, p->raw, p->prefix, 2, NULL, &err);
    bool enough = memory.remaining >= 0;
    memory.remaining = -1;
    if (code)
        assert_int_equal(code, HS_RESOURCE_EXHAUSTED);
    if (enough)
        assert_int_equal(code, HS_OK);
    assert_ok(hs_saver_restore(saver, p->raw, path_of(p, "-1"), NULL, &err), &err);
    return enough;
}

static void memory_that_is_short_is_an_error(void **state)
{
    (void)state;
    memory.real = hs_env_default()->allocator;
    memory.remaining = -1;
    hs_env env = HS_INIT(hs_env, .allocator = {failing_alloc, failing_realloc, counting_free, memory.real.user});
    place p;
    const hs_tensorflow_options options = by_graph_on(&env);
    open_place(&p, parted, &options);
    save(&p, saver_of(&p), 1);
    int n = 0;
    while (!save_with(&p, saver_of(&p), n))
        n++;
    assert_true(n > 100);
    close_place(&p);
    assert_int_equal(memory.live, 0);
}

/* Restoring by the graph. */

static void damage(const place *p, const char *ending)
{
    FILE *file = fopen(path_of(p, ending), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void a_damaged_one_is_not_given_to_the_graph(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, parted, &by_graph);
    save(&p, saver_of(&p), 1);
    set_scalar(&p, 5);
    damage(&p, "-1.data-00000-of-00001");
    assert_fails(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), HS_DATA_LOSS, &err, "");
    assert_true(first_of(&p, "scalar") == 5);
    close_place(&p);
}

static void other_shapes_are_reported_before_the_graph_runs(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, parted, &by_graph);
    hs_saver *mixed = hs_saver_new(
        HS_SAVER_OPTIONS(.names = HS_CHECKPOINT_NAMES({"scalar", "elsewhere"}, {"elsewhere", "scalar"})), &err);
    save(&p, mixed, 1);
    assert_fails(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), HS_INVALID_ARGUMENT, &err,
                 "2 different");
    hs_saver_free(mixed);
    close_place(&p);
}

static void what_the_op_misses_is_its_error(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, parted, &by_graph);
    hs_saver *few = hs_saver_new(HS_SAVER_OPTIONS(.variables = HS_NAMES("scalar", "global_step")), &err);
    save(&p, few, 1);
    assert_fails(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), HS_NOT_FOUND, &err,
                 "the graph's restore op 'save/restore_all' failed");
    hs_saver_free(few);
    close_place(&p);
}

/* TensorFlow's InvalidArgument does not mean that nothing was changed, as it does in hs_saver_options.restore_variables. */
static void an_op_that_fails_may_have_changed_the_model(void **state)
{
    (void)state;
    hs_error err = {0}, refusal = {0};
    place p;
    open_place(&p, "failing_restore.meta", &by_graph);
    set_scalar(&p, 2);
    save(&p, saver_of(&p), 1);
    set_scalar(&p, 5);
    assert_fails(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), HS_FAILED_PRECONDITION, &err,
                 "the graph's restore op 'fails' failed");
    assert_non_null(strstr(err.message, "partly restored"));
    assert_true(first_of(&p, "scalar") == 2);
    assert_int_equal(hs_raw_session_save_refusal(p.raw, &refusal), HS_FAILED_PRECONDITION);
    close_place(&p);
}

static void a_path_that_is_a_pattern_is_not_given_to_the_graph(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, parted, &by_graph);
    snprintf(p.prefix, sizeof p.prefix, "%s/model[1]", p.directory);
    save(&p, saver_of(&p), 1);
    assert_fails(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), HS_INVALID_ARGUMENT, &err,
                 "as a pattern");
    hs_error refusal = {0};
    assert_ok(hs_raw_session_save_refusal(p.raw, &refusal), &refusal);
    hs_saver *own = hs_saver_new(NULL, NULL);
    assert_ok(hs_saver_restore(own, p.raw, path_of(&p, "-1"), NULL, &err), &err);
    hs_saver_free(own);
    close_place(&p);
}

static void a_restore_of_a_part_is_made_one_by_one(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, parted, &by_graph);
    set_scalar(&p, 3);
    save(&p, saver_of(&p), 1);
    set_scalar(&p, 4);
    hs_restore_options skip = HS_INIT(hs_restore_options, .skip = HS_NAMES("scalar"));
    assert_ok(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), &skip, &err), &err);
    assert_true(first_of(&p, "scalar") == 4);
    assert_ok(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), &err);
    assert_true(first_of(&p, "scalar") == 3);
    close_place(&p);
}

/* Sessions that recover, and that restore the newest checkpoint. */

static hs_code fail_once(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    int *failures = self;
    (void)args;
    if (hs_run_context_global_step(run, err) != 5 || *failures)
        return err->code;
    ++*failures;
    return hs_error_set(err, HS_ABORTED, "a worker was lost");
}

static int64_t train(hs_backend tf, const char *directory, int64_t steps, int *failures)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "fails once", .before_run = fail_once);
    hs_error err = {0};
    hs_hook hooks[] = {hs_stop_at_step(.last_step = steps), {.ops = &ops, .self = failures}, {.ops = NULL}};
    hs_session *session =
        hs_training_session_open(tf,
                                 HS_TRAINING_OPTIONS(.hooks = hooks, .checkpoint_dir = directory,
                                                     .save_checkpoint_steps = 2, .log_step_count_steps = HS_NEVER),
                                 &err);
    assert_ok(err.code, &err);
    int64_t begun = hs_session_global_step(session, NULL);
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train_op", &err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(hs_outcome_exit_code(&outcome), 0);
    assert_int_equal(outcome.step, steps);
    assert_int_equal(outcome.last_saved_step, steps);
    return begun;
}

static void a_session_recovers_by_the_graphs_ops(void **state)
{
    (void)state;
    int failures = 0;
    hs_error err = {0};
    place p;
    char *directory = make_directory();
    hs_backend tf = hs_tensorflow_open(graph_path("kinds_ref.meta"), &by_graph, &err);
    assert_ok(err.code, &err);
    assert_int_equal(train(tf, directory, 8, &failures), 0);
    assert_int_equal(failures, 1);
    hs_tensorflow_free(tf);
    open_over(&p, "kinds_ref.meta", &by_graph, directory);
    assert_ok(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-8"), NULL, &err), &err);
    assert_true(first_of(&p, "scalar") == 8.5F); /* each step counted once */
    close_place(&p);
}

static void a_session_skips_a_damaged_checkpoint(void **state)
{
    (void)state;
    int failures = 1;
    hs_error err = {0};
    place p = {.directory = make_directory()};
    snprintf(p.prefix, sizeof p.prefix, "%s/model.ckpt", p.directory);
    hs_backend tf = hs_tensorflow_open(graph_path(parted), &by_graph, &err);
    assert_ok(err.code, &err);
    assert_int_equal(train(tf, p.directory, 6, &failures), 0);
    damage(&p, "-6.data-00000-of-00001");
    assert_int_equal(train(tf, p.directory, 9, &failures), 4);
    hs_tensorflow_free(tf);
    remove_directory(p.directory);
}

/* Partitioned variables. */

static void the_parts_of_a_variable_are_slices(void **state)
{
    (void)state;
    place p;
    hs_variable_slice slice;
    open_place(&p, parted, NULL);
    assert_true(p.tf.ops->variable_slice(p.tf.self, index_of(&p, "rows/part_1"), &slice));
    assert_string_equal(slice.name, "rows");
    assert_int_equal(slice.shape.rank, 2);
    assert_int_equal(slice.shape.dims[0], 7);
    assert_int_equal(slice.starts[0], 3);
    assert_int_equal(slice.starts[1], 0);
    assert_false(p.tf.ops->variable_slice(p.tf.self, index_of(&p, "scalar"), &slice));
    assert_false(p.tf.ops->variable_slice(p.tf.self, 1000, &slice));
    close_place(&p);
}

static void parts_are_slices_of_one_tensor(void **state)
{
    (void)state;
    for (int64_t shards = 1; shards <= 3; shards++) {
        hs_error err = {0};
        hs_tensor info;
        float rows[7][4];
        place p;
        open_place(&p, parted, NULL);
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.shards = shards), &err);
        save(&p, saver, 1);
        hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path_of(&p, "-1"), &err);
        assert_ok(err.code, &err);
        assert_ok(hs_checkpoint_find(reader, "rows", &info, &err), &err);
        assert_int_equal(info.dims[0], 7);
        assert_ok(hs_checkpoint_read(reader, "rows", rows, sizeof rows, &err), &err);
        for (int i = 0; i < 28; i++)
            assert_true(rows[i / 4][i % 4] == (float)(100 + i));
        assert_int_equal(hs_checkpoint_find(reader, "rows/part_0", &info, NULL), HS_NOT_FOUND);
        hs_checkpoint_close(reader);
        hs_saver_free(saver);
        close_place(&p);
    }
}

static void the_whole_may_be_called_otherwise(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_tensor info;
    place p;
    open_place(&p, parted, NULL);
    hs_saver *saver =
        hs_saver_new(HS_SAVER_OPTIONS(.names = HS_CHECKPOINT_NAMES({"rows/part_0", "lines"}, {"rows/part_1", "lines"},
                                                                   {"rows/part_2", "lines"})),
                     &err);
    save(&p, saver, 1);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path_of(&p, "-1"), &err);
    assert_ok(hs_checkpoint_find(reader, "lines", &info, &err), &err);
    assert_int_equal(hs_checkpoint_find(reader, "rows", &info, NULL), HS_NOT_FOUND);
    hs_checkpoint_close(reader);
    assert_ok(hs_saver_restore(saver, p.raw, path_of(&p, "-1"), NULL, &err), &err);
    hs_restore_options names =
        HS_INIT(hs_restore_options,
                .names = HS_CHECKPOINT_NAMES({"rows/part_0", "lines"}, {"rows/part_1", "lines"}, {"rows/part_2", "lines"}));
    assert_ok(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), &names, &err), &err);
    assert_fails(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), HS_NOT_FOUND, &err,
                 "'rows' is missing");
    hs_saver_free(saver);
    close_place(&p);
}

static void a_whole_is_not_saved_in_part(void **state)
{
    (void)state;
    const hs_saver_options cases[] = {
        HS_INIT(hs_saver_options, .variables = HS_NAMES("rows/part_0", "rows/part_2", "scalar")),
        HS_INIT(hs_saver_options, .names = HS_CHECKPOINT_NAMES({"rows/part_1", "lines"})),
    };
    place p;
    open_place(&p, parted, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_error err = {0};
        hs_saver *saver = hs_saver_new(&cases[i], &err);
        assert_ok(err.code, &err);
        assert_fails(hs_saver_save(saver, p.raw, p.prefix, 1, NULL, &err), HS_INVALID_ARGUMENT, &err,
                     "is partitioned, and some of its parts are not saved");
        assert_int_equal(count_names(&p, "model.ckpt"), 0);
        hs_saver_free(saver);
    }
    close_place(&p);
}

static void variables_too_large_to_count_are_not_read_ahead(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_tensor value;
    void *session = NULL;
    hs_backend tf = hs_tensorflow_open(graph_path("huge.meta"), NULL, &err);
    assert_ok(err.code, &err);
    assert_ok(tf.ops->open(tf.self, NULL, (hs_bytes){NULL, 0}, &session, &err), &err);
    for (size_t i = 0; i < 2; i++)
        assert_fails(tf.ops->read_variable(session, i, &value, &err), HS_FAILED_PRECONDITION, &err, "huge");
    assert_ok(tf.ops->close(session, &err), &err);
    hs_tensorflow_free(tf);
}

static void a_whole_tensor_of_another_shape_is_reported(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, parted, NULL);
    hs_saver *mixed =
        hs_saver_new(HS_SAVER_OPTIONS(.names = HS_CHECKPOINT_NAMES({"rows/part_0", "columns"}, {"rows/part_1", "columns"},
                                                                   {"rows/part_2", "columns"}, {"columns/part_0", "rows"},
                                                                   {"columns/part_1", "rows"}, {"columns/part_2", "rows"})),
                     &err);
    save(&p, mixed, 1);
    assert_fails(hs_saver_restore(saver_of(&p), p.raw, path_of(&p, "-1"), NULL, &err), HS_INVALID_ARGUMENT, &err,
                 "(0 missing, 2 different): 'rows' is float [4,6] in the checkpoint, but float [7,4] in the model; "
                 "'columns' is float");
    hs_saver_free(mixed);
    close_place(&p);
}

/* safetensors has no slices: each part is a separate tensor, and a whole tensor is divided. */
static void parts_come_from_other_files_too(void **state)
{
    (void)state;
    hs_error err = {0};
    place p, q;
    open_place(&p, whole_graph, NULL);
    open_place(&q, parted, NULL);
    hs_restore_options some = HS_INIT(hs_restore_options, .allow_missing = true);
    hs_safetensors_options only = HS_INIT(hs_safetensors_options, .variables = HS_NAMES("rows", "columns", "scalar"));
    assert_ok(hs_session_run(p.session, "train_op", &err), &err);
    assert_ok(hs_safetensors_save(p.raw, path_of(&p, ".safetensors"), &only, &err), &err);
    assert_ok(hs_safetensors_load(q.raw, path_of(&p, ".safetensors"), &some, &err), &err);
    assert_true(first_of(&q, "rows/part_2") == first_of(&p, "rows") + 20);
    assert_true(first_of(&q, "columns/part_1") == first_of(&p, "columns") + 2);
    hs_safetensors_options parts =
        HS_INIT(hs_safetensors_options, .variables = HS_NAMES("rows/part_0", "rows/part_1", "rows/part_2"));
    assert_ok(hs_safetensors_save(q.raw, path_of(&q, ".safetensors"), &parts, &err), &err);
    assert_ok(hs_session_run(q.session, "train_op", &err), &err);
    assert_ok(hs_safetensors_load(q.raw, path_of(&q, ".safetensors"), &some, &err), &err);
    assert_true(first_of(&q, "rows/part_2") == first_of(&p, "rows") + 20);
    close_place(&p);
    close_place(&q);
}

/* Meta graphs. */

static void only_some_backends_have_a_meta_graph(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_bytes meta;
    place p;
    open_place(&p, parted, NULL);
    assert_ok(p.tf.ops->meta_graph(p.tf.self, &meta, &err), &err);
    assert_true(meta.size > 0);
    close_place(&p);
    hs_graph *graph = hs_graph_new(NULL);
    assert_true(!hs_graph_backend(graph).ops->meta_graph);
    hs_graph_free(graph);
    hs_backend failed = hs_tensorflow_open(graph_path("words.meta"), NULL, &err);
    assert_fails(hs_backend_export_meta_graph(failed, NULL, &meta, &err), HS_INVALID_ARGUMENT, &err, "");
    hs_tensorflow_free(failed);
}

static bool has_text(hs_bytes bytes, const char *text)
{
    const char *at = bytes.data;
    for (size_t rest = bytes.size; rest >= strlen(text); rest--, at++)
        if (memcmp(at, text, strlen(text)) == 0)
            return true;
    return false;
}

static void variables_without_initializer_are_not_in_the_meta_graph(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_bytes meta;
    hs_backend tf = hs_tensorflow_open(graph_path("huge.meta"), NULL, &err);
    assert_ok(tf.ops->meta_graph(tf.self, &meta, &err), &err);
    assert_true(has_text(meta, "variables"));
    assert_false(has_text(meta, "huge"));
    hs_tensorflow_free(tf);
}

static void variables_of_unknown_types_are_initialized(void **state)
{
    (void)state;
    hs_error err = {0};
    place p;
    open_place(&p, "small_floats.meta", NULL);
    assert_ok(hs_session_run(p.session, "small_floats/sum", &err), &err);
    assert_ok(hs_session_run(p.session, "small_floats_local/sum", &err), &err);
    close_place(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_without_fitting_ops_is_refused),
        cmocka_unit_test(such_graphs_are_fine_without_the_options),
        cmocka_unit_test(a_slice_outside_of_its_whole_is_damage),
        cmocka_unit_test(an_op_that_writes_nothing_is_found_out),
        cmocka_unit_test(saving_again_under_a_name_replaces_it),
        cmocka_unit_test(values_that_are_not_finite_are_handled_as_by_other_savers),
        cmocka_unit_test(what_a_save_that_was_cut_short_has_left_is_removed),
        cmocka_unit_test(a_type_that_this_library_does_not_know_is_copied),
        cmocka_unit_test(a_save_in_the_background_is_made_at_once),
        cmocka_unit_test(state_is_saved_in_addition_to_the_graphs_tensors),
        cmocka_unit_test(a_disk_that_fails_leaves_the_one_before),
        cmocka_unit_test(a_save_that_dies_at_any_call_leaves_a_complete_checkpoint),
        cmocka_unit_test(parts_of_strings_are_verified),
        cmocka_unit_test(memory_that_is_short_is_an_error),
        cmocka_unit_test(a_damaged_one_is_not_given_to_the_graph),
        cmocka_unit_test(other_shapes_are_reported_before_the_graph_runs),
        cmocka_unit_test(what_the_op_misses_is_its_error),
        cmocka_unit_test(an_op_that_fails_may_have_changed_the_model),
        cmocka_unit_test(a_path_that_is_a_pattern_is_not_given_to_the_graph),
        cmocka_unit_test(a_restore_of_a_part_is_made_one_by_one),
        cmocka_unit_test(a_session_recovers_by_the_graphs_ops),
        cmocka_unit_test(a_session_skips_a_damaged_checkpoint),
        cmocka_unit_test(the_parts_of_a_variable_are_slices),
        cmocka_unit_test(parts_are_slices_of_one_tensor),
        cmocka_unit_test(the_whole_may_be_called_otherwise),
        cmocka_unit_test(a_whole_is_not_saved_in_part),
        cmocka_unit_test(variables_too_large_to_count_are_not_read_ahead),
        cmocka_unit_test(a_whole_tensor_of_another_shape_is_reported),
        cmocka_unit_test(parts_come_from_other_files_too),
        cmocka_unit_test(only_some_backends_have_a_meta_graph),
        cmocka_unit_test(variables_without_initializer_are_not_in_the_meta_graph),
        cmocka_unit_test(variables_of_unknown_types_are_initialized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
