/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of files: shared by the holds of one process, exclusive between processes, not inherited by children. */
#define _GNU_SOURCE /* syscall, setgroups */
#ifdef __SANITIZE_THREAD__
#include <sys/syscall.h>
#endif
#include "support/test.h"

#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const hs_file_system_ops *fs;
static char *directory;
static hs_error err;

static int set_up(void **state)
{
    (void)state;
    fs = hs_env_default()->files.ops;
    directory = test_make_directory();
    hs_error_clear(&err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_remove_directory(directory);
    return 0;
}

static const char *in(const char *name)
{
    return test_path(directory, name);
}

static void *hold(const char *name)
{
    void *lock = NULL;
    assert_ok(fs->lock(NULL, in(name), &lock, &err), &err);
    assert_non_null(lock);
    return lock;
}

static void renew(void *lock, const char *name)
{
    void *same = lock;
    assert_ok(fs->lock(NULL, in(name), &same, &err), &err);
    assert_ptr_equal(same, lock);
}

/* Other processes. The function of a process returns 0 on success. */

typedef int deed(void *user);

static void quit(int status)
{
#ifdef __SANITIZE_THREAD__
    syscall(SYS_exit_group, status); /* the sanitizer's _exit reports the threads of the parent as leaks */
#endif
    _exit(status);
}

static pid_t begin(deed *what, void *user)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        quit(what(user));
    }
    return child;
}

static int end(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

enum { REFUSED = 42 };

static int lock_plainly(void *name)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(open(in(name), O_RDWR | O_CLOEXEC), F_SETLK, &whole) == 0)
        return 0;
    return errno == EACCES || errno == EAGAIN ? REFUSED : 1;
}

/* True if another process, which does not use this library, can lock the file. */
static bool is_free(const char *name)
{
    char copy[32];
    snprintf(copy, sizeof copy, "%s", name);
    int status = end(begin(lock_plainly, copy));
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == REFUSED);
    return WEXITSTATUS(status) == 0;
}

typedef struct {
    int to_child[2], to_parent[2];
    void *lock;
} talk;

static talk *open_talk(talk *t, void *lock)
{
    assert_int_equal(pipe(t->to_child), 0);
    assert_int_equal(pipe(t->to_parent), 0);
    t->lock = lock;
    return t;
}

static void close_talk(const talk *t)
{
    for (int i = 0; i < 2; i++) {
        close(t->to_child[i]);
        close(t->to_parent[i]);
    }
}

static bool notify(const int *way)
{
    return write(way[1], "", 1) == 1;
}

static bool await_notice(const int *way)
{
    char byte;
    return read(way[0], &byte, 1) == 1;
}

/* One process. */

static void a_hold_excludes_other_processes(void **state)
{
    (void)state;
    void *lock = hold("a");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    assert_true(is_free("a"));
}

static void the_last_of_two_holds_releases_the_lock(void **state)
{
    (void)state;
    void *first = hold("a"), *second = hold("a");
    assert_ptr_not_equal(first, second);
    fs->unlock(NULL, first);
    assert_false(is_free("a"));
    fs->unlock(NULL, second);
    assert_true(is_free("a"));
}

static void holds_of_two_files_are_independent(void **state)
{
    (void)state;
    void *a = hold("a"), *b = hold("b");
    fs->unlock(NULL, a);
    assert_true(is_free("a"));
    assert_false(is_free("b"));
    fs->unlock(NULL, b);
}

static void two_names_of_a_file_share_a_lock(void **state)
{
    (void)state;
    void *a = hold("a");
    char *other = strdup(in("b"));
    assert_int_equal(link(in("a"), other), 0);
    free(other);
    fs->unlock(NULL, hold("b"));
    assert_false(is_free("a"));
    fs->unlock(NULL, a);
}

static void renewing_adds_no_hold(void **state)
{
    (void)state;
    void *lock = hold("a");
    renew(lock, "a");
    fs->unlock(NULL, lock);
    assert_true(is_free("a"));
}

/* Closing any descriptor of the file in this process releases the lock. */
static void renewing_acquires_a_lost_lock(void **state)
{
    (void)state;
    void *lock = hold("a");
    close(open(in("a"), O_RDONLY));
    assert_true(is_free("a"));
    renew(lock, "a");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
}

static void renewing_recreates_a_deleted_file(void **state)
{
    (void)state;
    void *first = hold("a"), *second = hold("a");
    unlink(in("a"));
    renew(first, "a");
    assert_false(is_free("a"));
    fs->unlock(NULL, second); /* holds the deleted file */
    assert_false(is_free("a"));
    fs->unlock(NULL, first);
    assert_true(is_free("a"));
}

static int hold_until_notified(void *user)
{
    talk *t = user;
    void *lock = NULL;
    return fs->lock(NULL, in("a"), &lock, NULL) == HS_OK && notify(t->to_parent) && await_notice(t->to_child) ? 0 : 1;
}

static void a_file_recreated_by_another_process_is_noticed(void **state)
{
    (void)state;
    talk t;
    char holder[64];
    void *lock = hold("a"), *same = lock;
    unlink(in("a"));
    pid_t child = begin(hold_until_notified, open_talk(&t, NULL));
    assert_true(await_notice(t.to_parent));
    snprintf(holder, sizeof holder, "locked by process %ld on ", (long)child);
    assert_fails(fs->lock(NULL, in("a"), &same, &err), HS_FAILED_PRECONDITION, &err, holder);
    notify(t.to_child);
    assert_int_equal(end(child), 0);
    renew(lock, "a");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    close_talk(&t);
}

static void the_next_holder_is_named(void **state)
{
    (void)state;
    talk t;
    char holder[64], *text;
    void *lock = hold("a"), *same = lock;
    close(open(in("a"), O_RDONLY));
    pid_t child = begin(hold_until_notified, open_talk(&t, NULL));
    assert_true(await_notice(t.to_parent));
    assert_int_equal(fs->lock(NULL, in("a"), &same, &err), HS_FAILED_PRECONDITION);
    notify(t.to_child);
    assert_int_equal(end(child), 0);
    renew(lock, "a");
    text = test_read_file(in("a"), NULL);
    snprintf(holder, sizeof holder, "process %ld on ", (long)getpid());
    assert_contains(text, holder);
    free(text);
    fs->unlock(NULL, lock);
    close_talk(&t);
}

static void a_missing_directory_is_not_found(void **state)
{
    (void)state;
    void *lock = NULL;
    assert_fails(fs->lock(NULL, in("no/a"), &lock, &err), HS_NOT_FOUND, &err, in("no/a"));
    assert_null(lock);
}

/* Objects that another user may have placed there. */

static void assert_text(const char *name, const char *expected)
{
    char *text = test_read_file(in(name), NULL);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void assert_not_lockable(const char *name)
{
    void *lock = NULL;
    assert_fails(fs->lock(NULL, in(name), &lock, &err), HS_INVALID_ARGUMENT, &err, "is not a regular file");
    assert_null(lock);
}

static void only_a_file_can_be_locked(void **state)
{
    (void)state;
    test_write_file(in("victim"), "mine", 4);
    assert_int_equal(symlink("victim", in("link")), 0);
    assert_int_equal(symlink("nowhere", in("dangling")), 0);
    assert_int_equal(mkfifo(in("fifo"), 0666), 0);
    assert_int_equal(mkdir(in("directory"), 0777), 0);
    assert_not_lockable("link");
    assert_not_lockable("dangling");
    assert_not_lockable("fifo");
    assert_not_lockable("directory");
    assert_text("victim", "mine");
    assert_false(test_exists(directory, "nowhere"));
}

static void a_link_to_a_held_file_is_not_that_file(void **state)
{
    (void)state;
    void *lock = hold("a");
    assert_int_equal(symlink("a", in("link")), 0);
    assert_not_lockable("link");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
}

/* The other name may belong to another user. */
static void a_file_with_two_names_is_locked_and_not_written_to(void **state)
{
    (void)state;
    talk t;
    void *same = NULL;
    test_write_file(in("victim"), "mine", 4);
    const char *victim = in("victim");
    assert_int_equal(link(victim, in("a")), 0);
    void *lock = hold("a");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    pid_t child = begin(hold_until_notified, open_talk(&t, NULL));
    assert_true(await_notice(t.to_parent));
    assert_fails(fs->lock(NULL, in("a"), &same, &err), HS_FAILED_PRECONDITION, &err, "locked by another process");
    notify(t.to_child);
    assert_int_equal(end(child), 0);
    close_talk(&t);
    assert_text("victim", "mine");
}

/* Children. */

static int is_refused(void *lock)
{
    void *mine = NULL, *inherited = lock;
    hs_error error = {0};
    char holder[64];
    snprintf(holder, sizeof holder, "locked by process %ld on ", (long)getppid());
    if (fs->lock(NULL, in("a"), &mine, &error) != HS_FAILED_PRECONDITION || !strstr(error.message, holder))
        return 1;
    return fs->lock(NULL, in("a"), &inherited, &error) == HS_FAILED_PRECONDITION ? 0 : 2;
}

static void a_child_cannot_lock_what_its_parent_holds(void **state)
{
    (void)state;
    void *lock = hold("a");
    assert_int_equal(end(begin(is_refused, lock)), 0);
    fs->unlock(NULL, lock);
}

static int unlock(void *lock)
{
    fs->unlock(NULL, lock);
    return 0;
}

static void a_child_that_releases_its_hold_does_not_release_the_parents(void **state)
{
    (void)state;
    void *lock = hold("a");
    assert_int_equal(end(begin(unlock, lock)), 0);
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    assert_true(is_free("a"));
}

/* Each notice of the parent is one step. */
static int lock_after_the_parent(void *user)
{
    talk *t = user;
    void *mine = NULL;
    if (!await_notice(t->to_child) || fs->lock(NULL, in("a"), &mine, NULL) || !notify(t->to_parent) ||
        !await_notice(t->to_child))
        return 1;
    fs->unlock(NULL, mine);
    return notify(t->to_parent) && await_notice(t->to_child) ? 0 : 2;
}

static void step(talk *t)
{
    assert_true(notify(t->to_child));
    assert_true(await_notice(t->to_parent));
}

static void an_inherited_hold_does_not_lock(void **state)
{
    (void)state;
    talk t;
    void *lock = hold("a");
    pid_t child = begin(lock_after_the_parent, open_talk(&t, lock));
    fs->unlock(NULL, lock);
    step(&t);
    assert_false(is_free("a"));
    step(&t);
    assert_true(is_free("a"));
    notify(t.to_child);
    assert_int_equal(end(child), 0);
    close_talk(&t);
}

static int lock_and_unlock_the_inherited(void *user)
{
    talk *t = user;
    void *mine = NULL;
    if (!await_notice(t->to_child) || fs->lock(NULL, in("a"), &mine, NULL))
        return 1;
    fs->unlock(NULL, t->lock);
    return notify(t->to_parent) && await_notice(t->to_child) ? 0 : 2;
}

static void releasing_an_inherited_hold_keeps_the_childs_own(void **state)
{
    (void)state;
    talk t;
    void *lock = hold("a");
    pid_t child = begin(lock_and_unlock_the_inherited, open_talk(&t, lock));
    fs->unlock(NULL, lock);
    step(&t);
    assert_false(is_free("a"));
    notify(t.to_child);
    assert_int_equal(end(child), 0);
    close_talk(&t);
}

static int make_the_inherited_its_own(void *user)
{
    talk *t = user;
    if (!await_notice(t->to_child) || fs->lock(NULL, in("a"), &t->lock, NULL) || !notify(t->to_parent) ||
        !await_notice(t->to_child))
        return 1;
    fs->unlock(NULL, t->lock);
    return notify(t->to_parent) && await_notice(t->to_child) ? 0 : 2;
}

static void renewing_an_inherited_hold_locks_for_the_child(void **state)
{
    (void)state;
    talk t;
    char holder[64];
    void *lock = hold("a"), *again = NULL;
    pid_t child = begin(make_the_inherited_its_own, open_talk(&t, lock));
    fs->unlock(NULL, lock);
    step(&t);
    snprintf(holder, sizeof holder, "locked by process %ld on ", (long)child);
    assert_fails(fs->lock(NULL, in("a"), &again, &err), HS_FAILED_PRECONDITION, &err, holder);
    step(&t);
    assert_true(is_free("a"));
    notify(t.to_child);
    assert_int_equal(end(child), 0);
    close_talk(&t);
}

/* Threads. */

enum { THREADS = 4, TIMES = 300 };

static void *lock_and_unlock(void *user)
{
    for (int i = 0; i < TIMES; i++) {
        void *lock = NULL;
        if (fs->lock(NULL, user, &lock, NULL) || fs->lock(NULL, user, &lock, NULL))
            return user;
        fs->unlock(NULL, lock);
    }
    return NULL;
}

static void begin_threads(pthread_t *threads, char *path)
{
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lock_and_unlock, path), 0);
}

static void end_threads(const pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

static int next_descriptor(void)
{
    int descriptor = open(directory, O_RDONLY | O_CLOEXEC);
    close(descriptor);
    return descriptor;
}

static void threads_lock_and_unlock_concurrently(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int before = next_descriptor();
    char *path = strdup(in("a"));
    begin_threads(threads, path);
    end_threads(threads);
    assert_true(is_free("a"));
    assert_int_equal(next_descriptor(), before);
    free(path);
}

static void threads_do_not_release_a_hold(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    char *path = strdup(in("a"));
    void *lock = hold("a");
    begin_threads(threads, path);
    for (int i = 0; i < 5; i++)
        assert_false(is_free("a"));
    end_threads(threads);
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    free(path);
}

static int lock_without_room(void *unused)
{
    void *lock = NULL;
    (void)unused;
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 0, .rlim_max = 0});
    return fs->lock(NULL, in("a"), &lock, &err) == HS_OK ? 0 : 1;
}

/* The name of the holder is for messages only. */
static void a_limit_of_file_sizes_does_not_prevent_a_lock(void **state)
{
    (void)state;
    assert_int_equal(end(begin(lock_without_room, NULL)), 0);
}

/* A thread may be changing the table when the process forks. The child must find a consistent table. */
static void a_child_of_busy_threads_does_not_hang(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    test_skip("in a child of several threads the allocator of the address sanitizer may hang");
#endif
    pthread_t threads[THREADS];
    char *path = strdup(in("a"));
    void *lock = hold("a");
    begin_threads(threads, path);
    for (int i = 0; i < 50; i++)
        assert_int_equal(end(begin(unlock, lock)), 0);
    end_threads(threads);
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    free(path);
}

/* Claims of sessions. */

static void a_claim_closes_the_file_to_other_sessions(void **state)
{
    int one, other;
    void *locks[] = {hold("a"), hold("a"), hold("a")};
    (void)state;
    assert_true(hs__lock_is_open_to(hs_env_default(), locks[0], &other));
    assert_true(hs__lock_claim(hs_env_default(), locks[0], &one));
    assert_true(hs__lock_claim(hs_env_default(), locks[0], &one));
    assert_true(hs__lock_claim(hs_env_default(), locks[1], &one));
    assert_false(hs__lock_claim(hs_env_default(), locks[2], &other));
    assert_false(hs__lock_is_open_to(hs_env_default(), locks[2], &other));
    assert_true(hs__lock_is_open_to(hs_env_default(), locks[2], &one));
    fs->unlock(NULL, locks[0]);
    assert_false(hs__lock_claim(hs_env_default(), locks[2], &other));
    fs->unlock(NULL, locks[1]);
    assert_true(hs__lock_claim(hs_env_default(), locks[2], &other));
    fs->unlock(NULL, locks[2]);
}

/* A claim locks the file, but is not another user of it. */
static void a_claimed_file_is_not_shared(void **state)
{
    int one;
    void *claimed = hold("a"), *used = hold("a");
    (void)state;
    assert_true(hs__lock_is_shared(hs_env_default(), used));
    assert_true(hs__lock_claim(hs_env_default(), claimed, &one));
    assert_false(hs__lock_is_shared(hs_env_default(), used));
    assert_true(hs__lock_is_shared(hs_env_default(), claimed));
    fs->unlock(NULL, used);
    assert_false(hs__lock_is_shared(hs_env_default(), claimed));
    fs->unlock(NULL, claimed);
}

/* The file was deleted, and is locked again. */
static void a_renewed_claim_stays(void **state)
{
    int one, other;
    void *claimed = hold("a");
    (void)state;
    assert_true(hs__lock_claim(hs_env_default(), claimed, &one));
    assert_int_equal(unlink(in("a")), 0);
    renew(claimed, "a");
    void *second = hold("a");
    assert_false(hs__lock_claim(hs_env_default(), second, &other));
    fs->unlock(NULL, claimed);
    assert_true(hs__lock_claim(hs_env_default(), second, &other));
    fs->unlock(NULL, second);
}

typedef struct {
    int released[2];
    void *lock;
} inheritance;

/* A session of the child. */
static int claim_in_child(void *user)
{
    inheritance *from = user;
    int mine;
    char byte;
    if (read(from->released[0], &byte, 1) != 1 || fs->lock(NULL, in("a"), &from->lock, &err))
        return 1;
    return hs__lock_claim(hs_env_default(), from->lock, &mine) ? 0 : 2;
}

static void a_claim_is_not_inherited(void **state)
{
    int one;
    inheritance from = {.lock = hold("a")};
    (void)state;
    assert_int_equal(pipe(from.released), 0);
    assert_true(hs__lock_claim(hs_env_default(), from.lock, &one));
    pid_t child = begin(claim_in_child, &from);
    fs->unlock(NULL, from.lock);
    assert_int_equal(write(from.released[1], "", 1), 1);
    assert_int_equal(end(child), 0);
    close(from.released[0]);
    close(from.released[1]);
}

/* The permissions of the file that is made for a lock in a directory with these. */
static mode_t mode_in(mode_t of_directory)
{
    struct stat found;
    assert_int_equal(chmod(directory, of_directory), 0);
    fs->unlock(NULL, hold("a"));
    assert_int_equal(stat(in("a"), &found), 0);
    assert_int_equal(unlink(in("a")), 0);
    return found.st_mode & 0777;
}

static void who_may_write_to_the_directory_may_lock_its_files(void **state)
{
    (void)state;
    mode_t before = umask(077);
    assert_int_equal(mode_in(0700), 0600);
    assert_int_equal(mode_in(0755), 0644);
    assert_int_equal(mode_in(02775), 0664);
    assert_int_equal(mode_in(01777), 0666);
    umask(before);
}

static void an_existing_file_keeps_its_permissions(void **state)
{
    (void)state;
    struct stat found;
    test_write_file(in("a"), "", 0);
    assert_int_equal(chmod(in("a"), 0640), 0);
    fs->unlock(NULL, hold("a"));
    assert_int_equal(stat(in("a"), &found), 0);
    assert_int_equal(found.st_mode & 0777, 0640);
}

static void a_lock_in_the_current_directory_has_its_permissions(void **state)
{
    (void)state;
    struct stat found;
    void *lock = NULL;
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(chdir(directory), 0);
    hs_code code = fs->lock(NULL, "a", &lock, &err);
    int result = stat("a", &found);
    assert_int_equal(chdir(before), 0);
    assert_ok(code, &err);
    assert_int_equal(result, 0);
    assert_int_equal(found.st_mode & 0777, 0666);
    fs->unlock(NULL, lock);
}

/* Gives the directory another group than the user's first. False: the user has only one. */
static bool change_group(gid_t *group)
{
    gid_t groups[64] = {65534}; /* root may give it any group */
    int n = geteuid() == 0 ? 1 : getgroups(64, groups), i = 0;
    while (i < n && groups[i] == getegid())
        i++;
    if (i >= n)
        return false;
    *group = groups[i];
    return chown(directory, (uid_t)-1, *group) == 0;
}

static void the_group_of_the_directory_may_lock_its_files(void **state)
{
    (void)state;
    struct stat found;
    gid_t group;
    if (!change_group(&group))
        test_skip("the user has only one group");
    assert_int_equal(chmod(directory, 0770), 0);
    fs->unlock(NULL, hold("a"));
    assert_int_equal(stat(in("a"), &found), 0);
    assert_int_equal(found.st_gid, group);
    assert_int_equal(found.st_mode & 0777, 0660);
}

enum { NOT_ROOT = 2 };

static int hold_as_another_user(void *user)
{
    void *lock = NULL;
    (void)user;
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
        return NOT_ROOT;
    return fs->lock(NULL, in("a"), &lock, &err) != HS_OK;
}

static void another_user_can_lock_after_this_one(void **state)
{
    (void)state;
    struct stat found;
    assert_int_equal(chmod(directory, 0757), 0);
    fs->unlock(NULL, hold("a"));
    int result = test_in_child(hold_as_another_user, NULL);
    if (result == NOT_ROOT)
        test_skip("only root can become another user");
    assert_int_equal(result, 0);
    assert_int_equal(unlink(in("a")), 0);
    assert_int_equal(test_in_child(hold_as_another_user, NULL), 0); /* a user who is not in the directory's group */
    assert_int_equal(stat(in("a"), &found), 0);
    assert_int_equal(found.st_uid, 65534);
    assert_int_equal(found.st_mode & 0777, 0666);
}

/* Another user has created the file, and changes its permissions after the first attempt to open it. */
static const char *unshared;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, mode_t mode);

int __wrap_open(const char *path, int flags, mode_t mode)
{
    int descriptor = __real_open(path, flags, mode), error = errno;
    if (unshared && strcmp(path, unshared) == 0 && descriptor < 0 && error == EACCES) {
        chmod(unshared, 0600);
        unshared = NULL;
    }
    errno = error;
    return descriptor;
}

static int hold_a_file_that_is_shared_late(void *user)
{
    void *lock = NULL;
    (void)user;
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
        return 1;
    int descriptor = creat(in("a"), 0);
    if (descriptor < 0 || close(descriptor) != 0)
        return 2;
    unshared = in("a");
    hs_code code = fs->lock(NULL, unshared, &lock, &err);
    return unshared ? 3 : code ? 4 : 0;
}

static void a_file_that_is_shared_after_its_creation_can_be_locked(void **state)
{
    (void)state;
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(test_in_child(hold_a_file_that_is_shared_late, NULL), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_hold_excludes_other_processes),
        TEST(the_last_of_two_holds_releases_the_lock),
        TEST(holds_of_two_files_are_independent),
        TEST(two_names_of_a_file_share_a_lock),
        TEST(renewing_adds_no_hold),
        TEST(renewing_acquires_a_lost_lock),
        TEST(renewing_recreates_a_deleted_file),
        TEST(a_file_recreated_by_another_process_is_noticed),
        TEST(the_next_holder_is_named),
        TEST(a_missing_directory_is_not_found),
        TEST(only_a_file_can_be_locked),
        TEST(a_link_to_a_held_file_is_not_that_file),
        TEST(a_file_with_two_names_is_locked_and_not_written_to),
        TEST(a_child_cannot_lock_what_its_parent_holds),
        TEST(a_child_that_releases_its_hold_does_not_release_the_parents),
        TEST(an_inherited_hold_does_not_lock),
        TEST(releasing_an_inherited_hold_keeps_the_childs_own),
        TEST(renewing_an_inherited_hold_locks_for_the_child),
        TEST(a_limit_of_file_sizes_does_not_prevent_a_lock),
        TEST(a_claim_closes_the_file_to_other_sessions),
        TEST(a_claimed_file_is_not_shared),
        TEST(a_renewed_claim_stays),
        TEST(a_claim_is_not_inherited),
        TEST(who_may_write_to_the_directory_may_lock_its_files),
        TEST(an_existing_file_keeps_its_permissions),
        TEST(a_lock_in_the_current_directory_has_its_permissions),
        TEST(the_group_of_the_directory_may_lock_its_files),
        TEST(another_user_can_lock_after_this_one),
        TEST(a_file_that_is_shared_after_its_creation_can_be_locked),
        TEST(threads_lock_and_unlock_concurrently),
        TEST(threads_do_not_release_a_hold),
        TEST(a_child_of_busy_threads_does_not_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
