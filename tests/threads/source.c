/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/source.h"

typedef struct {
    source *source;
} handle;

static hs_code open_handle(source *s, void **made)
{
    handle *h = hs_env_alloc(s->env, sizeof *h);
    if (!h)
        return HS_RESOURCE_EXHAUSTED;
    h->source = s;
    pthread_mutex_lock(&s->lock);
    s->open++;
    pthread_mutex_unlock(&s->lock);
    *made = h;
    return HS_OK;
}

static hs_code s_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)target, (void)config, (void)err;
    return open_handle(self, session);
}

static hs_code s_fork(void *session, void **forked, hs_error *err)
{
    source *s = ((handle *)session)->source;
    return s->fork_fails ? hs_error_set(err, HS_UNAVAILABLE, "no fork") : open_handle(s, forked);
}

static hs_code s_close(void *session, hs_error *err)
{
    source *s = ((handle *)session)->source;
    (void)err;
    pthread_mutex_lock(&s->lock);
    s->open--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    hs_env_free(s->env, session);
    return HS_OK;
}

static source_op *find_op(source *s, const char *name)
{
    for (source_op *op = s->ops; op->name; op++)
        if (!strcmp(op->name, name))
            return op;
    return NULL;
}

static hs_code s_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    *node = (hs_node){find_op(self, name), -1, 0};
    return node->op ? HS_OK : hs_error_set(err, HS_NOT_FOUND, "there is no '%s'", name);
}

/* Call with the lock held. */
static hs_code run_op(source *s, source_op *op, hs_error *err)
{
    s->tried++;
    pthread_cond_broadcast(&s->changed);
    if (op->calls < op->limit) {
        op->calls++;
        s->cancelled |= !strcmp(op->name, "q/cancel");
        return HS_OK;
    }
    while (op->blocks && !s->cancelled)
        pthread_cond_wait(&s->changed, &s->lock);
    return hs_error_set(err, op->blocks && !op->code ? HS_CANCELLED : op->code, "%s%s",
                        op->message ? op->message : op->name, op->message ? "" : " has ended");
}

static hs_code s_run(void *session, hs_backend_call *call, hs_error *err)
{
    source *s = ((handle *)session)->source;
    hs_code code = HS_OK;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; !code && i < call->n_fetches; i++)
        code = run_op(s, call->fetches[i].op, err);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return code;
}

static bool s_collection_item(void *self, const char *key, size_t index, const void **item)
{
    const source *s = self;
    size_t n = 0;
    while (s->runners[n])
        n++;
    if (index >= n || strcmp(key, HS_QUEUE_RUNNERS) != 0)
        return false;
    *item = s->runners[index];
    return true;
}

static const hs_env *s_env(void *self)
{
    return ((source *)self)->env;
}

static const hs_backend_ops ops =
    HS_INIT(hs_backend_ops, .name = "source", .env = s_env, .find = s_find, .open = s_open, .run = s_run, .close = s_close,
            .fork = s_fork, .collection_item = s_collection_item);

static void open_raw(source *s, hs_raw_session *raw)
{
    *raw = (hs_raw_session){.env = *s->env, .backend = {&ops, s}, .ops = ops, .opened = 1};
    s_open(s, "", (hs_bytes){NULL, 0}, &raw->handle, NULL);
}

void source_init(source *s, const hs_env *env)
{
    memset(s, 0, sizeof *s);
    test_env_init(&s->t);
    s->env = env ? env : &s->t.env;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    source_add(s, (source_op){.name = "q/close", .limit = 100});
    source_add(s, (source_op){.name = "q/cancel", .limit = 100});
    open_raw(s, &s->raw);
    open_raw(s, &s->other);
}

void source_end(source *s)
{
    for (int i = 0; i < 2; i++)
        if ((i ? &s->other : &s->raw)->handle)
            s_close((i ? &s->other : &s->raw)->handle, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

int source_setup(void **state)
{
    source *s = malloc(sizeof *s);
    if (!s)
        return -1;
    source_init(s, NULL);
    *state = s;
    return 0;
}

int source_teardown(void **state)
{
    source *s = *state;
    source_end(s);
    bool left = s->open || s->t.live;
    free(s);
    return left ? -1 : 0;
}

source_op *source_add(source *s, source_op op)
{
    source_op *at = s->ops;
    while (at->name)
        at++;
    assert_true(at < s->ops + SOURCE_MAX - 1);
    *at = op;
    return at;
}

int source_calls(source *s, const char *name)
{
    pthread_mutex_lock(&s->lock);
    int calls = find_op(s, name)->calls;
    pthread_mutex_unlock(&s->lock);
    return calls;
}

void source_wait_tried(source *s, int n)
{
    pthread_mutex_lock(&s->lock);
    while (s->tried < n)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

size_t source_count_threads(const hs_threads *threads)
{
    size_t n = 0;
    while (threads->items && threads->items[n])
        n++;
    return n;
}

hs_thread *source_thread(const hs_threads *threads, size_t index)
{
    return index < source_count_threads(threads) ? threads->items[index] : NULL;
}

void source_wait_threads(hs_threads *threads)
{
    for (size_t i = 0; i < source_count_threads(threads); i++)
        assert_true(hs_thread_wait(threads->items[i], HS_NEVER));
    hs_threads_free(threads);
}
