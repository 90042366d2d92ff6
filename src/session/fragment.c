/* SPDX-License-Identifier: Apache-2.0 */
#include "session/fragment.h"

#include "base/buffer.h"

#include <string.h>

/* More fragments than these are thrown away, the longest unused first: a caller that asks for something new in every step
 * must not fill the memory. */
enum { MAX_FRAGMENTS = 4096, MAX_TOKENS = 1 << 24 };

hs_code hs__fragments_init(hs__fragments *all, const hs_env *env, const hs_backend_ops *ops, void *backend, size_t n_askers,
                           hs_error *err)
{
    *all = (hs__fragments){.env = env, .ops = ops, .backend = backend, .n_askers = n_askers};
    hs__map_init(&all->strings, env);
    all->last = hs__alloc(env, n_askers, sizeof *all->last);
    return all->last ? HS_OK : hs__no_memory(err, n_askers * sizeof *all->last, "the plan of a run");
}

static void free_fragment(const hs_env *env, hs__fragment *fragment)
{
    hs__free(env, fragment->tokens);
    hs__free(env, fragment->leaves);
    hs__free(env, (void *)fragment->paths);
    hs__free(env, fragment->feeds);
    hs__free(env, (void *)fragment->feed_names);
    hs__free(env, fragment);
}

void hs__fragments_free(hs__fragments *all)
{
    for (size_t i = 0; i < HS__FRAGMENT_BUCKETS; i++)
        for (hs__fragment *next, *at = all->buckets[i]; at; at = next) {
            next = at->next;
            free_fragment(all->env, at);
        }
    if (!all->env)
        return;
    hs__free(all->env, all->last);
    hs__free(all->env, all->nodes);
    hs__free(all->env, all->texts);
    hs__free(all->env, all->by_node);
    hs__map_free(&all->strings);
}

/* Comparing args with a fragment: the step's fast path. Nothing is assumed of addresses. */

/* As strcmp, without the call: names are short. */
static inline bool is_same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static bool same_tree(const hs_fetch *fetch, const char *key, const hs__token **at)
{
    const hs__token *token = (*at)++;
    if (!fetch || !token->kind || (int)fetch->kind != token->kind || /* an end is no node, nor is one without a kind */
        (key ? !token->key || !is_same(key, token->key) : token->key != NULL))
        return false;
    if (fetch->kind == HS_FETCH_LEAF)
        return fetch->name && is_same(fetch->name, token->name);
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

static bool same_names(const char *const *names, const hs__fragment *fragment)
{
    const hs__token *at = fragment->tokens, *end = at + fragment->n_leaves;
    for (; names && *names; names++, at++)
        if (at == end || !is_same(*names, at->name))
            return false;
    return at == end;
}

__attribute__((noinline)) static bool same_feeds(const hs_feed *feeds, const hs__fragment *fragment)
{
    size_t n = 0;
    for (; feeds && feeds[n].name; n++)
        if (n == fragment->n_feeds || !is_same(feeds[n].name, fragment->feed_names[n]))
            return false;
    return n == fragment->n_feeds;
}

bool hs__fragment_is_of(const hs__fragment *fragment, const hs_run_args *args)
{
    if ((args->feeds || fragment->n_feeds) && !same_feeds(args->feeds, fragment))
        return false;
    if (!args->fetches)
        return fragment->flat && same_names(args->names, fragment);
    const hs__token *at = fragment->tokens;
    return !fragment->flat && !args->names && same_tree(args->fetches, NULL, &at);
}

/* Measuring args: how large is their fragment, which hash has it, and do they make sense? */

typedef struct {
    uint64_t hash;
    size_t tokens, leaves, feeds;
    hs_error *err;
} measure;

static hs_code nonsense(measure *m, const char *what)
{
    return hs_error_set(m->err, HS_INVALID_ARGUMENT, "invalid fetches: %s", what);
}

static hs_code measure_key(measure *m, const char *key)
{
    if (!*key || strchr(key, '/'))
        return hs_error_set(m->err, HS_INVALID_ARGUMENT, "invalid fetches: the key '%s' is empty or contains '/'", key);
    m->hash = hs__hash(m->hash, key);
    return HS_OK;
}

static hs_code measure_dict(measure *m, const hs_fetch *dict, int depth);

static hs_code measure_tree(measure *m, const hs_fetch *fetch, int depth)
{
    if (!fetch)
        return nonsense(m, "a value is NULL");
    if (depth > HS_MAX_FETCH_DEPTH)
        return nonsense(m, "nested too deeply; check that they do not contain themselves");
    if (m->tokens >= MAX_TOKENS)
        return nonsense(m, "too many; check that they do not contain themselves");
    m->tokens++;
    m->hash = (m->hash ^ (uint64_t)fetch->kind) * 1099511628211u;
    hs_code code = HS_OK;
    switch (fetch->kind) {
    case HS_FETCH_LEAF:
        if (!fetch->name)
            return nonsense(m, "a leaf has no name");
        m->leaves++;
        m->hash = hs__hash(m->hash, fetch->name);
        return HS_OK;
    case HS_FETCH_LIST:
        for (size_t i = 0; !code && fetch->items && fetch->items[i]; i++)
            code = measure_tree(m, fetch->items[i], depth + 1);
        m->tokens++;
        return code;
    case HS_FETCH_DICT:
        return measure_dict(m, fetch, depth);
    }
    return nonsense(m, "a node is not a leaf, list or dict");
}

static hs_code measure_dict(measure *m, const hs_fetch *dict, int depth)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && dict->entries && dict->entries[i].key; i++)
        if (!(code = measure_key(m, dict->entries[i].key)))
            code = measure_tree(m, dict->entries[i].value, depth + 1);
    m->tokens++;
    return code;
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

/* Names to seats. */

/* The id of a text, which is kept for as long as the session lives. */
static hs_code intern(hs__fragments *all, const char *text, size_t *id, hs_error *err)
{
    *id = hs__map_find(&all->strings, text);
    if (*id != HS__NONE)
        return HS_OK;
    hs_code code = hs__reserve(all->env, &all->texts, &all->texts_capacity, all->n_texts + 1, sizeof *all->texts, err);
    const char *kept;
    if (!code && !(code = hs__map_add(&all->strings, text, all->n_texts, &kept, err))) {
        *id = all->n_texts++;
        all->texts[*id].text = kept;
        all->texts[*id].seat = HS__NO_SEAT;
    }
    return code;
}

static hs_code intern_text(hs__fragments *all, const char *text, const char **kept, hs_error *err)
{
    size_t id;
    hs_code code = intern(all, text, &id, err);
    if (!code)
        *kept = all->texts[id].text;
    return code;
}

static size_t hash_node(const hs_node *node)
{
    uint64_t hash = (uint64_t)(uintptr_t)node->op * 0x9e3779b97f4a7c15u + (uint64_t)(uint32_t)node->output;
    return (size_t)(hash ^ hash >> 32);
}

static hs__seat *find_node(const hs__fragments *all, hs__seat *table, size_t capacity, const hs_node *node)
{
    size_t at = hash_node(node) & (capacity - 1);
    while (table[at] &&
           (all->nodes[table[at] - 1].node.op != node->op || all->nodes[table[at] - 1].node.output != node->output))
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

static hs_code grow_by_node(hs__fragments *all, hs_error *err)
{
    size_t capacity = all->by_node_capacity ? all->by_node_capacity * 2 : 32;
    hs__seat *table = hs__alloc(all->env, capacity, sizeof *table);
    if (!table)
        return hs__no_memory(err, capacity * sizeof *table, "a table of nodes");
    for (size_t i = 0; i < all->n_nodes; i++)
        *find_node(all, table, capacity, &all->nodes[i].node) = (hs__seat)i + 1;
    hs__free(all->env, all->by_node);
    all->by_node = table;
    all->by_node_capacity = capacity;
    return HS_OK;
}

/* "loss" and "loss:0" are one node, and share a seat. */
static hs_code seat_node(hs__fragments *all, const hs_node *node, const char *name, hs__seat *seat, hs_error *err)
{
    hs_code code = all->n_nodes >= all->by_node_capacity / 2 ? grow_by_node(all, err) : HS_OK;
    if (code)
        return code;
    hs__seat *found = find_node(all, all->by_node, all->by_node_capacity, node);
    if (!*found) {
        if ((code = hs__reserve(all->env, &all->nodes, &all->nodes_capacity, all->n_nodes + 1, sizeof *all->nodes, err)))
            return code;
        all->nodes[all->n_nodes].node = *node;
        all->nodes[all->n_nodes].name = name;
        *found = (hs__seat)++all->n_nodes;
    }
    *seat = *found - 1;
    return HS_OK;
}

static hs_code seat_of(hs__fragments *all, const char *name, const char **kept, hs__seat *seat, hs_error *err)
{
    size_t id;
    hs_code code = intern(all, name, &id, err);
    if (code)
        return code;
    *kept = all->texts[id].text;
    if (all->texts[id].seat == HS__NO_SEAT) {
        hs_node node;
        if ((code = hs__normalize_error(all->ops->find(all->backend, name, &node, err), name, err)) ||
            (code = seat_node(all, &node, *kept, &all->texts[id].seat, err)))
            return code;
    }
    *seat = all->texts[id].seat;
    return HS_OK;
}

/* Compiling. */

typedef struct {
    hs__fragments *all;
    hs__fragment *to;
    hs__buffer path; /* of the leaf that is compiled, ended by a zero */
    hs__map paths;   /* of all dicts' children */
    size_t token, leaf;
    hs_error *err;
} compile;

static hs_code add_leaf(compile *c, const char *key, const char *name, const char *path)
{
    hs__token *token = &c->to->tokens[c->token++];
    token->kind = HS_FETCH_LEAF;
    token->key = key;
    hs_code code = seat_of(c->all, name, &token->name, &c->to->leaves[c->leaf], c->err);
    if (!code)
        code = intern_text(c->all, path, &c->to->paths[c->leaf], c->err);
    c->leaf++;
    return code;
}

/* The path so far; NULL without memory. */
static const char *path_of(compile *c)
{
    hs__buffer_append(&c->path, "", 1);
    c->path.size -= !c->path.failed;
    return c->path.failed ? NULL : (const char *)c->path.data;
}

/* The path ends with a key, which is to be the only one of that name in its dict. */
static hs_code check_unique(compile *c)
{
    const char *path = path_of(c);
    if (!path)
        return hs__buffer_check(&c->path, "a path", c->err);
    if (hs__map_find(&c->paths, path) != HS__NONE)
        return hs_error_set(c->err, HS_INVALID_ARGUMENT, "invalid fetches: '%s' is listed twice", path);
    return hs__map_add(&c->paths, path, 0, NULL, c->err);
}

static hs_code compile_tree(compile *c, const hs_fetch *fetch, const char *key);

/* A child under its key, or its number in a list. */
static hs_code compile_child(compile *c, const hs_fetch *child, const char *key, size_t number)
{
    size_t before = c->path.size;
    const char *kept = NULL;
    hs_code code = key ? intern_text(c->all, key, &kept, c->err) : HS_OK;
    if (code)
        return code;
    if (before)
        hs__buffer_append(&c->path, "/", 1);
    if (key)
        hs__buffer_append(&c->path, key, strlen(key));
    else
        hs__buffer_text(&c->path, "%zu", number);
    if ((code = hs__buffer_check(&c->path, "a path", c->err)) || (key && (code = check_unique(c))))
        return code;
    code = compile_tree(c, child, kept);
    c->path.size = before;
    return code;
}

static hs_code compile_tree(compile *c, const hs_fetch *fetch, const char *key)
{
    hs_code code = HS_OK;
    if (fetch->kind == HS_FETCH_LEAF) {
        const char *path = path_of(c);
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

static hs_code compile_args(hs__fragments *all, const hs_run_args *args, hs__fragment *to, hs_error *err)
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
        code = seat_of(all, args->feeds[i].name, &to->feed_names[i], &to->feeds[i], err);
    hs__buffer_free(&c.path);
    hs__map_free(&c.paths);
    return code;
}

static hs__fragment *new_fragment(const hs_env *env, const measure *m, bool flat)
{
    hs__fragment *made = hs__alloc(env, 1, sizeof *made);
    if (!made)
        return NULL;
    made->hash = m->hash;
    made->flat = flat;
    made->n_tokens = m->tokens;
    made->n_leaves = m->leaves;
    made->n_feeds = m->feeds;
    made->tokens = hs__alloc(env, m->tokens, sizeof *made->tokens);
    made->leaves = hs__alloc(env, m->leaves, sizeof *made->leaves);
    made->paths = hs__alloc(env, m->leaves, sizeof *made->paths);
    made->feeds = hs__alloc(env, m->feeds, sizeof *made->feeds);
    made->feed_names = hs__alloc(env, m->feeds, sizeof *made->feed_names);
    if (made->tokens && made->leaves && made->paths && made->feeds && made->feed_names)
        return made;
    free_fragment(env, made);
    return NULL;
}

/* Throws away the fragment that was not used for longest, unless it is in use. */
static void evict(hs__fragments *all)
{
    hs__fragment **oldest = NULL;
    for (size_t i = 0; i < HS__FRAGMENT_BUCKETS; i++)
        for (hs__fragment **at = &all->buckets[i]; *at; at = &(*at)->next)
            if ((*at)->last_used < all->clock && (!oldest || (*at)->last_used < (*oldest)->last_used))
                oldest = at;
    if (!oldest)
        return;
    hs__fragment *gone = *oldest;
    *oldest = gone->next;
    all->n_fragments--;
    for (size_t i = 0; i < all->n_askers; i++)
        if (all->last[i] == gone)
            all->last[i] = NULL;
    free_fragment(all->env, gone);
}

static hs_code make(hs__fragments *all, const hs_run_args *args, const measure *m, hs__fragment **out, hs_error *err)
{
    hs__fragment *made = new_fragment(all->env, m, !args->fetches);
    if (!made)
        return hs__no_memory(err, m->tokens * sizeof(hs__token), "the plan of a run");
    hs_code code = compile_args(all, args, made, err);
    if (code) {
        free_fragment(all->env, made);
        return code;
    }
    if (all->n_fragments >= MAX_FRAGMENTS)
        evict(all);
    hs__fragment **bucket = &all->buckets[made->hash % HS__FRAGMENT_BUCKETS];
    made->next = *bucket;
    *bucket = made;
    all->n_fragments++;
    *out = made;
    return HS_OK;
}

hs_code hs__fragment_search(hs__fragments *all, size_t asker, const hs_run_args *args, hs__fragment **out, hs_error *err)
{
    measure m = {.hash = HS__HASH_START, .err = err};
    hs_code code = measure_args(&m, args);
    if (code)
        return code;
    hs__fragment *found = all->buckets[m.hash % HS__FRAGMENT_BUCKETS];
    while (found && (found->hash != m.hash || !hs__fragment_is_of(found, args)))
        found = found->next;
    if (!found && (code = make(all, args, &m, &found, err)))
        return code;
    *out = all->last[asker] = found;
    return HS_OK;
}
