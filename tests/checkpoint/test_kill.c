/* SPDX-License-Identifier: Apache-2.0 */
/* A process that saves continuously is killed at random moments, repeatedly. */
#include "checkpoint/model.h"

#include "support/disk.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 200, SAVES = 12, CALLS = 250, SPINS = 30000 };

/* Progress of the process, in shared memory. The number of a save determines its contents. Two consecutive saves have the
 * same name. */
typedef struct {
    atomic_size_t calls; /* of the file system */
    atomic_llong begun, saved;
} progress;

static progress *shared;

static int64_t name_of(int64_t number)
{
    return number / 2;
}

/* The file system of the system without syncs, which a killed process does not need. */

static const hs_file_system_ops *real(void)
{
    return hs_env_default()->files.ops;
}

static void count(void)
{
    atomic_fetch_add(&shared->calls, 1);
}

static hs_code k_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    count();
    return real()->open(user, path, mode, file, err);
}

static hs_code k_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    count();
    return real()->write(user, file, data, bytes, err);
}

static hs_code k_rename(void *user, const char *from, const char *to, hs_error *err)
{
    count();
    return real()->rename(user, from, to, err);
}

static hs_code k_remove(void *user, const char *path, hs_error *err)
{
    count();
    return real()->remove(user, path, err);
}

static hs_code k_sync(void *user, void *file, hs_error *err)
{
    (void)user, (void)file, (void)err;
    count();
    return HS_OK;
}

static hs_code k_sync_directory(void *user, const char *path, hs_error *err)
{
    (void)user, (void)path, (void)err;
    count();
    return HS_OK;
}

/* The process: resumes, and saves until it is killed or has saved enough. */

static hs_code save_number(fixture *f, int64_t number)
{
    model_set(&f->m, number);
    return hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), name_of(number), NULL, &f->err);
}

static void live(fixture *f)
{
    static hs_file_system_ops ops;
    ops = *real();
    ops.open = k_open, ops.write = k_write, ops.rename = k_rename, ops.remove = k_remove;
    ops.sync = k_sync, ops.sync_directory = k_sync_directory;
    f->t.env.files = (hs_file_system){&ops, NULL};
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    if (restore_newest(f))
        _exit(2);
    int64_t number = *f->restored ? f->m.step : 1;
    for (int i = 0; i < SAVES; i++) {
        atomic_store(&shared->begun, ++number);
        if (save_number(f, number))
            _exit(3);
        atomic_store(&shared->saved, number);
    }
    _exit(0);
}

/* Waits until it has reached that save, and a little longer. */
static void kill_after(pid_t child, size_t calls, size_t spins)
{
    int status;
    while (atomic_load(&shared->calls) < calls && waitpid(child, &status, WNOHANG) == 0)
        sched_yield();
    for (volatile size_t i = 0; i < spins; i++)
        ;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* The next process. */
static void check_files_after_the_kill(fixture *f, uint64_t *random)
{
    int64_t begun = atomic_load(&shared->begun), saved = atomic_load(&shared->saved);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    assert_ok(restore_newest(f), &f->err);
    assert_lacks(f->t.log, "WARNING");
    int64_t found = *f->restored ? f->m.step : 1;
    assert_true(found == 1 ? saved < 2 : model_is(&f->m, found));
    assert_in_range(found, saved ? saved : 1, begun ? begun : 1);
    assert_true(found == 1 || !strcmp(f->restored, file_of(f, name_of(found), NULL)));
    found += 1 + (found % 2 == 0) * (int64_t)(disk_random(random) % 2); /* sometimes over the same step */
    for (int i = 1; i <= 2; i++, found += 2) {
        assert_ok(save_number(f, found), &f->err);
        atomic_store(&shared->begun, found);
        atomic_store(&shared->saved, found);
    }
    assert_int_equal(test_count_files(f->directory, ""), 2 + 2 * 3 + 2); /* with ".", "..", the lock, the state */
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
}

static void a_process_that_is_killed_at_any_moment(void **state)
{
    fixture *f = *state;
    uint64_t random = 1;
    FILE *memory = tmpfile();
    assert_non_null(memory);
    assert_int_equal(ftruncate(fileno(memory), sizeof *shared), 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(memory), 0);
    assert_true(shared != MAP_FAILED);
    for (int i = 0; i < KILLS; i++) {
        hs_saver_free(f->saver); /* the child will hold the directory */
        f->saver = NULL;
        atomic_store(&shared->calls, 0);
        test_env_clear_log(&f->t);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            live(f);
        kill_after(child, disk_random(&random) % CALLS, disk_random(&random) % SPINS);
        check_files_after_the_kill(f, &random);
    }
    munmap(shared, sizeof *shared);
    fclose(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_process_that_is_killed_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
