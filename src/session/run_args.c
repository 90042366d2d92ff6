/* SPDX-License-Identifier: Apache-2.0 */
/* Run args that own their names, fetches and feeds (hs_run_args_fetch, hs_run_args_feed). */
#include <hooksess/run.h>

#include "base/env.h"

#include <string.h>

/* A node of the fetches: a leaf, or a dict with a growing list of entries. */
typedef struct fetch_node {
    hs_fetch fetch;
    hs_fetch_entry *entries; /* ended by a NULL key */
    size_t n;
} fetch_node;

typedef struct {
    char **names; /* ended by NULL */
    size_t n_names;
    fetch_node *root;
    hs_feed *feeds; /* ended by a NULL name */
    size_t n_feeds;
} owned_args;

static const hs_env *args_env(void)
{
    return hs_env_default();
}

static void free_tree(fetch_node *node)
{
    if (!node)
        return;
    for (size_t i = 0; i < node->n; i++) {
        hs__free(args_env(), (void *)node->entries[i].key);
        free_tree((fetch_node *)node->entries[i].value);
    }
    hs__free(args_env(), node->entries);
    hs__free(args_env(), (void *)node->fetch.name);
    hs__free(args_env(), node);
}

static fetch_node *new_node(hs_fetch_kind kind, const char *name)
{
    fetch_node *node = hs__alloc(args_env(), 1, sizeof *node);
    if (!node)
        return NULL;
    node->fetch.kind = kind;
    if (kind == HS_FETCH_LEAF)
        node->fetch.name = hs__strdup(args_env(), name);
    else
        node->fetch.entries = node->entries = hs__alloc(args_env(), 1, sizeof *node->entries);
    if (node->fetch.name || node->entries)
        return node;
    free_tree(node);
    return NULL;
}

/* Adopts the child, and frees it on failure. */
static bool add_child(fetch_node *dict, const char *key, size_t length, fetch_node *child)
{
    hs_fetch_entry *grown = hs__realloc(args_env(), dict->entries, dict->n + 2, sizeof *grown);
    if (grown)
        dict->fetch.entries = dict->entries = grown;
    char *copy = grown && child ? hs__strndup(args_env(), key, length) : NULL;
    if (!copy) {
        free_tree(child);
        return false;
    }
    grown[dict->n++] = (hs_fetch_entry){copy, &child->fetch};
    grown[dict->n] = (hs_fetch_entry){NULL, NULL};
    return true;
}

static fetch_node *find_child(const fetch_node *dict, const char *key, size_t length)
{
    for (size_t i = 0; i < dict->n; i++)
        if (strlen(dict->entries[i].key) == length && memcmp(dict->entries[i].key, key, length) == 0)
            return (fetch_node *)dict->entries[i].value;
    return NULL;
}

static hs_code add_path(fetch_node *root, const char *path, const char *name, hs_error *err)
{
    fetch_node *dict = root;
    for (const char *key = path;;) {
        size_t length = strcspn(key, "/");
        bool last = !key[length];
        if (!length)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "the path '%s' has an empty key", path);
        fetch_node *child = find_child(dict, key, length);
        if (child && (last || child->fetch.kind == HS_FETCH_LEAF))
            return hs_error_set(err, HS_ALREADY_EXISTS, "the path '%s' already has a fetch", path);
        if (!child) {
            child = new_node(last ? HS_FETCH_LEAF : HS_FETCH_DICT, name);
            if (!add_child(dict, key, length, child))
                return hs__no_memory(err, strlen(path), "a fetch");
        }
        if (last)
            return HS_OK;
        dict = child;
        key += length + 1;
    }
}

static hs_code add_name(owned_args *b, const char *name, hs_error *err)
{
    char **grown = hs__realloc(args_env(), b->names, b->n_names + 2, sizeof *grown);
    if (grown)
        b->names = grown;
    char *copy = grown ? hs__strdup(args_env(), name) : NULL;
    if (!copy)
        return hs__no_memory(err, strlen(name), "a fetch");
    b->names[b->n_names++] = copy;
    b->names[b->n_names] = NULL;
    return HS_OK;
}

/* Gets the lists that `args` owns. The first call creates them. */
static hs_code get_owned(hs_run_args *args, owned_args **out, hs_error *err)
{
    if (!args || args->size < sizeof *args)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_run_args is not initialized; use HS_INIT(hs_run_args)");
    owned_args *b = args->built;
    const hs_fetch *fetches = b && b->root ? &b->root->fetch : NULL;
    if (args->fetches != fetches || args->names != (b ? (const char *const *)b->names : NULL) ||
        args->feeds != (b ? b->feeds : NULL))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "cannot add to hs_run_args whose names, fetches or feeds the program has set itself");
    if (!b && !(args->built = b = hs__alloc(args_env(), 1, sizeof *b)))
        return hs__no_memory(err, sizeof *b, "run args");
    *out = b;
    return HS_OK;
}

/* Points `args` at its own lists. */
static void publish(hs_run_args *args, const owned_args *b)
{
    args->names = (const char *const *)b->names;
    args->fetches = b->root ? &b->root->fetch : NULL;
    args->feeds = b->feeds;
}

hs_code hs_run_args_fetch(hs_run_args *args, const char *path, const char *name, hs_error *err)
{
    owned_args *b;
    if (!name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_run_args_fetch: name is NULL");
    hs_code code = get_owned(args, &b, err);
    if (code)
        return code;
    if (path ? b->n_names > 0 : b->root != NULL)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot mix fetches with a path and fetches without a path ('%s')",
                            name);
    if (path && !b->root && !(b->root = new_node(HS_FETCH_DICT, NULL)))
        return hs__no_memory(err, sizeof *b->root, "a fetch");
    code = path ? add_path(b->root, path, name, err) : add_name(b, name, err);
    publish(args, b);
    if (!code)
        hs_error_clear(err);
    return code;
}

hs_code hs_run_args_feed(hs_run_args *args, const char *name, const hs_tensor *value, hs_error *err)
{
    owned_args *b;
    if (!name || !value)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_run_args_feed: %s is NULL", name ? "value" : "name");
    hs_code code = get_owned(args, &b, err);
    if (code)
        return code;
    hs_error_clear(err);
    for (size_t i = 0; i < b->n_feeds; i++)
        if (strcmp(b->feeds[i].name, name) == 0) {
            b->feeds[i].value = *value;
            return HS_OK;
        }
    hs_feed *grown = hs__realloc(args_env(), b->feeds, b->n_feeds + 2, sizeof *grown);
    if (grown)
        args->feeds = b->feeds = grown;
    char *copy = grown ? hs__strdup(args_env(), name) : NULL;
    if (grown)
        grown[b->n_feeds] = (hs_feed){.name = copy};
    if (!copy)
        return hs__no_memory(err, strlen(name), "a feed");
    grown[b->n_feeds++].value = *value;
    grown[b->n_feeds] = (hs_feed){.name = NULL};
    return HS_OK;
}

void hs_run_args_clear(hs_run_args *args)
{
    owned_args *b = args ? args->built : NULL;
    if (!b)
        return;
    for (size_t i = 0; i < b->n_names; i++)
        hs__free(args_env(), b->names[i]);
    for (size_t i = 0; i < b->n_feeds; i++)
        hs__free(args_env(), (void *)b->feeds[i].name);
    hs__free(args_env(), b->names);
    hs__free(args_env(), b->feeds);
    free_tree(b->root);
    hs__free(args_env(), b);
    args->names = NULL;
    args->fetches = NULL;
    args->feeds = NULL;
    args->built = NULL;
}
