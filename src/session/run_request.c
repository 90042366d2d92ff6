/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles run args into requests, and finds the request of args again: hs__request_matches compares args with the request
 * that their requester used last; hs__request_search measures and hashes other args, looks for a request with their
 * contents, and otherwise compiles a new one. */
#include "session/run_request.h"

#include "base/buffer.h"

#include <stdio.h>
#include <string.h>

/* If there are more requests, the least recently used one is evicted. A caller with new fetches in each step does not
 * exhaust the memory. */
enum { MAX_REQUESTS = 4096, MAX_TOKENS = 1 << 24 };

hs_code hs__requests_init(hs__requests *all, const hs_env *env, const hs_backend_ops *ops, void *backend,
                          size_t n_requesters, hs_error *err)
{
    *all = (hs__requests){.env = env, .ops = ops, .backend = backend, .n_requesters = n_requesters};
    hs__map_init(&all->strings, env);
    hs__map_init(&all->by_node, env);
    all->last = hs__alloc(env, n_requesters, sizeof *all->last);
    return all->last ? HS_OK : hs__no_memory(err, n_requesters * sizeof *all->last, "the plan of a run");
}

void hs__requests_free(hs__requests *all)
{
    if (!all->env)
        return; /* hs__requests_init was not called */
    for (size_t i = 0; i < HS__REQUEST_BUCKETS; i++)
        for (hs__request *next, *at = all->buckets[i]; at; at = next) {
            next = at->next;
            hs__free(all->env, at);
        }
    hs__free(all->env, all->last);
    hs__free(all->env, all->nodes);
    hs__free(all->env, all->texts);
    hs__map_free(&all->by_node);
    hs__map_free(&all->strings);
}

/* Comparing args with a request: the fast path of each step. Contents are compared, because addresses may be reused. */

static bool same_tree(const hs_fetch *fetch, const char *key, const hs__token **at)
{
    const hs__token *token = (*at)++;
    if (!fetch || !token->kind || (int)fetch->kind != token->kind || /* the end of a list or dict, or an invalid fetch */
        (key ? !token->key || strcmp(key, token->key) != 0 : token->key != NULL))
        return false;
    if (fetch->kind == HS_FETCH_LEAF)
        return fetch->name && strcmp(fetch->name, token->name) == 0;
    if (fetch->kind == HS_FETCH_LIST) {
        for (const hs_fetch *const *item = fetch->items; item && *item; item++)
            if (!same_tree(*item, NULL, at))
                return false;
    } else {
        for (const hs_fetch_entry *entry = fetch->entries; entry && entry->key; entry++)
            if (!same_tree(entry->value, entry->key, at))
                return false;
    }
    return ((*at)++)->kind == 0;
}

static bool same_names(const char *const *names, const hs__request *request)
{
    const hs__token *at = request->tokens, *end = at + request->n_leaves;
    for (; names && *names; names++, at++)
        if (at == end || strcmp(*names, at->name) != 0)
            return false;
    return at == end;
}

__attribute__((noinline)) static bool same_feeds(const hs_feed *feeds, const hs__request *request)
{
    size_t n = 0;
    for (; feeds && feeds[n].name; n++)
        if (n == request->n_feeds || strcmp(feeds[n].name, request->feed_names[n]) != 0)
            return false;
    return n == request->n_feeds;
}

bool hs__request_matches(const hs__request *request, const hs_run_args *args)
{
    if ((args->feeds || request->n_feeds) && !same_feeds(args->feeds, request))
        return false;
    if (!args->fetches)
        return request->flat && same_names(args->names, request);
    const hs__token *at = request->tokens;
    return !request->flat && !args->names && same_tree(args->fetches, NULL, &at);
}

/* Measuring args: checks them, and computes the size and the hash of their request. */

typedef struct {
    uint64_t hash;
    size_t tokens, leaves, feeds;
    hs_error *err;
} measure;

static hs_code invalid_fetches(measure *m, const char *what)
{
    return hs_error_set(m->err, HS_INVALID_ARGUMENT, "invalid fetches: %s", what);
}

static hs_code measure_tree(measure *m, const hs_fetch *fetch, int depth)
{
    if (!fetch)
        return invalid_fetches(m, "a value is NULL");
    if (depth > HS_MAX_FETCH_DEPTH)
        return invalid_fetches(m, "nested too deeply; check that they do not contain themselves");
    if (m->tokens >= MAX_TOKENS)
        return invalid_fetches(m, "too many; check that they do not contain themselves");
    m->tokens++;
    m->hash = (m->hash ^ (uint64_t)fetch->kind) * 1099511628211u;
    hs_code code = HS_OK;
    switch (fetch->kind) {
    case HS_FETCH_LEAF:
        if (!fetch->name)
            return invalid_fetches(m, "a leaf has no name");
        m->leaves++;
        m->hash = hs__hash(m->hash, fetch->name);
        return HS_OK;
    case HS_FETCH_LIST:
        for (size_t i = 0; !code && fetch->items && fetch->items[i]; i++)
            code = measure_tree(m, fetch->items[i], depth + 1);
        m->tokens++;
        return code;
    case HS_FETCH_DICT:
        for (const hs_fetch_entry *entry = fetch->entries; !code && entry && entry->key; entry++) {
            if (!*entry->key || strchr(entry->key, '/'))
                return hs_error_set(m->err, HS_INVALID_ARGUMENT, "invalid fetches: the key '%s' is empty or contains '/'",
                                    entry->key);
            m->hash = hs__hash(m->hash, entry->key);
            code = measure_tree(m, entry->value, depth + 1);
        }
        m->tokens++;
        return code;
    }
    return invalid_fetches(m, "a node is not a leaf, list or dict");
}

static hs_code measure_args(measure *m, const hs_run_args *args)
{
    if (args->names && args->fetches)
        return hs_error_set(m->err, HS_INVALID_ARGUMENT,
                            "both names and fetches are given in hs_run_args; give at most one of the two");
    hs_code code = HS_OK;
    if (args->fetches)
        code = measure_tree(m, args->fetches, 0);
    for (; args->names && args->names[m->leaves]; m->leaves++)
        m->hash = hs__hash(m->hash, args->names[m->leaves]);
    if (!args->fetches)
        m->tokens = m->leaves;
    m->hash = (m->hash ^ '|') * 1099511628211u;
    for (; !code && args->feeds && args->feeds[m->feeds].name; m->feeds++)
        m->hash = hs__hash(m->hash, args->feeds[m->feeds].name);
    return code;
}

/* Resolving names. */

/* Gets the index of a text in `texts`. The copy there lives as long as the session. */
static hs_code intern(hs__requests *all, const char *text, size_t *id, hs_error *err)
{
    *id = hs__map_find(&all->strings, text);
    if (*id != HS__NONE)
        return HS_OK;
    hs_code code = hs__reserve(all->env, &all->texts, &all->texts_capacity, all->n_texts + 1, sizeof *all->texts, err);
    const char *interned;
    if (!code && !(code = hs__map_add(&all->strings, text, all->n_texts, &interned, err))) {
        *id = all->n_texts++;
        all->texts[*id].text = interned;
        all->texts[*id].node_index = HS__NO_NODE;
    }
    return code;
}

/* Gets the index of the node with a name, and adds the node if it is new. "loss" and "loss:0" are the same node. */
static hs_code resolve_name(hs__requests *all, const char *name, const char **interned, hs__node_index *node_index,
                            hs_error *err)
{
    size_t id, index;
    hs_node node;
    hs_code code = intern(all, name, &id, err);
    if (code)
        return code;
    *interned = all->texts[id].text;
    if (all->texts[id].node_index == HS__NO_NODE) {
        char key[64];
        if ((code = hs__normalize_error(all->ops->find(all->backend, name, &node, err), name, err)))
            return code;
        snprintf(key, sizeof key, "%p:%d", node.op, (int)node.output);
        index = hs__map_find(&all->by_node, key);
        if (index == HS__NONE) {
            index = all->n_nodes;
            if ((code = hs__reserve(all->env, &all->nodes, &all->nodes_capacity, index + 1, sizeof *all->nodes, err)) ||
                (code = hs__map_add(&all->by_node, key, index, NULL, err)))
                return code;
            all->nodes[index].node = node;
            all->nodes[index].name = *interned;
            all->n_nodes++;
        }
        all->texts[id].node_index = (hs__node_index)index;
    }
    *node_index = all->texts[id].node_index;
    return HS_OK;
}

/* Compiling. */

typedef struct {
    hs__requests *all;
    hs__request *to;
    hs__buffer path; /* of the current leaf, without a terminator */
    hs__map paths;   /* of all children of dicts, to find duplicates */
    size_t token, leaf;
    hs_error *err;
} compile;

static hs_code add_leaf(compile *c, const char *key, const char *name, const char *path)
{
    hs__token *token = &c->to->tokens[c->token++];
    size_t id;
    token->kind = HS_FETCH_LEAF;
    token->key = key;
    hs_code code = resolve_name(c->all, name, &token->name, &c->to->leaves[c->leaf], c->err);
    if (!code && !(code = intern(c->all, path, &id, c->err)))
        c->to->paths[c->leaf] = c->all->texts[id].text;
    c->leaf++;
    return code;
}

/* Returns the current path as a string. NULL if memory is exhausted. */
static const char *path_text(compile *c)
{
    hs__buffer_append(&c->path, "", 1);
    c->path.size -= !c->path.failed;
    return c->path.failed ? NULL : (const char *)c->path.data;
}

/* Fails if the dict already has a child with the current path. */
static hs_code add_unique_path(compile *c)
{
    const char *path = path_text(c);
    if (!path)
        return hs__buffer_check(&c->path, "a path", c->err);
    if (hs__map_find(&c->paths, path) != HS__NONE)
        return hs_error_set(c->err, HS_INVALID_ARGUMENT, "invalid fetches: '%s' is listed twice", path);
    return hs__map_add(&c->paths, path, 0, NULL, c->err);
}

static hs_code compile_tree(compile *c, const hs_fetch *fetch, const char *key);

/* Compiles a child of a dict under its key, or of a list under its number (`key` NULL). */
static hs_code compile_child(compile *c, const hs_fetch *child, const char *key, size_t number)
{
    const size_t before = c->path.size;
    size_t id = 0;
    hs_code code = key ? intern(c->all, key, &id, c->err) : HS_OK;
    if (code)
        return code;
    if (before)
        hs__buffer_append(&c->path, "/", 1);
    if (key)
        hs__buffer_append(&c->path, key, strlen(key));
    else
        hs__buffer_text(&c->path, "%zu", number);
    if ((code = hs__buffer_check(&c->path, "a path", c->err)) || (key && (code = add_unique_path(c))))
        return code;
    code = compile_tree(c, child, key ? c->all->texts[id].text : NULL);
    c->path.size = before;
    return code;
}

static hs_code compile_tree(compile *c, const hs_fetch *fetch, const char *key)
{
    hs_code code = HS_OK;
    if (fetch->kind == HS_FETCH_LEAF) {
        const char *path = path_text(c);
        return path ? add_leaf(c, key, fetch->name, path) : hs__buffer_check(&c->path, "a path", c->err);
    }
    c->to->tokens[c->token++] = (hs__token){.kind = (int)fetch->kind, .key = key};
    if (fetch->kind == HS_FETCH_LIST)
        for (size_t i = 0; !code && fetch->items && fetch->items[i]; i++)
            code = compile_child(c, fetch->items[i], NULL, i);
    else
        for (size_t i = 0; !code && fetch->entries && fetch->entries[i].key; i++)
            code = compile_child(c, fetch->entries[i].value, fetch->entries[i].key, 0);
    c->to->tokens[c->token++] = (hs__token){.kind = 0};
    return code;
}

static hs_code compile_args(hs__requests *all, const hs_run_args *args, hs__request *to, hs_error *err)
{
    compile c = {.all = all, .to = to, .err = err};
    hs__buffer_init(&c.path, all->env);
    hs__map_init(&c.paths, all->env);
    hs_code code = HS_OK;
    if (args->fetches)
        code = compile_tree(&c, args->fetches, NULL);
    for (size_t i = 0; !code && args->names && args->names[i]; i++)
        code = add_leaf(&c, NULL, args->names[i], args->names[i]);
    for (size_t i = 0; !code && i < to->n_feeds; i++)
        code = resolve_name(all, args->feeds[i].name, &to->feed_names[i], &to->feeds[i], err);
    hs__buffer_free(&c.path);
    hs__map_free(&c.paths);
    return code;
}

static bool is_latest(const hs__requests *all, const hs__request *request)
{
    for (size_t i = 0; i < all->n_requesters; i++)
        if (all->last[i] == request)
            return true;
    return false;
}

/* Frees the least recently used request, but none that is the latest of its requester. */
static void evict(hs__requests *all)
{
    hs__request **oldest = NULL;
    for (size_t i = 0; i < HS__REQUEST_BUCKETS; i++)
        for (hs__request **at = &all->buckets[i]; *at; at = &(*at)->next)
            if ((!oldest || (*at)->last_used < (*oldest)->last_used) && !is_latest(all, *at))
                oldest = at;
    if (!oldest)
        return;
    hs__request *victim = *oldest;
    *oldest = victim->next;
    all->n_requests--;
    hs__free(all->env, victim);
}

/* Compiles a request of these measures. It and its lists are one block. */
static hs_code add_request(hs__requests *all, const hs_run_args *args, const measure *m, hs__request **out, hs_error *err)
{
    const size_t n_texts = m->leaves + m->feeds;
    const size_t bytes =
        sizeof(hs__request) + m->tokens * sizeof(hs__token) + n_texts * (sizeof(const char *) + sizeof(hs__node_index));
    hs__request *request = hs__alloc(all->env, 1, bytes);
    if (!request)
        return hs__no_memory(err, bytes, "the plan of a run");
    request->hash = m->hash;
    request->flat = !args->fetches;
    request->n_tokens = m->tokens;
    request->n_leaves = m->leaves;
    request->n_feeds = m->feeds;
    request->tokens = (hs__token *)(request + 1);
    request->paths = (const char **)(request->tokens + m->tokens);
    request->feed_names = request->paths + m->leaves;
    request->leaves = (hs__node_index *)(request->paths + n_texts);
    request->feeds = request->leaves + m->leaves;
    hs_code code = compile_args(all, args, request, err);
    if (code) {
        hs__free(all->env, request);
        return code;
    }
    if (all->n_requests >= MAX_REQUESTS)
        evict(all);
    hs__request **bucket = &all->buckets[request->hash % HS__REQUEST_BUCKETS];
    request->next = *bucket;
    *bucket = request;
    all->n_requests++;
    *out = request;
    return HS_OK;
}

hs_code hs__request_search(hs__requests *all, size_t requester, const hs_run_args *args, hs__request **out, hs_error *err)
{
    measure m = {.hash = HS__HASH_START, .err = err};
    hs_code code = measure_args(&m, args);
    if (code)
        return code;
    all->clock++;
    hs__request *found = all->buckets[m.hash % HS__REQUEST_BUCKETS];
    while (found && (found->hash != m.hash || !hs__request_matches(found, args)))
        found = found->next;
    if (!found && (code = add_request(all, args, &m, &found, err)))
        return code;
    *out = all->last[requester] = found;
    return HS_OK;
}
