/* SPDX-License-Identifier: Apache-2.0 */
/* Another user may be able to write to the directory of a training. With thousands of planted files, or of lines in the
 * state file, the work of a training grows as their number does. */
#include "checkpoint/model.h"

#include <time.h>

/* A file system that also has n planted files without contents. Their names begin and end with these texts, with a number
 * of five digits between them. They are not on the disk, so that the disk does not determine the time. It counts calls, and
 * the names that a list visits. */
typedef struct {
    const char *begin, *end; /* begin NULL: there are none */
} file_names;

enum { FIRST = 100 }; /* number */

static struct {
    hs_file_system under;
    char *empty; /* path of an empty file */
    file_names names;
    size_t n;
    bool *removed;
    size_t work;
    size_t index_opens; /* of model.ckpt-2 */
} planted;

/* The index of a planted file. planted.n: another file, or it is removed. */
static size_t find(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = planted.names.begin ? strlen(planted.names.begin) : 0;
    char *end;
    planted.work++;
    if (!length || strncmp(name, planted.names.begin, length) != 0)
        return planted.n;
    long long i = strtoll(name + length, &end, 10) - FIRST;
    bool is_planted = i >= 0 && (size_t)i < planted.n && strcmp(end, planted.names.end) == 0;
    return is_planted && !planted.removed[i] ? (size_t)i : planted.n;
}

static hs_code p_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    planted.index_opens += mode == HS_OPEN_READ && strstr(path, "/model.ckpt-2.index") != NULL;
    return planted.under.ops->open(user, find(path) < planted.n ? planted.empty : path, mode, file, err);
}

static hs_code p_stat(void *user, const char *path, hs_file_stat *out, hs_error *err)
{
    if (find(path) == planted.n)
        return planted.under.ops->stat(user, path, out, err);
    *out = (hs_file_stat){.bytes = 0};
    return HS_OK;
}

static hs_code p_remove(void *user, const char *path, hs_error *err)
{
    size_t i = find(path);
    if (i == planted.n)
        return planted.under.ops->remove(user, path, err);
    planted.removed[i] = true;
    return HS_OK;
}

static hs_code p_rename(void *user, const char *from, const char *to, hs_error *err)
{
    size_t i = find(from);
    if (i == planted.n)
        return planted.under.ops->rename(user, from, to, err);
    planted.removed[i] = true;
    return HS_OK;
}

typedef struct {
    int (*visit)(void *visitor, const char *name);
    void *visitor;
} listing;

static int p_visit(void *user, const char *name)
{
    const listing *l = user;
    planted.work++;
    return l->visit(l->visitor, name);
}

static hs_code p_list(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor,
                      hs_error *err)
{
    listing counted = {visit, visitor};
    char name[128];
    hs_code code = planted.under.ops->list(user, path, p_visit, &counted, err);
    for (size_t i = 0; !code && planted.names.begin && i < planted.n; i++) {
        snprintf(name, sizeof name, "%s%05zu%s", planted.names.begin, FIRST + i, planted.names.end);
        if (!planted.removed[i] && p_visit(&counted, name))
            break;
    }
    return code;
}

/* A training in a directory that has the checkpoints of steps 0 to 2. */

typedef struct {
    test_env t;
    hs_env env;
    hs_file_system_ops ops;
    char *directory;
} place;

static void train(place *p, int steps)
{
    model m = {.step = 0};
    hs_error err = {0};
    model_build(&m, &p->env);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->env, .keep_best = 2), &err);
    assert_non_null(saver);
    hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = p->directory, .saver = saver, .every_n_steps = 1);
    hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = p->directory, .hooks = HS_HOOKS(hook));
    m.session = hs_session_open(hs_graph_backend(m.graph), &options, &err);
    assert_ok(err.code, &err);
    assert_ok(model_train(&m, steps), &m.err);
    model_close(&m);
    hs_saver_free(saver);
}

static void begin(place *p)
{
    test_env_init(&p->t);
    p->directory = test_make_directory();
    memset(&planted, 0, sizeof planted);
    planted.under = p->t.env.files;
    planted.empty = strdup(test_path(p->directory, "empty"));
    assert_non_null(planted.empty);
    test_write_file(planted.empty, "", 0);
    p->ops = *planted.under.ops;
    p->ops.open = p_open, p->ops.stat = p_stat, p->ops.remove = p_remove, p->ops.rename = p_rename, p->ops.list = p_list;
    p->env = p->t.env;
    p->env.files.ops = &p->ops;
    train(p, 2);
}

static void end(place *p)
{
    free(planted.removed);
    free(planted.empty);
    test_remove_directory(p->directory);
    assert_int_equal(p->t.live, 0);
}

typedef struct {
    const char *what;
    file_names files;
    const char *path;        /* the state file has such a path for each, which ends with its number. NULL: none */
    const char *comments[2]; /* likewise */
    bool edited;             /* the state file looks as if it was edited */
} kind;

static void plant(const place *p, const kind *k, size_t n)
{
    planted.names = k->files;
    planted.n = n;
    planted.removed = calloc(n + 1, sizeof *planted.removed);
    FILE *file = fopen(test_path(p->directory, "checkpoint"), "w");
    assert_true(file && planted.removed);
    fputs("model_checkpoint_path: \"model.ckpt-2\"\n", file);
    for (size_t i = 0; k->path && i < n; i++)
        fprintf(file, "all_model_checkpoint_paths: \"%s%05zu\"\n", k->path, FIRST + i);
    fputs("all_model_checkpoint_paths: \"model.ckpt-2\"\n", file);
    if (!k->edited)
        fputs("# last saved: model.ckpt-2\n", file);
    for (size_t c = 0; c < 2 && k->comments[c]; c++)
        for (size_t i = 0; i < n; i++)
            fprintf(file, "# %s%05zu\n", k->comments[c], FIRST + i);
    assert_int_equal(fclose(file), 0);
    planted.work = planted.index_opens = 0;
}

static double processor_secs(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct {
    size_t work;
    double secs;
} cost;

/* Of a training that restores and saves one step, with n planted files or lines. */
static cost measure(const kind *k, size_t n)
{
    place p;
    begin(&p);
    plant(&p, k, n);
    const double before = processor_secs();
    train(&p, 1);
    cost of = {planted.work, processor_secs() - before};
    assert_true(test_exists(p.directory, "model.ckpt-3.index"));
    end(&p);
    return of;
}

/* On a busy machine, one measurement of time may be wrong. */
static double least_secs(const kind *k, size_t n, double secs)
{
    enum { RUNS = 4 };
    for (int run = 0; run < RUNS; run++) {
        double again = measure(k, n).secs;
        secs = again < secs ? again : secs;
    }
    return secs;
}

/* For four times as many, a linear algorithm needs four times the time, a quadratic one sixteen times. */
static void planted_files_and_lines_cost_as_many_times_more_as_there_are(void **state)
{
    enum { FEW = 5000, MANY = 4 * FEW };
    static const kind kinds[] = {
        {"other checkpoints", .files = {"x-", ".index"}},
        {"checkpoints that look saved later", .files = {"model.ckpt-", ".index"}},
        {"checkpoints of a later branch", .files = {"model.ckpt-", ".index"}, .edited = true},
        {"data files without an index", .files = {"model.ckpt-", ".data-00000-of-00001"}},
        {"paths", .path = "x-"},
        {"kept checkpoints", .files = {"x-", ".index"}, .path = "x-"},
        {"kept checkpoints with metrics", .files = {"x-", ".index"}, .path = "x-",
         .comments = {"metric: 3fe0000000000000 x-"}},
        {"pinned checkpoints", .files = {"x-", ".index"}, .path = "x-", .comments = {"pinned: x-"}},
        {"pins and metrics", .path = "x-", .comments = {"pinned: x-", "metric: 3fe0000000000000 x-"}},
        {"checkpoints to be deleted", .files = {"x-", ".index"}, .comments = {"to be deleted: x-"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const kind *k = &kinds[i];
        const size_t none = measure(k, 0).work;
        cost few = measure(k, FEW), many = measure(k, MANY);
        if (many.secs > 10 * few.secs) {
            few.secs = least_secs(k, FEW, few.secs);
            many.secs = least_secs(k, MANY, many.secs);
        }
        if (many.work - none > 5 * (few.work - none) || many.secs > 10 * few.secs)
            fail_msg("%s: %d cost %zu calls and %g s, %d cost %zu calls and %g s", k->what, FEW, few.work - none, few.secs,
                     MANY, many.work - none, many.secs);
    }
}

/* Each may be left by a save that was to replace the checkpoint. */
static void an_index_is_read_once_for_all_data_files(void **state)
{
    enum { N = 1000 };
    static const kind data = {"data files", .files = {"model.ckpt-2.data-00000-of-", ""}};
    place p;
    size_t opens = 0;
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&p);
        plant(&p, &data, i ? N : 0);
        train(&p, 1);
        opens = i ? opens : planted.index_opens;
        assert_int_equal(planted.index_opens, opens);
        for (size_t k = 0; k < planted.n; k++)
            assert_true(planted.removed[k]);
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_files_and_lines_cost_as_many_times_more_as_there_are),
        cmocka_unit_test(an_index_is_read_once_for_all_data_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
