/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a simulated rank: its files and its log end when the rank is killed. */
#include <hooksess/testing.h>

#include "testing/simulation.h"

/* Counts a file call of the rank. Returns an error if the rank is killed before the call, or by it. *dies: by it. */
static hs_code count_call(hs__rank *rank, const char *what, bool *dies, hs_error *err)
{
    hs_simulation *simulation = rank->simulation;
    pthread_mutex_lock(&simulation->lock);
    *dies = false;
    if (!atomic_load(&rank->killed) && ++rank->n_file_calls == rank->killed_in_file_call) {
        *dies = true;
        hs__string_buffer_add(&simulation->trace, "rank %d: is killed in file call %s\n", (int)rank->number, what);
        hs__rank_kill(rank, "was killed");
    }
    bool killed = atomic_load(&rank->killed);
    pthread_mutex_unlock(&simulation->lock);
    return killed ? hs_error_set(err, HS_UNKNOWN, "%s: rank %d was killed", what, (int)rank->number) : HS_OK;
}

/* Does not return to a killed rank before its last turn. */
static void block_killed(hs__rank *rank)
{
    if (!hs__rank_is_self(rank))
        return;
    pthread_mutex_lock(&rank->simulation->lock);
    hs__rank_block(rank);
    pthread_mutex_unlock(&rank->simulation->lock);
}

/* Counts a file call. Returns an error if it does not happen. */
static hs_code begin_call(hs__rank *rank, const char *what, hs_error *err)
{
    bool dies;
    hs_code code = count_call(rank, what, &dies, err);
    if (code)
        block_killed(rank);
    return code;
}

static hs_code rank_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "open", err);
    return code ? code : simulation->files.open(simulation->env.files.user, path, mode, file, err);
}

static hs_code rank_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "read", err);
    return code ? code : simulation->files.read(simulation->env.files.user, file, offset, data, bytes, got, err);
}

static hs_code rank_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    bool dies;
    hs_code code = count_call(rank, "write", &dies, err);
    if (!code)
        return simulation->files.write(simulation->env.files.user, file, data, bytes, err);
    if (dies && bytes > 1)
        simulation->files.write(simulation->env.files.user, file, data, bytes / 2, NULL);
    block_killed(rank);
    return code;
}

static hs_code rank_sync(void *user, void *file, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "sync", err);
    return code || !simulation->syncs ? code : simulation->files.sync(simulation->env.files.user, file, err);
}

/* Always closes, so that the handle is freed. */
static hs_code rank_close(void *user, void *file, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "close", err);
    hs_code closed = simulation->files.close(simulation->env.files.user, file, code ? NULL : err);
    return code ? code : closed;
}

static hs_code rank_rename(void *user, const char *from, const char *to, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "rename", err);
    return code ? code : simulation->files.rename(simulation->env.files.user, from, to, err);
}

static hs_code rank_remove(void *user, const char *path, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "remove", err);
    return code ? code : simulation->files.remove(simulation->env.files.user, path, err);
}

static hs_code rank_sync_directory(void *user, const char *path, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "sync_directory", err);
    return code || !simulation->syncs ? code : simulation->files.sync_directory(simulation->env.files.user, path, err);
}

static hs_code rank_make_directory(void *user, const char *path, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "make_directory", err);
    return code ? code : simulation->files.make_directory(simulation->env.files.user, path, err);
}

static hs_code rank_stat(void *user, const char *path, hs_file_stat *out, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "stat", err);
    return code ? code : simulation->files.stat(simulation->env.files.user, path, out, err);
}

static hs_code rank_list(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor,
                         hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "list", err);
    return code ? code : simulation->files.list(simulation->env.files.user, path, visit, visitor, err);
}

static hs_code rank_lock(void *user, const char *path, void **lock, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "lock", err);
    return code ? code : simulation->files.lock(simulation->env.files.user, path, lock, err);
}

static void rank_unlock(void *user, void *lock)
{
    const hs_simulation *simulation = ((hs__rank *)user)->simulation;
    simulation->files.unlock(simulation->env.files.user, lock);
}

static hs_code rank_free_space(void *user, const char *path, uint64_t *bytes, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "free_space", err);
    return code ? code : simulation->files.free_space(simulation->env.files.user, path, bytes, err);
}

static hs_code rank_remove_directory(void *user, const char *path, hs_error *err)
{
    hs__rank *rank = user;
    const hs_simulation *simulation = rank->simulation;
    hs_code code = begin_call(rank, "remove_directory", err);
    return code ? code : simulation->files.remove_directory(simulation->env.files.user, path, err);
}

/* Functions that the base lacks are NULL. */
void hs__simulation_make_files(hs_simulation *simulation)
{
    const hs_file_system_ops *base = &simulation->files;
    simulation->rank_files = (hs_file_system_ops)HS_INIT(
        hs_file_system_ops, .open = rank_open, .read = rank_read, .write = rank_write, .sync = rank_sync,
        .close = rank_close, .rename = rank_rename, .remove = rank_remove, .sync_directory = rank_sync_directory,
        .make_directory = rank_make_directory, .stat = rank_stat, .list = rank_list, .lock = base->lock ? rank_lock : NULL,
        .unlock = base->unlock ? rank_unlock : NULL, .free_space = base->free_space ? rank_free_space : NULL,
        .remove_directory = base->remove_directory ? rank_remove_directory : NULL);
}

static void rank_log(void *user, hs_log_level level, const char *text)
{
    const hs__rank *rank = user;
    const hs_logger *logger = &rank->simulation->env.logger;
    if (!atomic_load(&rank->killed))
        logger->write(logger->user, level, text);
}

void hs__rank_make_env(hs__rank *rank)
{
    rank->env = rank->simulation->env;
    rank->env.logger = (hs_logger){rank_log, rank};
    rank->env.files = (hs_file_system){&rank->simulation->rank_files, rank};
}

const hs_env *hs_simulation_env(const hs_group *group)
{
    const hs__rank *rank = hs__simulated_rank(group);
    return rank ? &rank->env : hs_test_system_env(NULL);
}

bool hs_simulation_is_killed(const hs_group *group)
{
    const hs__rank *rank = hs__simulated_rank(group);
    return rank && atomic_load(&rank->killed);
}
