/* SPDX-License-Identifier: Apache-2.0 */
/* Loads TensorFlow's library, and discards the log output of the load. */
#include "tensorflow/tf_api.h"

#include "base/c_locale.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libtensorflow_cc.so.2"

/* Only one thread at a time may redirect stderr and load the library. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Redirects stderr to /dev/null, as the library's static initializers log before their level can be set. Returns a copy of
 * stderr, or -1. */
static int silence_stderr(void)
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

static void restore_stderr(int kept)
{
    if (kept < 0)
        return;
    dup2(kept, STDERR_FILENO);
    close(kept);
}

/* Loads `path`, or `fallback` if that fails. NULL: no fallback. */
static void *load(const char *path, const char *fallback)
{
    const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    void *library = dlopen(path, flags);
    return library || !fallback ? library : dlopen(fallback, flags);
}

static void *load_quietly(const char *path, const char *fallback, bool show_log)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    if (library || show_log)
        return library ? library : load(path, fallback);
    setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
    int kept = silence_stderr();
    library = load(path, fallback);
    restore_stderr(kept);
    return library;
}

/* Sets *path to the path of the options or of the environment, with no fallback. Without both: the library's name, and as
 * fallback its place when this library was built. The caller frees *path. */
static hs_code choose_path(const hs_tensorflow_options *options, char **path, const char **fallback, hs_error *err)
{
    const hs_env *env = options->env;
    const char *root = getenv("TENSORFLOW_ROOT");
    bool named = options->library && *options->library, rooted = root && *root;
    *path = named    ? hs__strdup(env, options->library)
            : rooted ? hs__format(env, "%s/" LIBRARY, root)
                     : hs__strdup(env, LIBRARY);
    *fallback = named || rooted ? NULL : HS__TENSORFLOW_ROOT "/" LIBRARY;
    return *path ? HS_OK : hs__no_memory(err, sizeof LIBRARY, "a path");
}

/* Copies the address as bytes: C has no conversion from void * to a function pointer, but POSIX defines the bytes. */
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
    const char *fallback;
    hs_code code = choose_path(options, &path, &fallback, err);
    if (code)
        return code;
    pthread_mutex_lock(&loading);
    void *library = load_quietly(path, fallback, options->show_log);
    hs__c_locale locale = hs__c_locale_begin(); /* for dlerror */
    if (!library)
        code = hs_error_set(err, HS_NOT_FOUND, "cannot load TensorFlow's library%s: %s",
                            fallback || (options->library && *options->library) ? "" : " from TENSORFLOW_ROOT", dlerror());
    hs__c_locale_end(locale);
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
