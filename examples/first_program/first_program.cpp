/* SPDX-License-Identifier: Apache-2.0 */
/* The first program in C++20: fits a line to the points of a parabola. If it is killed and started again, it continues from
 * its last checkpoint. */
#include <hooksess/hooksess.hpp>

#include <cstdio>

struct model {
    std::array<float, 2> weights{};
    float loss = 0;

    void make_step()
    {
        const int n = 100;
        float slope = 0, offset = 0;
        loss = 0;
        for (int i = 0; i < n; i++) {
            float x = static_cast<float>(i) / n, difference = weights[0] * x + weights[1] - x * x;
            loss += difference * difference / n;
            slope += 2 * difference * x / n;
            offset += 2 * difference / n;
        }
        weights[0] -= 0.1f * slope;
        weights[1] -= 0.1f * offset;
    }
};

int main()
{
    model m;
    hs::graph g;
    g.variable("weights", m.weights);
    g.value("loss", m.loss);
    g.op("train", [&](hs::op &) { m.make_step(); }, {.writes = {"weights", "loss"}, .advances_step = true});

    hs::session s = hs::training_session(
        g, HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .scalars = HS_NAMES("loss"),
                               .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1000), hs_nan_tensor(.tensor = "loss"),
                                                 hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 100))));
    while (!s.should_stop())
        s.run("train");
    hs::outcome outcome = s.close();
    if (outcome.exit_code() == 0)
        std::printf("y = %.3f x %+.3f\n", static_cast<double>(m.weights[0]), static_cast<double>(m.weights[1]));
    return outcome.exit_code();
}
