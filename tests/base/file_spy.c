/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_spy.h"

#include <pthread.h>

/* Writer threads call it as well. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
    void *handle;
    char path[];
} spied_file;

static void note(file_spy *spy, const char *what, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t used = strlen(spy->calls);
    if (!spy->noted || !strstr(spy->noted, what))
        return;
    if (spy->strip && strncmp(name, spy->strip, strlen(spy->strip)) == 0)
        name += strlen(spy->strip);
    bool named = !spy->no_names && strcmp(what, "directory") != 0;
    used += (size_t)snprintf(spy->calls + used, sizeof spy->calls - used, "%s%s%s%s", used ? " " : "", what,
                             named ? ":" : "", named ? name : "");
    assert_true(used < sizeof spy->calls);
}

static hs_code called(file_spy *spy, const char *what, const char *path, hs_error *err)
{
    pthread_mutex_lock(&lock);
    note(spy, what, path);
    bool matches = (!spy->what || strcmp(spy->what, what) == 0) && (!spy->where || strstr(path, spy->where));
    spy->matches += matches;
    bool fails = matches && spy->fail_at && (spy->matches == spy->fail_at || (spy->fail_on && spy->matches > spy->fail_at));
    hs_code code = fails ? spy->code : HS_OK;
    bool silent = spy->silent;
    int os_error = spy->os_error;
    pthread_mutex_unlock(&lock);
    if (code && os_error)
        return hs_error_set_errno(err, os_error, "%s: injected into %s", path, what);
    return code && !silent ? hs_error_set(err, code, "%s: injected into %s", path, what) : code;
}

static hs_code spy_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    file_spy *spy = user;
    hs_code code = called(spy, "open", path, err);
    if (code)
        return code;
    spied_file *made = malloc(sizeof *made + strlen(path) + 1);
    assert_non_null(made);
    strcpy(made->path, path);
    if ((code = spy->under.ops->open(spy->under.user, path, mode, &made->handle, err)))
        free(made);
    else
        *file = made;
    return code;
}

static hs_code spy_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    file_spy *spy = user;
    spied_file *spied = file;
    hs_code code = called(spy, "read", spied->path, err);
    if (!code)
        code = spy->under.ops->read(spy->under.user, spied->handle, offset, data, bytes, got, err);
    pthread_mutex_lock(&lock);
    spy->bytes_read += code ? 0 : *got;
    pthread_mutex_unlock(&lock);
    return code;
}

static hs_code spy_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    file_spy *spy = user;
    spied_file *spied = file;
    hs_code code = called(spy, "write", spied->path, err);
    return code ? code : spy->under.ops->write(spy->under.user, spied->handle, data, bytes, err);
}

static hs_code spy_sync(void *user, void *file, hs_error *err)
{
    file_spy *spy = user;
    spied_file *spied = file;
    hs_code code = called(spy, "sync", spied->path, err);
    return code ? code : spy->under.ops->sync(spy->under.user, spied->handle, err);
}

/* Closes the file even if it fails. */
static hs_code spy_close(void *user, void *file, hs_error *err)
{
    file_spy *spy = user;
    spied_file *spied = file;
    hs_code code = called(spy, "close", spied->path, err);
    hs_code closed = spy->under.ops->close(spy->under.user, spied->handle, code ? NULL : err);
    free(spied);
    return code ? code : closed;
}

static hs_code spy_rename(void *user, const char *from, const char *to, hs_error *err)
{
    file_spy *spy = user;
    hs_code code = called(spy, "rename", to, err);
    return code ? code : spy->under.ops->rename(spy->under.user, from, to, err);
}

static hs_code spy_remove(void *user, const char *path, hs_error *err)
{
    file_spy *spy = user;
    hs_code code = called(spy, "remove", path, err);
    return code ? code : spy->under.ops->remove(spy->under.user, path, err);
}

static hs_code spy_sync_directory(void *user, const char *path, hs_error *err)
{
    file_spy *spy = user;
    hs_code code = called(spy, "directory", path, err);
    return code ? code : spy->under.ops->sync_directory(spy->under.user, path, err);
}

static hs_code spy_make_directory(void *user, const char *path, hs_error *err)
{
    file_spy *spy = user;
    hs_code code = called(spy, "make", path, err);
    return code ? code : spy->under.ops->make_directory(spy->under.user, path, err);
}

static hs_code spy_stat(void *user, const char *path, hs_file_stat *out, hs_error *err)
{
    file_spy *spy = user;
    hs_code code = called(spy, "stat", path, err);
    return code ? code : spy->under.ops->stat(spy->under.user, path, out, err);
}

static hs_code spy_list(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor,
                        hs_error *err)
{
    file_spy *spy = user;
    hs_code code = called(spy, "list", path, err);
    return code ? code : spy->under.ops->list(spy->under.user, path, visit, visitor, err);
}

void file_spy_init(file_spy *spy, const hs_env *env)
{
    static const hs_file_system_ops ops =
        HS_INIT(hs_file_system_ops, .open = spy_open, .read = spy_read, .write = spy_write, .sync = spy_sync,
                .close = spy_close, .rename = spy_rename, .remove = spy_remove, .sync_directory = spy_sync_directory,
                .make_directory = spy_make_directory, .stat = spy_stat, .list = spy_list);
    *spy = (file_spy){.env = *env, .under = env->files, .code = HS_UNKNOWN};
    spy->env.files = (hs_file_system){&ops, spy};
}

void file_spy_forget(file_spy *spy)
{
    pthread_mutex_lock(&lock);
    spy->calls[0] = '\0';
    pthread_mutex_unlock(&lock);
}

void file_spy_fail(file_spy *spy, size_t n, hs_code code)
{
    pthread_mutex_lock(&lock);
    spy->matches = 0;
    spy->fail_at = n;
    spy->code = code;
    pthread_mutex_unlock(&lock);
}
