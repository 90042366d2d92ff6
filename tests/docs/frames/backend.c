/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooksess.h>

#include <assert.h>
#include <string.h>

/* BLOCK */

static void engine_step(engine *e)
{
    e->loss = (e->weights[0] - 3) * (e->weights[0] - 3);
    e->weights[0] -= 0.1f * (e->weights[0] - 3);
    e->weights[1] += 1;
}

/* BLOCK */

/* BLOCK */

/* BLOCK */

/* BLOCK */

/* BLOCK */

/* Trains with a new engine. */
static engine train(int64_t last_step)
{
    engine e = {{0, 0}, 0, 0};
    /* BLOCK */
    assert(hs_outcome_exit_code(&outcome) == 0);
    assert(outcome.step == last_step && outcome.last_saved_step == last_step);
    return e;
}

int main(void)
{
    hs_error err;
    engine first = train(10);
    assert(first.step == 10 && first.weights[1] == 10 && first.loss > 0);
    engine resumed = train(100);
    assert(resumed.step == 100 && resumed.weights[1] == 100 && resumed.loss < 1e-6f);

    /* Names. */
    hs_backend backend = {&engine_ops, &first};
    assert(hs_backend_check_tensor(backend, "loss:0", &err) == HS_OK);
    assert(hs_backend_check_tensor(backend, "train", &err) == HS_INVALID_ARGUMENT);
    assert(hs_backend_check_tensor(backend, "train:0", &err) == HS_NOT_FOUND);
    assert(hs_backend_check_tensor(backend, "los", &err) == HS_NOT_FOUND && strstr(err.message, "'los'"));

    /* Feeds, targets. */
    float fed = 0;
    hs_session *s = hs_session_open(backend, NULL, &err);
    assert(hs_session_run_args(s,
                               HS_RUN_ARGS(.names = HS_NAMES("train"),
                                           .feeds = HS_FEEDS({"loss", hs_tensor_of(HS_FLOAT, HS_SCALAR, &fed)})),
                               NULL, &err) == HS_INVALID_ARGUMENT);
    hs_outcome outcome = hs_session_close(s, &err);
    assert(outcome.reason != HS_REASON_CLOSED);
    assert(!hs_session_open(backend, HS_SESSION_OPTIONS(.target = "grpc://there"), &err) && err.code == HS_UNIMPLEMENTED);
}
