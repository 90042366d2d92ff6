/* SPDX-License-Identifier: Apache-2.0 */
/* Other users may be able to write to the directory of a training. Whatever file they create under a name that the
 * training writes, no file outside the directory changes, nothing hangs, and the training ends normally or with an error
 * that names the file. The names are recorded from a training in an empty directory. */
#define _XOPEN_SOURCE 700 /* mkfifo, lstat */
#include "hooks/poisoned.h"

#include <hooksess/training_session.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_NAMES = 200, NAME = 128, HANGS_SECS = 120 };

/* The names, relative to the directory. */

typedef struct {
    char items[MOST_NAMES][NAME];
    bool is_directory[MOST_NAMES];
    size_t n;
} name_list;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static name_list *seen;                                /* NULL: names are not recorded */
static char *directory;                                /* of the training. Its own name is hostile, too */
static const hs_file_system_ops *under;                /* the file system below the spy */
static char planted[NAME + 64] = "an empty directory"; /* for messages */

static bool has_name(const name_list *names, const char *name)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

static void add_name(name_list *names, const char *name, bool is_directory)
{
    if (has_name(names, name))
        return;
    assert_true(names->n < MOST_NAMES && strlen(name) < NAME);
    names->is_directory[names->n] = is_directory;
    snprintf(names->items[names->n++], NAME, "%s", name);
}

static void note(const char *path, bool is_directory)
{
    size_t length = strlen(directory);
    if (strncmp(path, directory, length) != 0 || path[length] != '/')
        return;
    pthread_mutex_lock(&lock);
    if (seen)
        add_name(seen, path + length + 1, is_directory);
    pthread_mutex_unlock(&lock);
}

static hs_code spy_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    if (mode != HS_OPEN_READ)
        note(path, false);
    return under->open(user, path, mode, file, err);
}

static hs_code spy_rename(void *user, const char *from, const char *to, hs_error *err)
{
    note(to, false);
    return under->rename(user, from, to, err);
}

static hs_code spy_make_directory(void *user, const char *path, hs_error *err)
{
    note(path, true);
    return under->make_directory(user, path, err);
}

static hs_code spy_lock(void *user, const char *path, void **held, hs_error *err)
{
    note(path, false);
    return under->lock(user, path, held, err);
}

static hs_env spying_env(const hs_env *env)
{
    static hs_file_system_ops spy;
    hs_env spied = *env;
    under = env->files.ops;
    spy = *under;
    spy.open = spy_open;
    spy.rename = spy_rename;
    spy.make_directory = spy_make_directory;
    spy.lock = spy_lock;
    spied.files.ops = &spy;
    return spied;
}

/* The training: two sessions with every hook that writes files, and files that the program writes itself. */

static const char *in(const char *name)
{
    return test_path(directory, name);
}

static bool is_taken(const char *name)
{
    struct stat found;
    return lstat(in(name), &found) == 0;
}

static void put_unless_taken(const char *name, const char *text)
{
    if (is_taken(name))
        return;
    test_write_file(in(name), text, strlen(text));
    assert_int_equal(chmod(in(name), 0600), 0);
}

/* Adds a row after the last checkpoint, so that the file is truncated. */
static void add_row(const char *name)
{
    struct stat found;
    if (lstat(in(name), &found) != 0 || !S_ISREG(found.st_mode) || found.st_nlink > 1)
        return;
    FILE *file = fopen(in(name), "a");
    assert_non_null(file);
    fputs("99,9\n", file);
    fclose(file);
}

static hs_code open_session(poisoned *p, hs_scaffold *scaffold)
{
    const hs_hook hooks[] = {hs_watchdog(.heartbeat = in("heartbeat.json")),
                             hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_ROLLBACK,
                                             .skip_op = "draw", .dump_dir = in("dumps")),
                             hs_control(.path = in("control")),
                             hs_metrics_file(.path = in("metrics/metrics.csv"), .tensors = HS_NAMES("weight"),
                                             .every_n_steps = 1, .no_wall_time = true),
                             hs_evaluation(.metrics = HS_NAMES("weight"), .every_n_steps = 2, .summary_dir = in("eval")),
                             hs_profiler(.every_n_steps = 2, .trace_dir = in("profile")),
                             {.ops = NULL}};
    hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = directory, .scaffold = scaffold, .save_checkpoint_steps = 2,
                .save_summaries_steps = 1, .log_step_count_steps = 1, .hooks = hooks);
    p->s->session = hs_training_session_open(hs_graph_backend(p->graph), &options, &p->s->err);
    return p->s->session ? HS_OK : p->s->err.code;
}

static hs_code close_session(poisoned *p, hs_code code)
{
    hs_error err = {0};
    if (p->s->session)
        p->s->outcome = hs_session_close(p->s->session, &err);
    p->s->session = NULL;
    if (!code && err.code)
        p->s->err = err;
    return code ? code : err.code;
}

/* Saves in shards, in the background, and of a state that is not finite. */
static hs_code save_by_itself(poisoned *p, const hs_env *env, hs_raw_session *raw)
{
    hs_error *err = &p->s->err;
    float weight = p->weight;
    hs_save_result result;
    hs_saver_options options = HS_INIT(hs_saver_options, .env = env, .shards = 2);
    hs_saver *saver = hs_saver_new(&options, err);
    hs_save_options background = HS_INIT(hs_save_options, .state_file = "newest", .background = true);
    hs_code code = saver ? hs_saver_save(saver, raw, in("sharded/own"), 1, &background, err) : err->code;
    hs_saver_wait(saver);
    if (!code && hs_saver_poll(saver, NULL, &result))
        code = (*err = result.error).code;
    p->weight = NAN;
    if (!code && (code = hs_saver_save(saver, raw, in("sharded/own"), 2, NULL, err)) == HS_FAILED_PRECONDITION &&
        strstr(err->message, "finite"))
        code = HS_OK;
    p->weight = weight;
    if (!code)
        code = hs_saver_save(saver, raw, in("sharded/own"), 1, NULL, err);
    hs_saver_free(saver);
    return code;
}

static hs_code write_files(poisoned *p, const hs_env *env)
{
    hs_raw_session *raw = hs_session_raw(p->s->session);
    hs_error *err = &p->s->err;
    char from[1024];
    hs_code code = save_by_itself(p, env, raw);
    if (!code)
        code = hs_safetensors_save(raw, in("weights.safetensors"), NULL, err);
    if (!code)
        code = hs_backend_write_graph(hs_graph_backend(p->graph), directory, "graph.pb", false, err);
    snprintf(from, sizeof from, "%s", in("weights.safetensors"));
    if (!code)
        code = hs_checkpoint_convert(env, from, in("converted"), NULL, err);
    return code;
}

static hs_code go_back(poisoned *p, hs_scaffold *scaffold)
{
    hs_saver *saver = hs_scaffold_fields(scaffold)->saver;
    char earliest[1024];
    snprintf(earliest, sizeof earliest, "%s", hs_saver_checkpoint(saver, 0));
    return hs_saver_restore(saver, hs_session_raw(p->s->session), earliest, NULL, &p->s->err);
}

static hs_code train_once(poisoned *p, const hs_env *env, hs_scaffold *scaffold, bool is_first)
{
    hs_code code = open_session(p, scaffold);
    if (!code)
        code = poisoned_run(p, "train", 3);
    if (!code && !is_first && !(code = write_files(p, env)) && !(code = go_back(p, scaffold)))
        code = poisoned_run(p, "train", 2);
    return close_session(p, code);
}

static hs_code train(poisoned *p, const hs_env *env)
{
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.env = env), &p->s->err);
    hs_code code = scaffold ? HS_OK : p->s->err.code;
    for (int i = 0; !code && i < 2; i++) {
        code = train_once(p, env, scaffold, i == 0);
        add_row("metrics/metrics.csv");
        put_unless_taken("control", "save\n");
    }
    hs_scaffold_free(scaffold);
    return code;
}

/* Planted files. */

typedef enum { LINK, DANGLING_LINK, LINK_TO_DIRECTORY, HARD_LINK, FIFO, DIRECTORY, KINDS } kind;
static const char *const kind_names[] = {"a link to a file", "a link to nothing", "a link to a directory", "a hard link",
                                         "a FIFO",           "a directory"};

static void make_parents(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", in(name));
    for (char *at = path + strlen(directory) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0777);
        *at = '/';
    }
}

static void plant(kind what, const char *name, const char *elsewhere)
{
    char target[1024], at[1024];
    static const char *const targets[] = {"victim", "nowhere", "somewhere", "victim"};
    make_parents(name);
    snprintf(at, sizeof at, "%s", in(name));
    snprintf(target, sizeof target, "%s", what < FIFO ? test_path(elsewhere, targets[what]) : "");
    int result = what == FIFO        ? mkfifo(at, 0666)
                 : what == DIRECTORY ? mkdir(at, 0777)
                 : what == HARD_LINK ? link(target, at)
                                     : symlink(target, at);
    assert_int_equal(result, 0);
}

static void assert_text(const char *path, const char *expected)
{
    char *text = test_read_file(path, NULL);
    if (!text || strcmp(text, expected) != 0)
        fail_msg("with %s: '%s' instead of '%s' in %s", planted, text ? text : "nothing", expected, path);
    free(text);
}

static void assert_untouched(const char *elsewhere, bool was_directory)
{
    assert_text(test_path(elsewhere, "victim"), "mine");
    assert_text(test_path(elsewhere, "somewhere/inner"), "mine");
    if (test_exists(elsewhere, "nowhere") ||
        (!was_directory && test_count_files(test_path(elsewhere, "somewhere"), "") != 3))
        fail_msg("with %s: there are new files elsewhere", planted);
}

/* One training. */

typedef struct {
    const char *name; /* of the planted file. NULL: none */
    kind what;
    bool is_directory; /* the training creates a directory there */
} trial;

static void hangs(int signal)
{
    (void)signal;
    static const char text[] = "hangs with ";
    if (write(2, text, sizeof text - 1) < 0 || write(2, planted, strlen(planted)) < 0 || write(2, "\n", 1) < 0)
        _exit(2);
    _exit(1);
}

static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

/* The training continues without these files. */
static bool is_best_effort(const char *name)
{
    static const char *const names[] = {"status.json", "outcome.json", "heartbeat.json", "timeline-"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(base_of(name), names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* True if the training must succeed. It replaces a planted temporary file, unless that is a directory. */
static bool must_succeed(const trial *t)
{
    size_t length = t->name ? strlen(t->name) : 0;
    bool is_temporary = length > 4 && strcmp(t->name + length - 4, ".tmp") == 0;
    return !t->name || is_best_effort(t->name) || (is_temporary && t->what != DIRECTORY);
}

static void train_with(const trial *t)
{
    void *state;
    char *elsewhere = test_make_directory();
    test_write_file(test_path(elsewhere, "victim"), "mine", 4);
    mkdir(test_path(elsewhere, "somewhere"), 0777);
    test_write_file(test_path(elsewhere, "somewhere/inner"), "mine", 4);
    poisoned_setup(&state);
    poisoned *p = state;
    hs_env env = spying_env(&p->s->t.env);
    hs_graph_free(p->graph);
    poisoned_build(p, &env);
    p->bad[0] = 3; /* at step 3 the guard rolls back to step 2 */
    directory = strdup(test_path(p->s->directory, "run\n\x1b[2J\xff"));
    assert_non_null(directory);
    mkdir(directory, 0777);
    if (t->name) {
        plant(t->what, t->name, elsewhere);
        snprintf(planted, sizeof planted, "%s as '%s'", kind_names[t->what], t->name);
    }
    if (!is_taken("metrics"))
        mkdir(in("metrics"), 0777);
    put_unless_taken("metrics/metrics.csv", "step,weight\n1,1\n"); /* from an earlier training */
    alarm(HANGS_SECS);
    hs_code code = train(p, &env);
    alarm(0);
    if (t->name)
        assert_untouched(elsewhere, t->is_directory);
    if (code && (must_succeed(t) || !strstr(p->s->err.message, base_of(t->name))))
        fail_msg("with %s: %s: %s", planted, hs_code_name(code), p->s->err.message);
    if (t->name && is_best_effort(t->name) && t->what == DIRECTORY && !test_env_logged(&p->s->t, base_of(t->name)))
        fail_msg("with %s: nothing about it is in the log: %s", planted, p->s->t.log);
    test_check_line(p->s->err.message);
    free(directory);
    poisoned_teardown(&state);
    test_remove_directory(elsewhere);
}

/* The names that two trainings in empty directories have in common. Names with a counter or a time cannot be predicted. */
static name_list written_names(void)
{
    static name_list lists[2], both;
    for (int i = 0; i < 2; i++) {
        seen = &lists[i];
        train_with(&(trial){.name = NULL});
    }
    seen = NULL;
    for (size_t i = 0; i < lists[0].n; i++)
        if (has_name(&lists[1], lists[0].items[i]))
            add_name(&both, lists[0].items[i], lists[0].is_directory[i]);
    add_name(&both, "control", false); /* opened directly by the operating system */
    add_name(&both, "control.taken", false);
    return both;
}

static void planted_files_do_no_harm(void **state)
{
    (void)state;
    static name_list names;
    names = written_names();
    for (size_t i = 0; i < names.n; i++)
        for (kind what = 0; what < KINDS; what++)
            train_with(&(trial){names.items[i], what, names.is_directory[i]});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_files_do_no_harm),
    };
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* there are hundreds of trainings */
    signal(SIGALRM, hangs);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
