/* A variable in the memory of a device that the program copies itself. */
#include <hooksess/hooksess.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static float memory[4] = {1, 2, 3, 4};
static float *weights; /* an address that the host cannot read */

static void *on_host(const void *device)
{
    return (void *)((uintptr_t)device ^ (uintptr_t)1 << 62);
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(host, on_host(device), bytes);
    return HS_OK;
}

static hs_code from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(on_host(device), host, bytes);
    return HS_OK;
}

static void train(void)
{
    hs_graph *g = hs_graph_new(NULL);
/* BLOCK */
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hs_stop_at_step(.num_steps = 1))), NULL);
    while (hs_step_begin(s)) {
        memory[0] += 1;
        hs_step_end(s);
    }
    if (!s || hs_session_close(s, NULL).reason == HS_REASON_FAILED)
        abort();
    hs_graph_free(g);
}

int main(void)
{
    weights = (float *)((uintptr_t)memory ^ (uintptr_t)1 << 62);
    train();
    memset(memory, 0, sizeof memory);
    train(); /* restores 2, 2, 3, 4 */
    return memory[0] == 3 && memory[3] == 4 ? 0 : 1;
}
