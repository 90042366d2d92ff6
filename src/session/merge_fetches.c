/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run: merges the requests into one call of the backend, and gives each requester its values. */
#include "session/merge_fetches.h"

#include "base/device.h"
#include "base/tensor.h"

#include <math.h>
#include <string.h>

void hs__run_plan_free(hs__run_plan *plan)
{
    const hs_env *env = plan->env;
    void *const blocks[] = {plan->slots,           plan->fetches, plan->call.values, plan->feeds,
                            (void *)plan->feeders, plan->watches, plan->copies};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        hs__free(env, blocks[i]);
    for (size_t i = 0; i < plan->hosts_capacity; i++)
        hs_host_copy_free(&plan->hosts[i].memory);
    hs__free(env, plan->hosts);
    hs_host_copy_free(&plan->large.memory);
}

/* Reserves room for every known node, because each is fetched and fed at most once. */
static hs_code reserve_nodes(hs__run_plan *plan, size_t n_nodes, hs_error *err)
{
    const hs_env *env = plan->env;
    struct {
        void *items;
        size_t size;
    } lists[] = {{&plan->slots, sizeof *plan->slots},
                 {&plan->fetches, sizeof *plan->fetches},
                 {&plan->call.values, sizeof *plan->call.values},
                 {&plan->feeds, sizeof *plan->feeds},
                 {&plan->feeders, sizeof *plan->feeders}};
    hs_code code = HS_OK;
    size_t capacity = 0;
    for (size_t i = 0; !code && i < sizeof lists / sizeof *lists; i++) {
        capacity = plan->capacity;
        code = hs__reserve(env, lists[i].items, &capacity, n_nodes, lists[i].size, err);
    }
    plan->call.fetches = plan->fetches;
    plan->call.feeds = plan->feeds;
    if (code)
        return code;
    memset(plan->slots + plan->capacity, 0, (capacity - plan->capacity) * sizeof *plan->slots);
    plan->capacity = capacity;
    return HS_OK;
}

static hs_code add_feeds(hs__run_plan *plan, const hs__requests *all, const hs__request *request, const hs_run_args *args,
                         const char *requester_name, hs_error *err)
{
    for (size_t i = 0; i < request->n_feeds; i++) {
        hs__node_slot *slot = &plan->slots[request->feeds[i]];
        if (slot->fed_in == plan->call.plan)
            return strcmp(plan->feeders[slot->feed], requester_name) == 0
                       ? hs_error_set(err, HS_FAILED_PRECONDITION, "'%s' is fed twice by %s", request->feed_names[i],
                                      requester_name)
                       : hs_error_set(err, HS_FAILED_PRECONDITION, "'%s' is fed twice: by %s and by %s",
                                      request->feed_names[i], plan->feeders[slot->feed], requester_name);
        slot->fed_in = plan->call.plan;
        slot->feed = (uint32_t)plan->call.n_feeds;
        plan->feeders[plan->call.n_feeds] = requester_name;
        plan->feeds[plan->call.n_feeds++] = (hs_backend_feed){all->nodes[request->feeds[i]].node, &args->feeds[i].value};
    }
    return HS_OK;
}

static int64_t larger_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static size_t count_watches(const hs_debug_watch *watches)
{
    size_t n = 0;
    while (watches && watches[n].node_name)
        n++;
    return n;
}

/* The first options are used without a copy if they have this library's size. Further options are merged: the largest
 * number, and all flags and watches. */
static hs_code add_options(hs__run_plan *plan, const hs_run_options *options, hs_error *err)
{
    hs_run_options copy;
    hs_run_options *merged = &plan->merged;
    if (options->size != sizeof *options) {
        hs_code code = HS_STRUCT_TAKE(hs_run_options, reserved, &copy, options, err);
        if (code)
            return code;
        options = &copy;
    }
    if (!plan->call.options) {
        if (options == &copy)
            *merged = copy;
        plan->call.options = options == &copy ? merged : options;
        return HS_OK;
    }
    size_t before = count_watches(plan->call.options->debug_watches), n = count_watches(options->debug_watches);
    bool owns_watches = before && plan->call.options->debug_watches == plan->watches;
    hs_code code =
        hs__reserve(plan->env, &plan->watches, &plan->watches_capacity, before + n + 1, sizeof *plan->watches, err);
    if (code)
        return code;
    if (before && !owns_watches)
        memcpy(plan->watches, plan->call.options->debug_watches, before * sizeof *plan->watches);
    *merged = *plan->call.options;
    if (n)
        memcpy(plan->watches + before, options->debug_watches, n * sizeof *plan->watches);
    plan->watches[before + n].node_name = NULL;
    merged->debug_watches = plan->watches;
    merged->trace_level = larger_of(merged->trace_level, options->trace_level);
    merged->timeout_secs = fmax(merged->timeout_secs, options->timeout_secs);
    merged->inter_op_thread_pool = larger_of(merged->inter_op_thread_pool, options->inter_op_thread_pool);
    merged->output_partition_graphs |= options->output_partition_graphs;
    merged->report_tensor_allocations_upon_oom |= options->report_tensor_allocations_upon_oom;
    merged->reset_disk_byte_usage |= options->reset_disk_byte_usage;
    plan->call.options = merged;
    return HS_OK;
}

/* Removes a request that was added in part. */
static void undo_add(hs__run_plan *plan, const hs__request *request, size_t n_fetches, size_t n_feeds)
{
    for (size_t i = 0; i < request->n_leaves; i++)
        if (plan->slots[request->leaves[i]].fetch >= n_fetches)
            plan->slots[request->leaves[i]].fetched_in = 0;
    for (size_t i = 0; i < request->n_feeds; i++)
        if (plan->slots[request->feeds[i]].feed >= n_feeds)
            plan->slots[request->feeds[i]].fed_in = 0;
    plan->call.n_fetches = n_fetches;
    plan->call.n_feeds = n_feeds;
}

hs_code hs__run_plan_add_any(hs__run_plan *plan, const hs__requests *all, const hs__request *request,
                             const hs_run_args *args, const char *requester_name, hs_error *err)
{
    const size_t n_fetches = plan->call.n_fetches, n_feeds = plan->call.n_feeds;
    hs_code code = plan->capacity < all->n_nodes ? reserve_nodes(plan, all->n_nodes, err) : HS_OK;
    if (code)
        return code;
    hs__run_plan_add_fetches(plan, all, request);
    if (args)
        code = add_feeds(plan, all, request, args, requester_name, err);
    if (!code && args && args->options)
        code = add_options(plan, args->options, err);
    if (code)
        undo_add(plan, request, n_fetches, n_feeds);
    return code;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* Returns the size of a copy of the value, with the texts of strings. */
static size_t copy_size(const hs_tensor *value)
{
    size_t bytes = value->data ? round_up(value->bytes) : 0;
    if (bytes && !value->memory && value->dtype == HS_STRING) {
        const hs_string *strings = value->data;
        for (size_t i = 0; i < value->bytes / sizeof *strings; i++)
            bytes += round_up(strings[i].bytes);
    }
    return bytes;
}

/* Copies a value to `to`, and returns the end of the copy. */
static char *copy_value(hs_tensor *value, char *to)
{
    if (!copy_size(value))
        return to;
    memcpy(to, value->data, value->bytes);
    value->data = to;
    to += round_up(value->bytes);
    if (value->dtype == HS_STRING) {
        hs_string *strings = value->data;
        for (size_t i = 0; i < value->bytes / sizeof *strings; i++) {
            if (strings[i].bytes)
                memcpy(to, strings[i].data, strings[i].bytes);
            strings[i].data = to;
            to += round_up(strings[i].bytes);
        }
    }
    return to;
}

/* Copies a value from device memory to host memory, because the library cannot allocate device memory. */
static hs_code copy_to_host(hs_tensor *value, char **at, hs_error *err)
{
    hs_code code = hs__tensor_to_host(NULL, value, *at, err);
    if (code)
        return code;
    value->data = *at;
    value->memory = NULL;
    *at += round_up(value->bytes);
    return HS_OK;
}

hs_code hs__run_plan_preserve(hs__run_plan *plan, hs_error *err)
{
    if (!plan->in_use)
        return HS_OK;
    size_t bytes = round_up(plan->call.metadata.size);
    for (size_t i = 0; i < plan->call.n_fetches; i++)
        bytes += copy_size(&plan->call.values[i]);
    hs_code code = hs__reserve(plan->env, &plan->copies, &plan->copies_capacity, bytes, 1, err);
    if (code)
        return code;
    char *to = plan->copies;
    for (size_t i = 0; !code && i < plan->call.n_fetches; i++) {
        if (plan->call.values[i].data && plan->call.values[i].memory)
            code = copy_to_host(&plan->call.values[i], &to, err);
        else
            to = copy_value(&plan->call.values[i], to);
    }
    if (!code && plan->call.metadata.size) {
        memcpy(to, plan->call.metadata.data, plan->call.metadata.size);
        plan->call.metadata.data = to;
    }
    plan->in_use = code != HS_OK; /* copies stay valid */
    return code;
}

/* hs_run_values: the results of one request. */

size_t hs_run_values_count(const hs_run_values *values)
{
    return values && values->request ? values->request->n_leaves : 0;
}

const hs_tensor *hs_run_values_tensor(const hs_run_values *values, size_t index)
{
    if (index >= hs_run_values_count(values))
        return NULL;
    const hs__run_plan *plan = values->plan;
    const hs__node_slot *slot = &plan->slots[values->request->leaves[index]];
    return plan->fetches[slot->fetch].output < 0 ? NULL : &plan->call.values[slot->fetch];
}

const hs_tensor *hs_run_values_tensor_at(const hs_run_values *values, const char *path)
{
    for (size_t i = 0; path && i < hs_run_values_count(values); i++)
        if (strcmp(values->request->paths[i], path) == 0)
            return hs_run_values_tensor(values, i);
    return NULL;
}

/* Copies of values up to HS__SHARED_COPY are kept until the next run; of larger ones, only the last. */
static hs_code find_host_value(hs__run_plan *plan, uint32_t fetch, size_t bytes, hs__host_value **found, hs_error *err)
{
    const size_t before = plan->hosts_capacity;
    *found = &plan->large;
    if (bytes > HS__SHARED_COPY)
        return HS_OK;
    hs_code code = hs__reserve(plan->env, &plan->hosts, &plan->hosts_capacity, fetch + 1, sizeof *plan->hosts, err);
    if (code)
        return code;
    memset(plan->hosts + before, 0, (plan->hosts_capacity - before) * sizeof *plan->hosts);
    *found = &plan->hosts[fetch];
    return HS_OK;
}

hs_code hs_run_values_host(const hs_run_values *values, size_t index, hs_tensor *host, hs_error *err)
{
    const hs_tensor *value = hs_run_values_tensor(values, index);
    hs__host_value *copy;
    hs__clear(err);
    if (!value || !host)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_run_values_host: %s",
                            host ? "there is no such value" : "host is NULL");
    *host = *value;
    if (!value->memory)
        return HS_OK;
    hs__run_plan *plan = values->plan;
    const uint32_t fetch = (uint32_t)(value - plan->call.values);
    hs_code code = find_host_value(plan, fetch, value->bytes, &copy, err);
    if (code)
        return code;
    if (copy->run == plan->runs && copy->fetch == fetch) {
        host->data = copy->memory.data;
        host->memory = NULL;
        return HS_OK;
    }
    copy->memory.env = plan->env;
    copy->run = 0;
    if ((code = hs_tensor_host(value, &copy->memory, host, err)))
        return code;
    copy->run = plan->runs;
    copy->fetch = fetch;
    return HS_OK;
}

double hs_run_values_number(const hs_run_values *values, size_t index)
{
    const hs_tensor *value = hs_run_values_tensor(values, index);
    char element[16]; /* the size of the largest type */
    hs_tensor host;
    if (!value || !value->memory)
        return hs_tensor_number(value, 0);
    if (value->dtype == HS_STRING || value->bytes < hs_dtype_size(value->dtype))
        return (double)NAN;
    if (value->bytes > HS__SHARED_COPY) { /* copies only the element */
        hs_tensor first = hs_tensor_of(value->dtype, HS_SCALAR, value->data);
        first.memory = value->memory;
        host = hs_tensor_of(value->dtype, HS_SCALAR, element);
        return hs__tensor_to_host(NULL, &first, element, NULL) ? (double)NAN : hs_tensor_number(&host, 0);
    }
    return hs_run_values_host(values, index, &host, NULL) ? (double)NAN : hs_tensor_number(&host, 0);
}

double hs_run_values_number_at(const hs_run_values *values, const char *path)
{
    for (size_t i = 0; path && i < hs_run_values_count(values); i++)
        if (strcmp(values->request->paths[i], path) == 0)
            return hs_run_values_number(values, i);
    return (double)NAN;
}

const hs_run_options *hs_run_values_options(const hs_run_values *values)
{
    return values && values->plan ? values->plan->call.options : NULL;
}

hs_bytes hs_run_values_metadata(const hs_run_values *values)
{
    return values && values->plan ? values->plan->call.metadata : (hs_bytes){NULL, 0};
}
