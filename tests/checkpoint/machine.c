/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/machine.h"

#include "checkpoint/restore.h"

void machine_fail(const machine *c, const char *what)
{
    static const char *const contents[] = {"lost", "kept", "torn", "torn at sectors", "mixed sectors", "zeroed"};
    static const char *const names[] = {"lost", "kept", "the first kept", "some kept", "one lost"};
    fail_msg("%s, %zu and %zu; contents %s, names %s, seed %llu: %s: %s\n%s", c->story, c->story_at[0], c->story_at[1],
             contents[c->loss.contents], names[c->loss.names], (unsigned long long)c->loss.seed, what, c->err.message,
             c->t ? c->t->log : "");
}

void machine_init(machine *c, const char *story)
{
    memset(c, 0, sizeof *c);
    disk_init(&c->disk);
    c->story = story;
    c->quiet = true;
    c->keep = 2;
}

void machine_copy(machine *to, const machine *from)
{
    *to = *from;
    disk_copy(&to->disk, &from->disk);
    to->m = (model){.step = 0};
    to->saver = NULL;
    to->t = NULL;
}

void machine_free(machine *c)
{
    machine_end(c);
    disk_free(&c->disk);
}

/* The process. */

static void set_content(machine *c, int64_t content)
{
    model_set(&c->m, content);
    for (int i = 0; i < TABLE; i++)
        c->table[i] = (float)(content * 1000 + i);
}

static bool has_content(const machine *c, int64_t content)
{
    bool same = model_is(&c->m, content);
    for (int i = 0; same && c->kind.large && i < TABLE; i++)
        same = c->table[i] == (float)(content * 1000 + i);
    return same;
}

void machine_start(machine *c)
{
    c->t = malloc(sizeof *c->t);
    assert_non_null(c->t);
    test_env_init(c->t);
    c->t->env.files = c->disk.files;
    model_build(&c->m, &c->t->env);
    if (c->kind.large)
        hs_graph_variable(c->m.graph, "table", HS_FLOAT, HS_SHAPE(TABLE), c->table);
    c->m.session = hs_session_open(hs_graph_backend(c->m.graph), NULL, &c->err);
    c->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &c->t->env, .max_to_keep = c->keep), &c->err);
    if (!c->m.session || !c->saver)
        machine_fail(c, "cannot start");
    set_content(c, 0);
    c->at = 0;
}

void machine_end(machine *c)
{
    if (!c->saver)
        return;
    model_close(&c->m);
    hs_saver_free(c->saver);
    c->saver = NULL;
    if (c->t->live)
        machine_fail(c, "blocks are left");
    if (c->disk.handles || c->disk.locks)
        machine_fail(c, "files are open");
    free(c->t);
    c->t = NULL;
}

void machine_lose_power(machine *c, disk_loss loss)
{
    c->disk.off = true;
    machine_end(c);
    c->loss = loss;
    c->settled = true;
    disk_lose_power(&c->disk, loss);
}

void machine_lose_process(machine *c)
{
    c->disk.off = true;
    machine_end(c);
    c->settled = false;
    disk_lose_process(&c->disk);
}

disk_loss machine_loss(size_t n)
{
    return (disk_loss){(int)(n % DISK_CONTENTS_LOSSES), (int)(n / DISK_CONTENTS_LOSSES % DISK_NAMES_LOSSES), n};
}

/* Saving and restoring. */

/* Where the step goes apart, or nowhere. */
static const char *prefix_of(int64_t name)
{
    static const char *const without_step[] = {"/run/model.ckpt", "/run/first", "/run/second"};
    return without_step[name < 0 ? -name : 0];
}

static void path_of(char path[64], int64_t name)
{
    int length = snprintf(path, 64, "%s", prefix_of(name));
    if (name >= 0)
        snprintf(path + length, 64 - (size_t)length, "-%lld", (long long)name);
}

static int shards_of(const machine *c, int64_t content)
{
    int most = c->kind.shards ? c->kind.shards : 1;
    return c->kind.changing ? 1 + (int)(content % most) : most;
}

hs_code machine_save_as(machine *c, int64_t name)
{
    assert_true(c->begun < MOST_SAVES);
    machine_save *save = &c->saves[c->begun++];
    *save = (machine_save){name, ++c->contents};
    set_content(c, save->content);
    c->saver->shards = shards_of(c, save->content);
    c->at = c->begun;
    hs_code code = hs_saver_save(c->saver, model_raw(&c->m), prefix_of(name), name < 0 ? -1 : name, NULL, &c->err);
    if (!code && !c->disk.off)
        c->sure = c->begun;
    return code;
}

/* The save whose contents the restored model has. */
static size_t find_save(const machine *c, const char *path)
{
    char saved[64];
    for (size_t i = c->begun; i > 0; i--) {
        path_of(saved, c->saves[i - 1].name);
        if (has_content(c, c->saves[i - 1].content) && strcmp(path, saved) == 0)
            return i;
    }
    machine_fail(c, "the restored contents were never saved");
    return 0;
}

/* Without a state file the saver deletes only the newest later. */
static void note_strays(machine *c)
{
    size_t n = disk_count_files(&c->disk, "/run", ".index") - disk_count_files(&c->disk, "/run", ".index.tmp");
    if (!disk_exists(&c->disk, "/run/checkpoint") && n > 1)
        c->strays = n - 1;
}

bool machine_restore(machine *c)
{
    char *path = NULL;
    note_strays(c);
    size_t failed = c->disk.failed;
    set_content(c, 999);
    hs_code code = hs__restore_newest(c->saver, model_raw(&c->m), "/run", HS_RESTORE_OPTIONS(), &path, &c->err);
    if (code) {
        if (!c->disk.off && c->disk.failed == failed)
            machine_fail(c, "cannot restore");
        if (!has_content(c, 999))
            machine_fail(c, "a restore that failed changed the model");
        return false;
    }
    size_t found = path ? find_save(c, path) : 0;
    if (!path)
        set_content(c, 0);
    hs_env_free(&c->t->env, path);
    if (c->disk.off)
        return false;
    if (found < c->sure)
        machine_fail(c, "the restored checkpoint is older than the newest durable one");
    if (c->quiet && c->disk.failed == failed && strstr(c->t->log, "WARNING"))
        machine_fail(c, "there was a warning");
    c->at = c->begun = found; /* later saves that were started are lost */
    if (c->settled)
        c->sure = found;
    return true;
}

bool machine_resume(machine *c)
{
    size_t failed = c->disk.failed;
    if (!machine_restore(c))
        return false;
    int64_t name = c->at ? c->saves[c->at - 1].name : 0;
    for (int i = 1; i <= 2; i++)
        if (machine_save_as(c, name + i)) {
            if (!c->disk.off && c->disk.failed == failed)
                machine_fail(c, "cannot save");
            return false;
        }
    return !c->disk.off;
}

/* Index, meta and data, and no other files. */
static bool is_complete(const machine *c, const machine_save *save)
{
    char path[64], part[80];
    path_of(path, save->name);
    const char *name = strrchr(path, '/');
    snprintf(part, sizeof part, "%s.data-", name);
    bool has_data = disk_count_files(&c->disk, "/run", part) == (size_t)shards_of(c, save->content);
    snprintf(part, sizeof part, "%s.", name);
    return has_data && disk_count_files(&c->disk, "/run", part) == (size_t)shards_of(c, save->content) + 2;
}

void machine_check_files(const machine *c)
{
    size_t n = disk_count_files(&c->disk, "/run", ""), checkpoints = disk_count_files(&c->disk, "/run", ".index");
    size_t data = disk_count_files(&c->disk, "/run", ".data-");
    bool complete = disk_exists(&c->disk, "/run/checkpoint") &&
                    (c->put_off || (n == 2 + 2 * checkpoints + data && checkpoints >= 2 && checkpoints <= 2 + c->strays));
    for (size_t i = c->begun; complete && i > c->begun - 2; i--)
        complete = is_complete(c, &c->saves[i - 1]);
    if (complete)
        return;
    for (size_t i = 0; i < c->disk.cached.n; i++)
        fprintf(stderr, "%s\n", c->disk.cached.items[i].path);
    machine_fail(c, "there are other files than those of two checkpoints");
}

void machine_recover(machine *c)
{
    machine_start(c);
    if (!machine_resume(c))
        machine_fail(c, "it does not go on");
    machine_check_files(c);
    machine_lose_power(c, (disk_loss){DISK_LOSES_CONTENTS, DISK_LOSES_NAMES, 0});
    machine_start(c);
    if (!machine_restore(c))
        machine_fail(c, "nothing is restored");
    machine_end(c);
}

void machine_save_all(machine *c, const int *names)
{
    machine_start(c);
    for (size_t i = 0; names[i] && !c->disk.off; i++)
        if (machine_save_as(c, names[i]) && !c->disk.off)
            machine_fail(c, "cannot save");
}

bool machine_cut_saving(machine *c, const int *names, size_t at, machine_kind kind)
{
    machine_init(c, "saving");
    c->kind = kind;
    c->story_at[0] = c->disk.cut_at = at;
    machine_save_all(c, names);
    bool cut = c->disk.off;
    c->disk.off = true;
    machine_end(c);
    return cut;
}

void machine_recover_from_each_loss(const machine *left, size_t seeds)
{
    machine c;
    for (size_t n = 0; n <= seeds * MACHINE_LOSSES; n++) {
        machine_copy(&c, left);
        if (n)
            machine_lose_power(&c, machine_loss(n));
        else
            machine_lose_process(&c);
        machine_recover(&c);
        machine_free(&c);
    }
}

void machine_cut_resuming(const machine *left, size_t loss)
{
    machine c;
    bool cut = true;
    for (size_t at = 1; cut; at++) {
        machine_copy(&c, left);
        c.story_at[1] = at;
        c.disk.cut_at = c.disk.changes + at;
        machine_start(&c);
        machine_resume(&c);
        cut = c.disk.off;
        machine_lose_power(&c, machine_loss(loss + at));
        machine_recover(&c);
        machine_free(&c);
    }
}

/* A long life of mishaps. */

static size_t below(uint64_t *random, size_t n)
{
    return (size_t)(disk_random(random) % n);
}

/* Old saves are dropped from the list. */
static void forget_the_past(machine *c)
{
    enum { REMEMBERED = 8 };
    if (c->begun <= REMEMBERED)
        return;
    size_t gone = c->begun - REMEMBERED;
    memmove(c->saves, c->saves + gone, REMEMBERED * sizeof *c->saves);
    c->begun -= gone;
    c->at -= gone;
    c->sure -= c->sure < gone ? c->sure : gone;
}

/* A process that saves, sometimes the same step again, until it fails. */
static void live_on(machine *c, uint64_t *random)
{
    enum { INSTANTS = 120, CALLS = 200, SAVES = 4 };
    machine_start(c);
    if (below(random, 4))
        c->disk.cut_at = c->disk.changes + 1 + below(random, INSTANTS);
    if (below(random, 3) == 0) {
        c->disk.fail_at = c->disk.calls + 1 + below(random, CALLS);
        c->disk.fail_until = c->disk.fail_at + below(random, 5);
        c->disk.fail_late = below(random, 2);
    }
    if (!machine_restore(c))
        return;
    forget_the_past(c);
    for (size_t i = 0; i < SAVES && !c->disk.off; i++) {
        int64_t name = c->begun ? c->saves[c->begun - 1].name + (int64_t)below(random, 3) : 1;
        machine_save_as(c, name);
    }
}

void machine_survive(machine_kind kind, size_t lives)
{
    machine c;
    uint64_t random = 1;
    machine_init(&c, "life");
    c.kind = kind;
    c.quiet = false;
    for (size_t life = 1; life <= lives; life++) {
        c.story_at[0] = life;
        live_on(&c, &random);
        if (below(&random, 4) == 0)
            machine_lose_process(&c);
        else
            machine_lose_power(&c, machine_loss(below(&random, 1000 * MACHINE_LOSSES)));
    }
    assert_true(c.contents > (int64_t)lives);
    machine_free(&c);
}
