/* SPDX-License-Identifier: Apache-2.0 */
/* Loading TensorFlow's library, quietly. */
#include "tensorflow/tf_api.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libtensorflow_cc.so.2"

/* Only one thread at a time may have stderr set aside. The loader's own state is the process's as well. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Its static initializers log before anything can be said to them. */
static int set_stderr_aside(void)
{
    int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    int nowhere = kept < 0 ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) {
        dup2(nowhere, STDERR_FILENO);
        close(nowhere);
        return kept;
    }
    if (kept >= 0)
        close(kept);
    return -1;
}

static void bring_stderr_back(int kept)
{
    if (kept < 0)
        return;
    dup2(kept, STDERR_FILENO);
    close(kept);
}

/* `then` is tried where the first path leads nowhere; NULL: nothing is. */
static void *load(const char *path, const char *then)
{
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    void *library = dlopen(path, flags);
    return library || !then ? library : dlopen(then, flags);
}

static void *load_quietly(const char *path, const char *then, bool show_log)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (library || show_log)
        return library ? library : load(path, then);
    setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
    int kept = set_stderr_aside();
    library = load(path, then);
    bring_stderr_back(kept);
    return library;
}

/* What the options or the environment name; else just the library's name, and then where it was when this was built. *path
 * is to be freed. */
static hs_code choose_path(const hs_tensorflow_options *options, char **path, const char **then, hs_error *err)
{
    const hs_env *env = options->env;
    const char *root = getenv("TENSORFLOW_ROOT");
    bool named = options->library && *options->library, rooted = root && *root;
    *path = named    ? hs__strdup(env, options->library)
            : rooted ? hs__format(env, "%s/" LIBRARY, root)
                     : hs__strdup(env, LIBRARY);
    *then = named || rooted ? NULL : HS__TENSORFLOW_ROOT "/" LIBRARY;
    return *path ? HS_OK : hs__no_memory(err, sizeof LIBRARY, "a path");
}

/* A function's address is no pointer to an object in C; POSIX says that it can be read as one. */
static bool look_up(void *library, const char *name, void *function, size_t bytes, hs_error *err)
{
    void *address = dlsym(library, name);
    if (!address)
        hs_error_set(err, HS_FAILED_PRECONDITION, "TensorFlow's library lacks the function %s", name);
    else
        memcpy(function, &address, bytes);
    return address != NULL;
}

hs_code hs__tf_load(hs__tf_api *api, const hs_tensorflow_options *options, hs_error *err)
{
    char *path;
    const char *then;
    hs_code code = choose_path(options, &path, &then, err);
    if (code)
        return code;
    pthread_mutex_lock(&loading);
    void *library = load_quietly(path, then, options->show_log);
    if (!library)
        code = hs_error_set(err, HS_NOT_FOUND, "cannot load TensorFlow's library%s: %s",
                            then || (options->library && *options->library) ? "" : " from TENSORFLOW_ROOT", dlerror());
    pthread_mutex_unlock(&loading);
    hs__free(options->env, path);
    if (code)
        return code;
#define LOOK_UP(name)                                                                                                      \
    if (!look_up(library, "TF_" #name, &api->name, sizeof api->name, err))                                                 \
        return HS_FAILED_PRECONDITION;
    HS__TF_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return HS_OK;
}
