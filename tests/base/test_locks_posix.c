/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of files: shared by the holds of one process, kept from others, and not inherited by children. */
#ifdef __SANITIZE_THREAD__
#define _GNU_SOURCE /* syscall */
#include <sys/syscall.h>
#endif
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

static void make_sure(void *lock, const char *name)
{
    void *same = lock;
    assert_ok(fs->lock(NULL, in(name), &same, &err), &err);
    assert_ptr_equal(same, lock);
}

/* Other processes. What they do returns 0 if it goes well. */

typedef int deed(void *user);

static void quit(int status)
{
#ifdef __SANITIZE_THREAD__
    syscall(SYS_exit_group, status); /* its _exit says that a child of several threads leaks them */
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

static int take_plainly(void *name)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(open(in(name), O_RDWR | O_CLOEXEC), F_SETLK, &whole) == 0)
        return 0;
    return errno == EACCES || errno == EAGAIN ? REFUSED : 1;
}

/* Can another process, which knows nothing of this library, lock it? */
static bool is_free(const char *name)
{
    char copy[32];
    snprintf(copy, sizeof copy, "%s", name);
    int status = end(begin(take_plainly, copy));
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

static bool tell(const int *way)
{
    return write(way[1], "", 1) == 1;
}

static bool hear(const int *way)
{
    char byte;
    return read(way[0], &byte, 1) == 1;
}

/* One process. */

static void a_hold_keeps_others_out(void **state)
{
    (void)state;
    void *lock = hold("a");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    assert_true(is_free("a"));
}

static void the_last_of_two_holds_gives_it_up(void **state)
{
    (void)state;
    void *first = hold("a"), *second = hold("a");
    assert_ptr_not_equal(first, second);
    fs->unlock(NULL, first);
    assert_false(is_free("a"));
    fs->unlock(NULL, second);
    assert_true(is_free("a"));
}

static void holds_of_two_files_are_apart(void **state)
{
    (void)state;
    void *a = hold("a"), *b = hold("b");
    fs->unlock(NULL, a);
    assert_true(is_free("a"));
    assert_false(is_free("b"));
    fs->unlock(NULL, b);
}

static void two_names_of_a_file_are_one(void **state)
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

static void making_sure_adds_no_hold(void **state)
{
    (void)state;
    void *lock = hold("a");
    make_sure(lock, "a");
    fs->unlock(NULL, lock);
    assert_true(is_free("a"));
}

/* Whoever in the process closes the file gives its lock up. */
static void making_sure_takes_a_lost_lock_again(void **state)
{
    (void)state;
    void *lock = hold("a");
    close(open(in("a"), O_RDONLY));
    assert_true(is_free("a"));
    make_sure(lock, "a");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
}

static void a_deleted_file_is_made_and_held_again(void **state)
{
    (void)state;
    void *first = hold("a"), *second = hold("a");
    unlink(in("a"));
    make_sure(first, "a");
    assert_false(is_free("a"));
    fs->unlock(NULL, second); /* of the one that was deleted */
    assert_false(is_free("a"));
    fs->unlock(NULL, first);
    assert_true(is_free("a"));
}

static int take_until_told(void *user)
{
    talk *t = user;
    void *lock = NULL;
    return fs->lock(NULL, in("a"), &lock, NULL) == HS_OK && tell(t->to_parent) && hear(t->to_child) ? 0 : 1;
}

static void a_file_that_another_process_made_anew_is_noticed(void **state)
{
    (void)state;
    talk t;
    char holder[64];
    void *lock = hold("a"), *same = lock;
    unlink(in("a"));
    pid_t child = begin(take_until_told, open_talk(&t, NULL));
    assert_true(hear(t.to_parent));
    snprintf(holder, sizeof holder, "locked by process %ld on ", (long)child);
    assert_fails(fs->lock(NULL, in("a"), &same, &err), HS_FAILED_PRECONDITION, &err, holder);
    tell(t.to_child);
    assert_int_equal(end(child), 0);
    make_sure(lock, "a");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    close_talk(&t);
}

static void who_gets_it_back_is_named(void **state)
{
    (void)state;
    talk t;
    char holder[64], *text;
    void *lock = hold("a"), *same = lock;
    close(open(in("a"), O_RDONLY));
    pid_t child = begin(take_until_told, open_talk(&t, NULL));
    assert_true(hear(t.to_parent));
    assert_int_equal(fs->lock(NULL, in("a"), &same, &err), HS_FAILED_PRECONDITION);
    tell(t.to_child);
    assert_int_equal(end(child), 0);
    make_sure(lock, "a");
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

/* What somebody else may have put there. */

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

static void a_link_to_a_file_that_is_held_is_not_that_file(void **state)
{
    (void)state;
    void *lock = hold("a");
    assert_int_equal(symlink("a", in("link")), 0);
    assert_not_lockable("link");
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
}

/* Its other name may be somebody else's. */
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
    pid_t child = begin(take_until_told, open_talk(&t, NULL));
    assert_true(hear(t.to_parent));
    assert_fails(fs->lock(NULL, in("a"), &same, &err), HS_FAILED_PRECONDITION, &err, "locked by another process");
    tell(t.to_child);
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

static void a_child_is_refused_what_its_parent_holds(void **state)
{
    (void)state;
    void *lock = hold("a");
    assert_int_equal(end(begin(is_refused, lock)), 0);
    fs->unlock(NULL, lock);
}

static int give_up(void *lock)
{
    fs->unlock(NULL, lock);
    return 0;
}

static void a_child_that_gives_it_up_leaves_the_parents(void **state)
{
    (void)state;
    void *lock = hold("a");
    assert_int_equal(end(begin(give_up, lock)), 0);
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    assert_true(is_free("a"));
}

/* Each word from the parent is a step. */
static int take_after_the_parent(void *user)
{
    talk *t = user;
    void *mine = NULL;
    if (!hear(t->to_child) || fs->lock(NULL, in("a"), &mine, NULL) || !tell(t->to_parent) || !hear(t->to_child))
        return 1;
    fs->unlock(NULL, mine);
    return tell(t->to_parent) && hear(t->to_child) ? 0 : 2;
}

static void step(talk *t)
{
    assert_true(tell(t->to_child));
    assert_true(hear(t->to_parent));
}

static void what_a_child_inherited_keeps_nothing_held(void **state)
{
    (void)state;
    talk t;
    void *lock = hold("a");
    pid_t child = begin(take_after_the_parent, open_talk(&t, lock));
    fs->unlock(NULL, lock);
    step(&t);
    assert_false(is_free("a"));
    step(&t);
    assert_true(is_free("a"));
    tell(t.to_child);
    assert_int_equal(end(child), 0);
    close_talk(&t);
}

static int take_and_give_up_the_inherited(void *user)
{
    talk *t = user;
    void *mine = NULL;
    if (!hear(t->to_child) || fs->lock(NULL, in("a"), &mine, NULL))
        return 1;
    fs->unlock(NULL, t->lock);
    return tell(t->to_parent) && hear(t->to_child) ? 0 : 2;
}

static void giving_up_an_inherited_hold_keeps_the_childs_own(void **state)
{
    (void)state;
    talk t;
    void *lock = hold("a");
    pid_t child = begin(take_and_give_up_the_inherited, open_talk(&t, lock));
    fs->unlock(NULL, lock);
    step(&t);
    assert_false(is_free("a"));
    tell(t.to_child);
    assert_int_equal(end(child), 0);
    close_talk(&t);
}

static int make_the_inherited_its_own(void *user)
{
    talk *t = user;
    if (!hear(t->to_child) || fs->lock(NULL, in("a"), &t->lock, NULL) || !tell(t->to_parent) || !hear(t->to_child))
        return 1;
    fs->unlock(NULL, t->lock);
    return tell(t->to_parent) && hear(t->to_child) ? 0 : 2;
}

static void making_sure_makes_an_inherited_hold_the_childs(void **state)
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
    tell(t.to_child);
    assert_int_equal(end(child), 0);
    close_talk(&t);
}

/* Threads. */

enum { THREADS = 4, TIMES = 300 };

static void *take_and_release(void *user)
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
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_release, path), 0);
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

static void threads_take_and_release_at_once(void **state)
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

static void threads_leave_a_hold_alone(void **state)
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

/* A thread may be anywhere in the table when the process forks; the child must find it whole. */
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
        assert_int_equal(end(begin(give_up, lock)), 0);
    end_threads(threads);
    assert_false(is_free("a"));
    fs->unlock(NULL, lock);
    free(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_hold_keeps_others_out),
        TEST(the_last_of_two_holds_gives_it_up),
        TEST(holds_of_two_files_are_apart),
        TEST(two_names_of_a_file_are_one),
        TEST(making_sure_adds_no_hold),
        TEST(making_sure_takes_a_lost_lock_again),
        TEST(a_deleted_file_is_made_and_held_again),
        TEST(a_file_that_another_process_made_anew_is_noticed),
        TEST(who_gets_it_back_is_named),
        TEST(a_missing_directory_is_not_found),
        TEST(only_a_file_can_be_locked),
        TEST(a_link_to_a_file_that_is_held_is_not_that_file),
        TEST(a_file_with_two_names_is_locked_and_not_written_to),
        TEST(a_child_is_refused_what_its_parent_holds),
        TEST(a_child_that_gives_it_up_leaves_the_parents),
        TEST(what_a_child_inherited_keeps_nothing_held),
        TEST(giving_up_an_inherited_hold_keeps_the_childs_own),
        TEST(making_sure_makes_an_inherited_hold_the_childs),
        TEST(threads_take_and_release_at_once),
        TEST(threads_leave_a_hold_alone),
        TEST(a_child_of_busy_threads_does_not_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
