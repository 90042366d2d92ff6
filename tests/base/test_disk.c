/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated disk of the crash tests: it loses unsynced data, and only that. */
#include "support/disk.h"

#include "base/files.h"

typedef struct {
    disk disk;
    hs_env env;
    hs_error err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    disk_init(&f->disk);
    f->env = *hs_env_default();
    f->env.files = f->disk.files;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    disk_free(&f->disk);
    free(f);
    return 0;
}
#define with_disk(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static void put(fixture *f, const char *path, const char *text, bool sync)
{
    hs__file file;
    assert_ok(hs__file_open(&file, &f->env, path, HS_OPEN_WRITE, &f->err), &f->err);
    assert_ok(hs__file_write(&file, text, strlen(text), &f->err), &f->err);
    if (sync)
        assert_ok(hs__file_sync(&file, &f->err), &f->err);
    assert_ok(hs__file_close(&file, &f->err), &f->err);
}

static void put_durably(fixture *f, const char *path, const char *text)
{
    put(f, path, text, true);
    assert_ok(hs__sync_directory(&f->env, "/", &f->err), &f->err);
}

/* The file's text; "-" if it does not exist, "?" for other contents. */
static const char *text_of(const disk *d, const char *path, const char *one, const char *other)
{
    const disk_file *file = disk_find(d, path);
    const char *const texts[] = {one, other, ""};
    if (!file)
        return "-";
    for (size_t i = 0; i < 3; i++)
        if (file->cached.size == strlen(texts[i]) && (!*texts[i] || !memcmp(file->cached.data, texts[i], strlen(texts[i]))))
            return texts[i];
    return "?";
}

/* The number of crashes, of all that are possible, after which the path has this text. */
static size_t losses_that_leave(fixture *f, const char *path, const char *text, const char *other)
{
    enum { SEEDS = 20 };
    size_t n = 0;
    for (int contents = 0; contents < DISK_CONTENTS_LOSSES; contents++)
        for (int names = 0; names < DISK_NAMES_LOSSES; names++)
            for (uint64_t seed = 0; seed < SEEDS; seed++) {
                disk after;
                disk_copy(&after, &f->disk);
                disk_lose_power(&after, (disk_loss){contents, names, seed});
                n += strcmp(text_of(&after, path, text, other), text) == 0;
                disk_free(&after);
            }
    return n;
}

enum { ALL = DISK_CONTENTS_LOSSES * DISK_NAMES_LOSSES * 20 };

static void synced_data_is_never_lost(void **state)
{
    fixture *f = *state;
    put_durably(f, "/a", "old");
    assert_int_equal(losses_that_leave(f, "/a", "old", ""), ALL);
}

static void unsynced_data_may_be_lost_or_torn(void **state)
{
    fixture *f = *state;
    put_durably(f, "/a", "old");
    put(f, "/a", "newer", false);
    assert_in_range(losses_that_leave(f, "/a", "old", "newer"), 1, ALL - 1);
    assert_in_range(losses_that_leave(f, "/a", "newer", "old"), 1, ALL - 1);
    assert_in_range(losses_that_leave(f, "/a", "new", "newer"), 1, ALL - 1);
    assert_in_range(losses_that_leave(f, "/a", "", "newer"), 1, ALL - 1);
}

static void a_file_without_a_synced_name_may_be_gone(void **state)
{
    fixture *f = *state;
    put(f, "/a", "new", true);
    size_t gone = losses_that_leave(f, "/a", "-", "new");
    assert_in_range(gone, 1, ALL - 1);
    assert_int_equal(losses_that_leave(f, "/a", "new", ""), ALL - gone);
}

/* The common mistake that replaces intact files by empty ones. */
static void a_rename_without_a_sync_of_the_contents_may_leave_nothing(void **state)
{
    fixture *f = *state;
    put_durably(f, "/a", "old");
    put(f, "/a.tmp", "new", false);
    assert_ok(hs__rename(&f->env, "/a.tmp", "/a", &f->err), &f->err);
    assert_in_range(losses_that_leave(f, "/a", "", "new"), 1, ALL - 1);
}

static void a_rename_is_done_or_not_done(void **state)
{
    fixture *f = *state;
    put_durably(f, "/a", "old");
    put(f, "/a.tmp", "new", true);
    assert_ok(hs__rename(&f->env, "/a.tmp", "/a", &f->err), &f->err);
    size_t old = losses_that_leave(f, "/a", "old", "new");
    assert_in_range(old, 1, ALL - 1);
    assert_int_equal(losses_that_leave(f, "/a", "new", "old"), ALL - old);
}

static void replacing_a_file_the_right_way_is_safe(void **state)
{
    fixture *f = *state;
    put_durably(f, "/a", "old");
    assert_ok(hs__file_replace(&f->env, "/a", "new", 3, true, &f->err), &f->err);
    assert_int_equal(losses_that_leave(f, "/a", "new", "old"), ALL);
}

static void changes_of_names_come_in_any_order(void **state)
{
    fixture *f = *state;
    put_durably(f, "/a", "a");
    put_durably(f, "/b", "b");
    hs__file_remove(&f->env, "/a");
    hs__file_remove(&f->env, "/b");
    size_t only[2] = {0, 0};
    for (uint64_t seed = 0; seed < 40; seed++) {
        disk after;
        disk_copy(&after, &f->disk);
        disk_lose_power(&after, (disk_loss){DISK_KEEPS_CONTENTS, DISK_KEEPS_SOME_NAMES, seed});
        only[0] += disk_exists(&after, "/a") && !disk_exists(&after, "/b");
        only[1] += disk_exists(&after, "/b") && !disk_exists(&after, "/a");
        disk_free(&after);
    }
    assert_true(only[0] && only[1]);
}

static void files_of_a_lost_directory_are_lost(void **state)
{
    fixture *f = *state;
    assert_ok(f->disk.files.ops->make_directory(&f->disk, "/d", &f->err), &f->err);
    put(f, "/d/a", "a", true);
    assert_ok(hs__sync_directory(&f->env, "/d", &f->err), &f->err);
    disk_lose_power(&f->disk, (disk_loss){DISK_LOSES_CONTENTS, DISK_LOSES_NAMES, 0});
    assert_false(disk_exists(&f->disk, "/d/a"));
}

static void sectors_are_written_in_any_order(void **state)
{
    fixture *f = *state;
    f->disk.sector = 1;
    put_durably(f, "/a", "");
    put(f, "/a", "ab", false);
    size_t second = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        disk after;
        disk_copy(&after, &f->disk);
        disk_lose_power(&after, (disk_loss){DISK_MIXES_SECTORS, DISK_KEEPS_NAMES, seed});
        second += memcmp(disk_find(&after, "/a")->cached.data, "\0b", 2) == 0;
        disk_free(&after);
    }
    assert_true(second);
}

/* Writes a file, and syncs it again after a failed sync. */
static void sync_again_after_a_failure(fixture *f)
{
    hs__file file;
    assert_ok(hs__file_open(&file, &f->env, "/a", HS_OPEN_WRITE, &f->err), &f->err);
    assert_ok(hs__file_write(&file, "new", 3, &f->err), &f->err);
    f->disk.fail_what = "sync";
    f->disk.fail_at = 1;
    f->disk.calls = 0;
    assert_fails(hs__file_sync(&file, &f->err), HS_UNKNOWN, &f->err, "made to fail");
    assert_ok(hs__file_sync(&file, &f->err), &f->err);
    assert_ok(hs__file_close(&file, &f->err), &f->err);
}

static void a_sync_after_a_failed_sync_succeeds_without_effect(void **state)
{
    fixture *f = *state;
    put_durably(f, "/a", "old");
    sync_again_after_a_failure(f);
    assert_string_equal(text_of(&f->disk, "/a", "new", "old"), "new");
    assert_int_equal(losses_that_leave(f, "/a", "new", "old"), 0);
}

static void a_full_disk_writes_what_fits(void **state)
{
    fixture *f = *state;
    hs__file file;
    f->disk.room = 5;
    put(f, "/a", "123", true);
    assert_ok(hs__file_open(&file, &f->env, "/b", HS_OPEN_WRITE, &f->err), &f->err);
    assert_fails(hs__file_write(&file, "456", 3, &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "/b: the disk is full");
    assert_ok(hs__file_close(&file, &f->err), &f->err);
    assert_string_equal(text_of(&f->disk, "/b", "45", ""), "45");
}

static void without_power_nothing_works(void **state)
{
    fixture *f = *state;
    hs__file file;
    put_durably(f, "/a", "old");
    f->disk.cut_at = f->disk.changes + 1;
    assert_true(hs__file_exists(&f->env, "/a"));
    assert_fails(hs__file_open(&file, &f->env, "/a", HS_OPEN_WRITE, &f->err), HS_UNKNOWN, &f->err, "power is off");
    assert_false(hs__file_exists(&f->env, "/a"));
    assert_int_equal(losses_that_leave(f, "/a", "old", ""), ALL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_disk(synced_data_is_never_lost),
        with_disk(unsynced_data_may_be_lost_or_torn),
        with_disk(a_file_without_a_synced_name_may_be_gone),
        with_disk(a_rename_without_a_sync_of_the_contents_may_leave_nothing),
        with_disk(a_rename_is_done_or_not_done),
        with_disk(replacing_a_file_the_right_way_is_safe),
        with_disk(changes_of_names_come_in_any_order),
        with_disk(files_of_a_lost_directory_are_lost),
        with_disk(sectors_are_written_in_any_order),
        with_disk(a_sync_after_a_failed_sync_succeeds_without_effect),
        with_disk(a_full_disk_writes_what_fits),
        with_disk(without_power_nothing_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
