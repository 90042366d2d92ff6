/* SPDX-License-Identifier: Apache-2.0 */
/* Queue runners: their options, copied, and their references. threads/queue_runner_threads.c has their threads. */
#include "backends/queue_runner.h"

#include "base/env.h"
#include "base/error.h"

#include <string.h>

static const hs_code *copy_codes(const hs_env *env, const hs_code *codes)
{
    size_t n = 0;
    while (codes[n] != HS_OK)
        n++;
    hs_code *copy = hs__alloc(env, n + 1, sizeof *copy);
    return copy ? memcpy(copy, codes, (n + 1) * sizeof *copy) : NULL;
}

static char *op_name(const hs_env *env, const char *given, const char *queue, const char *left_out)
{
    return given && *given ? hs__strdup(env, given) : hs__format(env, "%s/%s", queue, left_out);
}

static void free_parts(hs_queue_runner *runner)
{
    hs_env env = runner->env;
    hs__free(&env, runner->name);
    hs__free(&env, runner->close_op);
    hs__free(&env, runner->cancel_op);
    hs__free(&env, (void *)runner->enqueue_ops);
    hs__free(&env, (void *)runner->closed_codes);
    hs__free(&env, runner->errors);
    hs__free(&env, runner);
}

static hs_code check_options(const hs_queue_runner_options *options, hs_error *err)
{
    if (!options->queue || !*options->queue)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_queue_runner_options.queue is missing");
    if (!options->enqueue_ops || !options->enqueue_ops[0])
        return hs_error_set(err, HS_INVALID_ARGUMENT, "queue runner '%s': enqueue_ops is missing", options->queue);
    for (size_t i = 0; options->enqueue_ops[i]; i++)
        if (!*options->enqueue_ops[i])
            return hs_error_set(err, HS_INVALID_ARGUMENT, "queue runner '%s': enqueue_ops[%zu] is empty", options->queue,
                                i);
    if (options->closed_codes && options->closed_codes[0] == HS_OK)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "queue runner '%s': closed_codes is empty; leave it out for HS_OUT_OF_RANGE", options->queue);
    return HS_OK;
}

static bool fill_in(hs_queue_runner *runner, const hs_queue_runner_options *options)
{
    const hs_env *env = &runner->env;
    runner->name = hs__strdup(env, options->queue);
    runner->close_op = op_name(env, options->close_op, options->queue, "close");
    runner->cancel_op = op_name(env, options->cancel_op, options->queue, "cancel");
    runner->enqueue_ops = hs__names_copy(env, options->enqueue_ops);
    runner->n_ops = hs__names_count(options->enqueue_ops);
    runner->closed_codes = copy_codes(env, options->closed_codes ? options->closed_codes : HS_CODES(HS_OUT_OF_RANGE));
    runner->references = 1;
    return runner->name && runner->close_op && runner->cancel_op && runner->enqueue_ops && runner->closed_codes;
}

hs_queue_runner *hs_queue_runner_new(const hs_queue_runner_options *given, hs_error *err)
{
    hs_queue_runner_options options;
    hs_env env;
    if (HS_STRUCT_TAKE(hs_queue_runner_options, env, &options, given, err) || hs__env_copy(&env, options.env, err) ||
        check_options(&options, err))
        return NULL;
    hs_queue_runner *runner = hs__alloc(&env, 1, sizeof *runner);
    if (runner)
        runner->env = env;
    if (runner && fill_in(runner, &options) && pthread_mutex_init(&runner->lock, NULL) == 0)
        return runner;
    hs__no_memory(err, sizeof *runner, "a queue runner");
    if (runner)
        free_parts(runner);
    return NULL;
}

void hs__queue_runner_release(hs_queue_runner *runner)
{
    pthread_mutex_lock(&runner->lock);
    bool last = --runner->references == 0;
    pthread_mutex_unlock(&runner->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&runner->lock);
    free_parts(runner);
}

void hs_queue_runner_free(hs_queue_runner *runner)
{
    if (runner)
        hs__queue_runner_release(runner);
}

const char *hs_queue_runner_name(const hs_queue_runner *runner)
{
    return runner ? runner->name : NULL;
}
