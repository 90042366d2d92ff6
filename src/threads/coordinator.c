/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinators: requests to stop, the first error, waiting for a stop. */
#include "threads/coordinator_inside.h"

#include <string.h>

/* Creating and freeing. */

hs_coordinator *hs_coordinator_new(const hs_coordinator_options *given, hs_error *err)
{
    hs_coordinator_options options = HS_INIT(hs_coordinator_options);
    hs_env env;
    hs_error_clear(err);
    if ((given && HS_STRUCT_TAKE(hs_coordinator_options, clean_stop_codes, &options, given, err)) ||
        hs__env_copy(&env, options.env, err))
        return NULL;
    const hs_code *clean = options.clean_stop_codes ? options.clean_stop_codes : HS_CODES(HS_OUT_OF_RANGE);
    size_t n = 0;
    while (clean[n] != HS_OK)
        n++;
    hs_coordinator *coordinator = hs__alloc(&env, 1, sizeof *coordinator);
    hs_code *copy = hs__alloc(&env, n + 1, sizeof *copy);
    hs_code code = coordinator && copy ? HS_OK : hs__no_memory(err, sizeof *coordinator, "a coordinator");
    if (code || hs__monitor_init(&coordinator->monitor, err)) {
        hs__free(&env, copy);
        hs__free(&env, coordinator);
        return NULL;
    }
    memcpy(copy, clean, (n + 1) * sizeof *copy);
    coordinator->env = env;
    coordinator->clean_codes = copy;
    coordinator->references = 1;
    atomic_init(&coordinator->stop, false);
    return coordinator;
}

hs_coordinator *hs__coordinator_new(const hs_env *env)
{
    return hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = env), NULL);
}

/* The stop. */

static bool is_clean(const hs_coordinator *coordinator, hs_code code)
{
    if (code == HS_OK || code == HS_STOP)
        return true;
    for (const hs_code *clean = coordinator->clean_codes; *clean; clean++)
        if (*clean == code)
            return true;
    return false;
}

/* Call with the lock held. Sets the error before the stop, so that a thread that sees the stop finds its cause. */
static void stop(hs_coordinator *coordinator, const hs_error *error)
{
    hs_error *kept = &coordinator->error;
    if (!error)
        coordinator->clean_stop |= !kept->code; /* after an error, threads end only because of that error */
    else if (!kept->code || (hs__is_loss(kept->code) && !hs__is_loss(error->code)))
        hs__error_copy(kept, error); /* a lost session can be recovered, so the first other error replaces it */
    atomic_store_explicit(&coordinator->stop, true, memory_order_release);
    coordinator->changes++;
    hs__monitor_changed(&coordinator->monitor);
}

hs_code hs_coordinator_request_stop(hs_coordinator *coordinator, const hs_error *why)
{
    if (!coordinator)
        return why && why->code != HS_STOP && why->code != HS_OUT_OF_RANGE ? why->code : HS_OK;
    bool fails = why && !is_clean(coordinator, why->code);
    hs__monitor_lock(&coordinator->monitor);
    /* An error that the stop itself has caused: a cancelled operation, or an input that has ended. */
    bool is_echo = why && hs_coordinator_should_stop(coordinator) &&
                   (why->code == HS_CANCELLED || (why->code && why->code != HS_STOP && is_clean(coordinator, why->code)));
    bool kept = is_echo || !fails || !coordinator->joined;
    if (kept && !is_echo)
        stop(coordinator, fails ? why : NULL);
    hs__monitor_unlock(&coordinator->monitor);
    return kept ? HS_OK : why->code;
}

bool hs_coordinator_should_stop(const hs_coordinator *coordinator)
{
    return !coordinator || atomic_load_explicit(&((hs_coordinator *)coordinator)->stop, memory_order_acquire);
}

bool hs_coordinator_wait_for_stop(hs_coordinator *coordinator, double timeout_secs)
{
    if (hs_coordinator_should_stop(coordinator))
        return true;
    if (!(timeout_secs > 0) && timeout_secs != HS_NEVER)
        return false;
    int64_t deadline = hs__deadline(timeout_secs);
    hs__monitor_lock(&coordinator->monitor);
    while (!hs_coordinator_should_stop(coordinator) && hs__monitor_wait(&coordinator->monitor, deadline))
        continue;
    hs__monitor_unlock(&coordinator->monitor);
    return hs_coordinator_should_stop(coordinator);
}

hs_code hs_coordinator_error(const hs_coordinator *coordinator, hs_error *err)
{
    hs_coordinator *locked = (hs_coordinator *)coordinator;
    if (!coordinator)
        return hs__error_copy(err, NULL);
    hs__monitor_lock(&locked->monitor);
    hs_code code = hs__error_copy(err, &locked->error);
    hs__monitor_unlock(&locked->monitor);
    return code;
}

void hs_coordinator_clear_stop(hs_coordinator *coordinator)
{
    if (!coordinator)
        return;
    hs__monitor_lock(&coordinator->monitor);
    hs_error_clear(&coordinator->error);
    coordinator->clean_stop = coordinator->joined = false;
    atomic_store_explicit(&coordinator->stop, false, memory_order_release);
    hs__monitor_unlock(&coordinator->monitor);
}

static bool read_flag(const hs_coordinator *coordinator, const bool *flag)
{
    hs_coordinator *locked = (hs_coordinator *)coordinator;
    hs__monitor_lock(&locked->monitor);
    bool value = *flag;
    hs__monitor_unlock(&locked->monitor);
    return value;
}

bool hs_coordinator_joined(const hs_coordinator *coordinator)
{
    return coordinator && read_flag(coordinator, &coordinator->joined);
}

bool hs_coordinator_clean_stop(const hs_coordinator *coordinator)
{
    return coordinator && read_flag(coordinator, &coordinator->clean_stop);
}

/* Its threads. */

void hs__coordinator_notify(hs_coordinator *coordinator)
{
    hs__monitor_lock(&coordinator->monitor);
    coordinator->changes++;
    hs__monitor_changed(&coordinator->monitor);
    hs__monitor_unlock(&coordinator->monitor);
}

void hs__coordinator_release(hs_coordinator *coordinator)
{
    hs__monitor_lock(&coordinator->monitor);
    bool last = --coordinator->references == 0;
    coordinator->changes++;
    hs__monitor_changed(&coordinator->monitor);
    hs__monitor_unlock(&coordinator->monitor);
    if (!last)
        return;
    hs_env env = coordinator->env;
    hs__monitor_destroy(&coordinator->monitor);
    hs__free(&env, (void *)coordinator->clean_codes);
    hs__free(&env, coordinator);
}

hs_code hs_coordinator_stop_on_error(hs_coordinator *coordinator, hs_thread_fn body, void *user, hs_error *err)
{
    hs_error error = {0};
    hs_error_clear(err);
    if (!body)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_coordinator_stop_on_error: body is NULL");
    hs_code code = body(user, coordinator, &error);
    if (!hs__normalize_error(code, "body", &error) || !hs_coordinator_request_stop(coordinator, &error))
        return HS_OK;
    return hs__error_copy(err, &error);
}
