/* SPDX-License-Identifier: Apache-2.0 */
/* Scaffolds: the ops, the init function and the saver of a graph, with defaults from its collections. */
#include "backends/backend.h"
#include "session/session.h"

#include <string.h>

/* The ops, and the collections with their defaults. */
enum { N_OPS = 5 };
static const char *const collections[N_OPS] = {HS_INIT_OP, HS_READY_OP, HS_READY_FOR_LOCAL_INIT_OP, HS_LOCAL_INIT_OP,
                                               HS_SUMMARY_OP};

struct hs_scaffold {
    hs_env env;
    hs_scaffold_options fields; /* names are copies */
    bool none[N_OPS];           /* HS_NONE was given */
    hs_backend backend;         /* for which it was finalized; ops NULL: not finalized */
    bool owns_saver;            /* because the backend has no collections */
};

static const char **op_of(hs_scaffold_options *fields, size_t which)
{
    const char **const ops[N_OPS] = {&fields->init_op, &fields->ready_op, &fields->ready_for_local_init_op,
                                     &fields->local_init_op, &fields->summary_op}; /* as in `collections` */
    return ops[which];
}

static void copy_defaults(hs_scaffold_options *to, const hs_scaffold *from)
{
    hs_scaffold_options fields = from->fields;
    for (size_t i = 0; i < N_OPS; i++)
        if (!*op_of(to, i))
            *op_of(to, i) = from->none[i] ? HS_NONE : *op_of(&fields, i);
    if (!to->init_feeds)
        to->init_feeds = fields.init_feeds;
    if (!to->local_init_feeds)
        to->local_init_feeds = fields.local_init_feeds;
    if (!to->init_fn) {
        to->init_fn = fields.init_fn;
        to->user = fields.user;
    }
    if (!to->saver && !to->no_saver) {
        to->saver = fields.saver;
        to->no_saver = fields.no_saver;
    }
}

hs_scaffold *hs_scaffold_new(const hs_scaffold_options *given, hs_error *err)
{
    hs_scaffold_options options = HS_INIT(hs_scaffold_options);
    hs_env env;
    if ((given && HS_STRUCT_TAKE(hs_scaffold_options, env, &options, given, err)) || hs__env_copy(&env, options.env, err))
        return NULL;
    if (options.copy_from)
        copy_defaults(&options, options.copy_from);
    if (options.saver && options.no_saver) {
        hs_error_set(err, HS_INVALID_ARGUMENT,
                     "hs_scaffold_options: both saver and no_saver are set; set at most one of the two");
        return NULL;
    }
    hs_scaffold *scaffold = hs__alloc(&env, 1, sizeof *scaffold);
    bool complete = scaffold != NULL;
    if (scaffold) {
        scaffold->env = env;
        scaffold->fields = *HS_SCAFFOLD_OPTIONS(.init_feeds = options.init_feeds, .init_fn = options.init_fn,
                                                .user = options.user, .local_init_feeds = options.local_init_feeds,
                                                .saver = options.saver, .no_saver = options.no_saver);
    }
    for (size_t i = 0; complete && i < N_OPS; i++) {
        const char *name = *op_of(&options, i);
        scaffold->none[i] = name && !*name;
        complete = !name || !*name || (*op_of(&scaffold->fields, i) = hs__strdup(&env, name));
    }
    if (!complete) {
        hs__no_memory(err, sizeof *scaffold, "a scaffold");
        hs_scaffold_free(scaffold);
        return NULL;
    }
    hs_error_clear(err);
    return scaffold;
}

void hs_scaffold_free(hs_scaffold *scaffold)
{
    if (!scaffold)
        return;
    hs_env env = scaffold->env;
    for (size_t i = 0; i < N_OPS; i++)
        hs__free(&env, (void *)*op_of(&scaffold->fields, i));
    if (scaffold->owns_saver)
        hs_saver_free(scaffold->fields.saver);
    hs__free(&env, scaffold);
}

const hs_scaffold_options *hs_scaffold_fields(const hs_scaffold *scaffold)
{
    static const hs_scaffold_options nothing = HS_INIT(hs_scaffold_options);
    return scaffold ? &scaffold->fields : &nothing;
}

/* Gets the only item of a collection, or NULL if it is empty. Fails if it has several. */
static hs_code single_item(hs_backend backend, const char *key, const void **item, hs_error *err)
{
    *item = NULL;
    hs_backend_collection_item(backend, key, 0, item);
    if (hs_backend_collection_item(backend, key, 1, NULL))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the graph's collection '%s' has %zu items; name one of them in the scaffold's options", key,
                            hs__collection_size(backend, key));
    return HS_OK;
}

static hs_code resolve_op(hs_scaffold *scaffold, size_t which, hs_backend backend, const hs_backend_ops *ops, hs_error *err)
{
    const void *item;
    const char *name;
    hs_code code = single_item(backend, collections[which], &item, err);
    if (code)
        return code;
    name = item;
    if (!name && ops->default_op) {
        if (hs__normalize_error(code = ops->default_op(backend.self, collections[which], &name, err), collections[which],
                                err))
            return code;
        if (name && ops->add_to_collection &&
            hs__normalize_error(code = ops->add_to_collection(backend.self, collections[which], name, NULL, err),
                                collections[which], err))
            return code;
    }
    if (name && !(*op_of(&scaffold->fields, which) = hs__strdup(&scaffold->env, name)))
        return hs__no_memory(err, strlen(name), "a name");
    return HS_OK;
}

static void release_saver(void *saver)
{
    hs_saver_free(saver);
}

static hs_code resolve_saver(hs_scaffold *scaffold, hs_backend backend, const hs_backend_ops *ops, hs_error *err)
{
    const void *item;
    hs_code code = single_item(backend, HS_SAVERS, &item, err);
    if (code)
        return code;
    if (item) {
        scaffold->fields.saver = (hs_saver *)item;
        return HS_OK;
    }
    hs_error error = {0};
    hs_saver_options options = HS_INIT(hs_saver_options, .env = hs_backend_env(backend));
    hs_saver *saver = hs_saver_new(&options, &error);
    if (!saver)
        return hs__error_copy(err, &error);
    if (ops->add_to_collection &&
        hs__normalize_error(code = ops->add_to_collection(backend.self, HS_SAVERS, saver, release_saver, err), HS_SAVERS,
                            err)) {
        hs_saver_free(saver);
        return code;
    }
    scaffold->fields.saver = saver;
    scaffold->owns_saver = !ops->add_to_collection;
    return HS_OK;
}

hs_code hs_scaffold_finalize(hs_scaffold *scaffold, hs_backend backend, hs_error *err)
{
    hs_backend_ops ops;
    if (!scaffold)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_scaffold_finalize: scaffold is NULL");
    if (scaffold->backend.ops && scaffold->backend.self != backend.self)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the scaffold was finalized for another graph; create one for each graph (copy_from)");
    hs_code code = hs__backend_take(&ops, backend, err);
    if (!code)
        scaffold->backend = backend;
    for (size_t i = 0; !code && i < N_OPS; i++)
        if (!*op_of(&scaffold->fields, i) && !scaffold->none[i])
            code = resolve_op(scaffold, i, backend, &ops, err);
    if (!code && !scaffold->fields.saver && !scaffold->fields.no_saver)
        code = resolve_saver(scaffold, backend, &ops, err);
    if (!code && ops.finalize)
        code = hs__normalize_error(ops.finalize(backend.self, true, err), "finalizing the graph", err);
    if (!code)
        hs_error_clear(err);
    return code;
}
