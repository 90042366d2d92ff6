/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooksess.hpp>

#undef NDEBUG
#include <cassert>
#include <cstring>

static int evaluations;

static void train_step(std::vector<float> &weights, float &loss)
{
    loss = (weights[0] - 3) * (weights[0] - 3);
    weights[0] -= 0.02f * (weights[0] - 3);
}

static double test_loss(const std::vector<float> &weights)
{
    evaluations++;
    return weights[0];
}

int main()
{
    std::vector<float> weights(1);
    float loss = 0;
    hs::graph g;
    g.variable("weights", weights);
    g.value("loss", loss);
    /* BLOCK */
    const hs::outcome outcome = s.close();
    assert(outcome.exit_code() == 0 && std::strcmp(outcome.get().hook, "small") == 0);
    assert(loss < 1e-6f && evaluations == outcome.get().step / 100 && evaluations > 2);
}
