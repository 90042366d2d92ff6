/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/coordinator.h"

#include <pthread.h>
#include <stdatomic.h>

struct hs_coordinator {
    const hs_env *env;
    pthread_mutex_t lock; /* of error */
    hs_error error;
    atomic_bool stop;
};

hs_coordinator *hs__coordinator_new(const hs_env *env)
{
    hs_coordinator *coordinator = hs__alloc(env, 1, sizeof *coordinator);
    if (!coordinator)
        return NULL;
    if (pthread_mutex_init(&coordinator->lock, NULL) != 0) {
        hs__free(env, coordinator);
        return NULL;
    }
    coordinator->env = env;
    atomic_init(&coordinator->stop, false);
    return coordinator;
}

void hs__coordinator_free(hs_coordinator *coordinator)
{
    if (!coordinator)
        return;
    pthread_mutex_destroy(&coordinator->lock);
    hs__free(coordinator->env, coordinator);
}

void hs_coordinator_request_stop(hs_coordinator *coordinator, const hs_error *why)
{
    if (!coordinator)
        return;
    if (why && why->code && why->code != HS_OUT_OF_RANGE && why->code != HS_STOP) {
        pthread_mutex_lock(&coordinator->lock);
        if (!coordinator->error.code)
            hs__error_copy(&coordinator->error, why);
        pthread_mutex_unlock(&coordinator->lock);
    }
    atomic_store(&coordinator->stop, true); /* after the error: who sees the stop finds its cause */
}

bool hs_coordinator_should_stop(const hs_coordinator *coordinator)
{
    return !coordinator || atomic_load_explicit(&((hs_coordinator *)coordinator)->stop, memory_order_acquire);
}

hs_code hs_coordinator_error(const hs_coordinator *coordinator, hs_error *err)
{
    hs_coordinator *locked = (hs_coordinator *)coordinator;
    if (!coordinator)
        return hs__error_copy(err, &(hs_error){.code = HS_OK});
    pthread_mutex_lock(&locked->lock);
    hs_code code = hs__error_copy(err, &locked->error);
    pthread_mutex_unlock(&locked->lock);
    return code;
}
