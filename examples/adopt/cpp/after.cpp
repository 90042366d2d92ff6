/* SPDX-License-Identifier: Apache-2.0 */
/* A trainer in C++20: logistic regression with momentum, on points that a generator of <random> draws. */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <hooksess/hooksess.hpp>
#include <iostream>
#include <random>
#include <vector>

constexpr size_t features = 64, batch = 32;
constexpr int64_t steps = 5000;

struct example {
    std::vector<float> point;
    bool is_positive;
};

/* A point is positive if its even coordinates have the larger sum. */
example draw(std::mt19937 &random)
{
    std::uniform_real_distribution<float> coordinate(-1, 1);
    example e{std::vector<float>(features), false};
    float sum = 0;
    for (size_t i = 0; i < features; i++) {
        e.point[i] = coordinate(random);
        sum += i % 2 ? -e.point[i] : e.point[i];
    }
    e.is_positive = sum > 0;
    return e;
}

struct model {
    std::vector<float> weights = std::vector<float>(features), velocity = weights;

    /* Learns from a batch, and returns its mean loss. */
    float train(std::mt19937 &random)
    {
        std::vector<float> gradient(features);
        float loss = 0;
        for (size_t k = 0; k < batch; k++) {
            const example e = draw(random);
            float score = 0;
            for (size_t i = 0; i < features; i++)
                score += weights[i] * e.point[i];
            const float p = 1 / (1 + std::exp(-score)), difference = p - (e.is_positive ? 1 : 0);
            loss -= std::log(e.is_positive ? p : 1 - p) / batch;
            for (size_t i = 0; i < features; i++)
                gradient[i] += difference * e.point[i] / batch;
        }
        for (size_t i = 0; i < features; i++) {
            velocity[i] = 0.9f * velocity[i] - 0.05f * gradient[i];
            weights[i] += velocity[i];
        }
        return loss;
    }

    void save(const char *path) const
    {
        std::ofstream file(path, std::ios::binary);
        file.exceptions(std::ios::badbit | std::ios::failbit);
        file.write(reinterpret_cast<const char *>(weights.data()), sizeof(float) * features);
        file.close();
    }
};

int main()
try {
    std::mt19937 random(1);
    model m;
    float loss = 0;

    hs::graph g;
    g.variable("weights", m.weights);
    g.variable("velocity", m.velocity);
    g.state("random", random);
    g.value("loss", loss);
    hs::session s = hs::training_session(
        g, HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .signals = true, .scalars = HS_NAMES("loss"),
                               .hooks = HS_HOOKS(hs_stop_at_step(.last_step = steps), hs_nan_tensor(.tensor = "loss"))));
    for (; s.step_begin(); s.step_end()) {
        loss = m.train(random);
        std::printf("%.9g\n", loss);
    }
    if (const int code = s.close().exit_code())
        return code;
    m.save("weights");
    return 0;
} catch (const std::exception &e) {
    std::cerr << e.what() << "\n";
    return 1;
}
