/* SPDX-License-Identifier: Apache-2.0 */
/* A loss in the memory of a device, which is the host's. The block's hook must not make the program copy the loss. */
#include <hooksess/hooksess.h>
#include <stdlib.h>
#include <string.h>

static int n_waits;

static hs_code copy_to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(host, device, bytes);
    return HS_OK;
}

static hs_code copy_from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    return copy_to_host(user, device, host, bytes, err);
}

static hs_code wait_for_copy(void *user, const void *host, hs_error *err)
{
    (void)user, (void)host, (void)err;
    n_waits++;
    return HS_OK;
}

static hs_code duplicate(void *user, const void *device, size_t bytes, void **copy, hs_error *err)
{
    *copy = malloc(bytes);
    return copy_to_host(user, *copy, device, bytes, err);
}

static void release(void *user, void *copy)
{
    (void)user;
    free(copy);
}

static void hold(void *user)
{
    (void)user;
}

static hs_code restore(void *user, void *device, const void *copy, size_t bytes, hs_error *err)
{
    return copy_to_host(user, device, copy, bytes, err);
}

int main(void)
{
    static const hs_memory memory =
        HS_INIT(hs_memory, .device_type = 10, .to_host = copy_to_host, .from_host = copy_from_host, .wait = wait_for_copy,
                .duplicate = duplicate, .release = release, .hold = hold, .restore = restore);
    float loss = 0, *at = &loss;
    int waits_before = 0;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable_at(g, "loss", HS_FLOAT, HS_SCALAR, &at, .flags = HS_VARIABLE_LOCAL, .memory = &memory);
    hs_session *s;
    {
        /* BLOCK */
        s = hs_training_session_open(hs_graph_backend(g),
                                     HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .save_checkpoint_steps = 100,
                                                         .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 11), chart)),
                                     NULL);
    }
    for (int i = 1; hs_step_begin(s); i++) {
        loss = 1.0f / (float)i;
        waits_before = n_waits;
        hs_step_end(s);
        if (i == 1 && n_waits != waits_before)
            return 1;
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return n_waits > waits_before ? hs_outcome_exit_code(&outcome) : 1;
}
