/* SPDX-License-Identifier: Apache-2.0 */
/* Also runs the ops of tests/threads/source.c in TensorFlow. Each session of the source is paired with a TensorFlow
 * session, and each fork with a fork, which first runs an op of the same name in the same thread. */
#include "tensorflow/stand_in/engine.h"
#include "threads/source.h"

int __real_source_setup(void **state);
int __real_source_teardown(void **state);
void __real_source_init(source *s, const hs_env *env);
void __real_source_end(source *s);

int __wrap_source_setup(void **state);
int __wrap_source_teardown(void **state);
void __wrap_source_init(source *s, const hs_env *env);
void __wrap_source_end(source *s);

enum { MOST = 64 };

/* One graph for all sources. The lock guards all of this, but runs are outside of it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hs_backend tf;
static int sources;
static struct {
    const void *handle; /* the source's; NULL: a free entry */
    void *session;      /* TensorFlow's */
} pairs[MOST];

static void *session_of(const void *handle)
{
    void *found = NULL;
    for (int i = 0; !found && i < MOST; i++)
        if (handle && pairs[i].handle == handle)
            found = pairs[i].session;
    return found;
}

static void pair(const void *handle, void *session)
{
    for (int i = 0; i < MOST; i++)
        if (!pairs[i].handle) {
            pairs[i].handle = handle;
            pairs[i].session = session;
            return;
        }
}

/* Closes the paired session. A fork may be closed after its session. */
static void unpair(const void *handle)
{
    for (int i = 0; i < MOST; i++)
        if (handle && pairs[i].handle == handle) {
            tf.ops->close(pairs[i].session, NULL);
            pairs[i].handle = NULL;
        }
}

static hs_code find_op(const char *name, hs_node *node, hs_error *err)
{
    if (tf.ops->find(tf.self, name, node, NULL) == HS_OK)
        return HS_OK;
    hs_code code = engine_add(tf, "NoOp", name, NULL, NULL, HS_DTYPE_NONE, err);
    return code ? code : tf.ops->find(tf.self, name, node, err);
}

static hs_code run_in_tensorflow(const void *handle, const char *name, hs_error *err)
{
    hs_node node;
    hs_tensor value;
    hs_backend_call call = {.size = sizeof call, .fetches = &node, .n_fetches = 1, .values = &value};
    pthread_mutex_lock(&lock);
    void *session = session_of(handle);
    hs_code code = session ? find_op(name, &node, err) : hs_error_set(err, HS_INTERNAL, "it has no TensorFlow session");
    pthread_mutex_unlock(&lock);
    return code ? code : tf.ops->run(session, &call, err);
}

/* The source's own functions. */
static hs_backend_ops theirs;

static hs_code so_run(void *handle, hs_backend_call *call, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < call->n_fetches; i++)
        code = run_in_tensorflow(handle, ((const source_op *)call->fetches[i].op)->name, err);
    return code ? code : theirs.run(handle, call, err);
}

static hs_code so_fork(void *handle, void **forked, hs_error *err)
{
    void *session;
    hs_code code = theirs.fork(handle, forked, err);
    if (code)
        return code;
    pthread_mutex_lock(&lock);
    if (!(code = tf.ops->fork(session_of(handle), &session, err)))
        pair(*forked, session);
    pthread_mutex_unlock(&lock);
    if (code)
        theirs.close(*forked, NULL);
    return code;
}

static hs_code so_close(void *handle, hs_error *err)
{
    pthread_mutex_lock(&lock);
    unpair(handle);
    pthread_mutex_unlock(&lock);
    return theirs.close(handle, err);
}

static void pair_session(hs_raw_session *raw)
{
    static hs_backend_ops ops;
    void *session;
    ops = theirs = *raw->backend.ops;
    ops.run = so_run;
    ops.fork = so_fork;
    ops.close = so_close;
    raw->backend.ops = &ops;
    raw->ops = ops;
    if (!raw->handle)
        return; /* memory was exhausted */
    assert_int_equal(tf.ops->open(tf.self, NULL, (hs_bytes){NULL, 0}, &session, NULL), HS_OK);
    pair(raw->handle, session);
}

static void begin(source *s)
{
    hs_error err = {0};
    pthread_mutex_lock(&lock);
    if (!sources++) {
        engine_graphs++;
        tf = engine_open(NULL, &err);
        assert_ok(err.code, &err);
    }
    pair_session(&s->raw);
    pair_session(&s->other);
    pthread_mutex_unlock(&lock);
}

static void end(const source *s)
{
    pthread_mutex_lock(&lock);
    unpair(s->raw.handle);
    unpair(s->other.handle);
    if (!--sources)
        hs_tensorflow_free(tf);
    pthread_mutex_unlock(&lock);
}

void __wrap_source_init(source *s, const hs_env *env)
{
    __real_source_init(s, env);
    begin(s);
}

void __wrap_source_end(source *s)
{
    end(s);
    __real_source_end(s);
}

int __wrap_source_setup(void **state)
{
    int failed = __real_source_setup(state);
    if (!failed)
        begin(*state);
    return failed;
}

int __wrap_source_teardown(void **state)
{
    end(*state);
    return __real_source_teardown(state);
}
