/* SPDX-License-Identifier: Apache-2.0 */
#include "session/frame.h"

#include <math.h>
#include <string.h>

void hs__frame_init(hs__frame *frame, const hs_env *env)
{
    *frame = (hs__frame){.env = env, .call.size = sizeof frame->call};
}

void hs__frame_free(hs__frame *frame)
{
    const hs_env *env = frame->env;
    void *const blocks[] = {frame->seating,         frame->fetches, frame->call.values, frame->feeds,
                            (void *)frame->feeders, frame->watches, frame->copies};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        hs__free(env, blocks[i]);
    hs__frame_init(frame, env);
}

/* Makes room for each node that was ever asked for, as each is fetched and fed once at most. */
static hs_code grow(hs__frame *frame, size_t n_nodes, hs_error *err)
{
    const hs_env *env = frame->env;
    struct {
        void *items;
        size_t size;
    } lists[] = {{&frame->seating, sizeof *frame->seating},
                 {&frame->fetches, sizeof *frame->fetches},
                 {&frame->call.values, sizeof *frame->call.values},
                 {&frame->feeds, sizeof *frame->feeds},
                 {&frame->feeders, sizeof *frame->feeders}};
    hs_code code = HS_OK;
    size_t capacity = 0;
    for (size_t i = 0; !code && i < sizeof lists / sizeof *lists; i++) {
        capacity = frame->capacity;
        code = hs__reserve(env, lists[i].items, &capacity, n_nodes, lists[i].size, err);
    }
    frame->call.fetches = frame->fetches;
    frame->call.feeds = frame->feeds;
    if (code)
        return code;
    memset(frame->seating + frame->capacity, 0, (capacity - frame->capacity) * sizeof *frame->seating);
    frame->capacity = capacity;
    return HS_OK;
}

static hs_code add_feeds(hs__frame *frame, const hs__fragments *all, const hs__fragment *fragment, const hs_run_args *args,
                         const char *who, hs_error *err)
{
    for (size_t i = 0; i < fragment->n_feeds; i++) {
        hs__seating *seat = &frame->seating[fragment->feeds[i]];
        if (seat->fed_in == frame->run)
            return strcmp(frame->feeders[seat->feed], who) == 0
                       ? hs_error_set(err, HS_FAILED_PRECONDITION, "'%s' is fed twice by %s", fragment->feed_names[i], who)
                       : hs_error_set(err, HS_FAILED_PRECONDITION, "'%s' is fed twice: by %s and by %s",
                                      fragment->feed_names[i], frame->feeders[seat->feed], who);
        seat->fed_in = frame->run;
        seat->feed = (uint32_t)frame->call.n_feeds;
        frame->feeders[frame->call.n_feeds] = who;
        frame->feeds[frame->call.n_feeds++] = (hs_backend_feed){all->nodes[fragment->feeds[i]].node, &args->feeds[i].value};
    }
    return HS_OK;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The first options are taken as they are; only a second set makes a merged one. */
static size_t count_watches(const hs_debug_watch *watches)
{
    size_t n = 0;
    while (watches && watches[n].node_name)
        n++;
    return n;
}

static hs_code add_options(hs__frame *frame, const hs_run_options *options, hs_error *err)
{
    hs_run_options taken;
    hs_run_options *merged = &frame->merged;
    if (options->size != sizeof *options) {
        hs_code code = HS_STRUCT_TAKE(hs_run_options, reserved, &taken, options, err);
        if (code)
            return code;
        options = &taken;
    }
    if (!frame->call.options) {
        if (options == &taken)
            *merged = taken;
        frame->call.options = options == &taken ? merged : options;
        return HS_OK;
    }
    size_t before = count_watches(frame->call.options->debug_watches), n = count_watches(options->debug_watches);
    bool merged_before = before && frame->call.options->debug_watches == frame->watches;
    hs_code code =
        hs__reserve(frame->env, &frame->watches, &frame->watches_capacity, before + n + 1, sizeof *frame->watches, err);
    if (code)
        return code;
    if (before && !merged_before)
        memcpy(frame->watches, frame->call.options->debug_watches, before * sizeof *frame->watches);
    *merged = *frame->call.options;
    if (n)
        memcpy(frame->watches + before, options->debug_watches, n * sizeof *frame->watches);
    frame->watches[before + n].node_name = NULL;
    merged->debug_watches = frame->watches;
    merged->trace_level = larger(merged->trace_level, options->trace_level);
    merged->timeout_secs = fmax(merged->timeout_secs, options->timeout_secs);
    merged->inter_op_thread_pool = larger(merged->inter_op_thread_pool, options->inter_op_thread_pool);
    merged->output_partition_graphs |= options->output_partition_graphs;
    merged->report_tensor_allocations_upon_oom |= options->report_tensor_allocations_upon_oom;
    merged->reset_disk_byte_usage |= options->reset_disk_byte_usage;
    frame->call.options = merged;
    return HS_OK;
}

/* What was added of a fragment, to what was there before. */
static void take_back(hs__frame *frame, const hs__fragment *fragment, size_t n_fetches, size_t n_feeds)
{
    for (size_t i = 0; i < fragment->n_leaves; i++)
        if (frame->seating[fragment->leaves[i]].fetch >= n_fetches)
            frame->seating[fragment->leaves[i]].fetched_in = 0;
    for (size_t i = 0; i < fragment->n_feeds; i++)
        if (frame->seating[fragment->feeds[i]].feed >= n_feeds)
            frame->seating[fragment->feeds[i]].fed_in = 0;
    frame->call.n_fetches = n_fetches;
    frame->call.n_feeds = n_feeds;
}

hs_code hs__frame_add_all(hs__frame *frame, const hs__fragments *all, const hs__fragment *fragment, const hs_run_args *args,
                          const char *who, hs_error *err)
{
    const size_t n_fetches = frame->call.n_fetches, n_feeds = frame->call.n_feeds;
    hs_code code = frame->capacity < all->n_nodes ? grow(frame, all->n_nodes, err) : HS_OK;
    if (code)
        return code;
    hs__frame_fetch(frame, all, fragment);
    code = add_feeds(frame, all, fragment, args, who, err);
    if (!code && args->options)
        code = add_options(frame, args->options, err);
    if (code)
        take_back(frame, fragment, n_fetches, n_feeds);
    return code;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* How much room a copy of the value takes; strings with their texts. */
static size_t copy_bytes(const hs_tensor *value)
{
    size_t bytes = value->data ? rounded(value->bytes) : 0;
    if (bytes && !value->memory && value->dtype == HS_STRING) {
        const hs_string *strings = value->data;
        for (size_t i = 0; i < value->bytes / sizeof *strings; i++)
            bytes += rounded(strings[i].bytes);
    }
    return bytes;
}

/* Copies a value to `to` and returns where the next one goes. */
static char *copy_value(hs_tensor *value, char *to)
{
    if (!copy_bytes(value))
        return to;
    memcpy(to, value->data, value->bytes);
    value->data = to;
    to += rounded(value->bytes);
    if (value->dtype == HS_STRING) {
        hs_string *strings = value->data;
        for (size_t i = 0; i < value->bytes / sizeof *strings; i++) {
            if (strings[i].bytes)
                memcpy(to, strings[i].data, strings[i].bytes);
            strings[i].data = to;
            to += rounded(strings[i].bytes);
        }
    }
    return to;
}

/* Device memory is brought to the host: there is no other place of ours for it. */
static hs_code bring_home(hs_tensor *value, char **at, hs_error *err)
{
    hs_code code = value->memory->to_host(value->memory->user, *at, value->data, value->bytes, err);
    if (hs__normalize_error(code, "hs_memory.to_host", err))
        return code;
    value->data = *at;
    value->memory = NULL;
    *at += rounded(value->bytes);
    return HS_OK;
}

hs_code hs__frame_preserve(hs__frame *frame, hs_error *err)
{
    if (!frame->in_use)
        return HS_OK;
    size_t bytes = rounded(frame->call.metadata.size);
    for (size_t i = 0; i < frame->call.n_fetches; i++)
        bytes += copy_bytes(&frame->call.values[i]);
    hs_code code = hs__reserve(frame->env, &frame->copies, &frame->copies_capacity, bytes, 1, err);
    if (code)
        return code;
    char *to = frame->copies;
    for (size_t i = 0; !code && i < frame->call.n_fetches; i++) {
        if (frame->call.values[i].data && frame->call.values[i].memory)
            code = bring_home(&frame->call.values[i], &to, err);
        else
            to = copy_value(&frame->call.values[i], to);
    }
    if (!code && frame->call.metadata.size) {
        memcpy(to, frame->call.metadata.data, frame->call.metadata.size);
        frame->call.metadata.data = to;
    }
    frame->in_use = code != HS_OK; /* what is copied needs no more care */
    return code;
}
