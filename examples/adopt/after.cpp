/* SPDX-License-Identifier: Apache-2.0 */
/* The same trainer in C++20, with its own loop and hooksess.hpp. */
#include <hooksess/hooksess.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numeric>

constexpr int samples = 1500, classes = 3, hidden_units = 32, batch = 32, steps = 6000;
constexpr int w1 = 0, b1 = w1 + 2 * hidden_units, w2 = b1 + hidden_units, b2 = w2 + hidden_units * classes,
              parameter_count = b2 + classes;

class generator
{
  public:
    uint32_t below(uint32_t n)
    {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>((state_ >> 32) * n >> 32);
    }
    float uniform() /* from -1 to 1 */
    {
        return static_cast<float>(below(1 << 24)) * 0x1p-23f - 1;
    }
    explicit generator(uint64_t seed) : state_(seed)
    {
    }

  private:
    uint64_t state_;
};

struct example {
    std::array<float, 2> point;
    int label;
};

/* The data and the read position. Each epoch has a new order. */
class reader
{
  public:
    reader()
    {
        std::iota(order_.begin(), order_.end(), 0);
    }
    example next()
    {
        if (position_ == samples) {
            for (uint32_t i = samples - 1; i > 0; i--)
                std::swap(order_[i], order_[random.below(i + 1)]);
            position_ = 0;
        }
        return at(order_[static_cast<size_t>(position_++)]);
    }
    generator random{1};

  private:
    static example at(int64_t index)
    {
        generator noise(static_cast<uint64_t>(index));
        float along = static_cast<float>(index / classes) / static_cast<float>(samples / classes);
        int label = static_cast<int>(index % classes);
        float angle = 4 * along + 2.0944f * static_cast<float>(label) + 0.2f * noise.uniform();
        return {{along * std::cos(angle), along * std::sin(angle)}, label};
    }
    int64_t position_ = samples;
    std::array<int64_t, samples> order_;
};

struct model {
    std::vector<float> parameters = zeros(), mean = zeros(), square = zeros(), gradients = zeros();

    explicit model(generator &random)
    {
        for (float &parameter : parameters)
            parameter = 0.5f * random.uniform();
    }

    /* Forward and backward pass of one point: adds to the gradients, returns the loss. */
    float learn(const example &e)
    {
        const float *p = parameters.data();
        float *g = gradients.data();
        std::array<float, hidden_units> hidden;
        std::array<float, classes> out;
        float sum = 0;
        for (int i = 0; i < hidden_units; i++)
            hidden[i] = std::tanh(p[w1 + 2 * i] * e.point[0] + p[w1 + 2 * i + 1] * e.point[1] + p[b1 + i]);
        for (int k = 0; k < classes; k++) {
            out[k] = p[b2 + k];
            for (int i = 0; i < hidden_units; i++)
                out[k] += p[w2 + k * hidden_units + i] * hidden[i];
            sum += out[k] = std::exp(out[k]);
        }
        for (int i = 0; i < hidden_units; i++) {
            float back = 0;
            for (int k = 0; k < classes; k++) {
                float difference = out[k] / sum - static_cast<float>(k == e.label);
                back += difference * p[w2 + k * hidden_units + i];
                g[w2 + k * hidden_units + i] += difference * hidden[i] / batch;
                g[b2 + k] += i == 0 ? difference / batch : 0;
            }
            back *= (1 - hidden[i] * hidden[i]) / batch;
            g[w1 + 2 * i] += back * e.point[0];
            g[w1 + 2 * i + 1] += back * e.point[1];
            g[b1 + i] += back;
        }
        return -std::log(out[e.label] / sum) / batch;
    }

    void adam(double step)
    {
        float rate = static_cast<float>(0.005 * std::sqrt(1 - std::pow(0.999, step)) / (1 - std::pow(0.9, step)));
        for (size_t i = 0; i < parameters.size(); i++) {
            float g = gradients[i];
            mean[i] += 0.1f * (g - mean[i]);
            square[i] += 0.001f * (g * g - square[i]);
            parameters[i] -= rate * mean[i] / (std::sqrt(square[i]) + 1e-8f);
            gradients[i] = 0;
        }
    }

    void save() const
    {
        std::ofstream file("parameters", std::ios::binary);
        file.exceptions(std::ios::badbit | std::ios::failbit);
        file.write(reinterpret_cast<const char *>(parameters.data()), sizeof(float) * parameter_count);
        file.close();
    }

  private:
    static std::vector<float> zeros()
    {
        return std::vector<float>(parameter_count);
    }
};

int main()
try {
    reader data;
    model m(data.random);
    float loss = 0;
    int64_t step = 0;

    hs::graph g;
    g.variable("parameters", m.parameters);
    g.variable("adam/mean", m.mean);
    g.variable("adam/square", m.square);
    g.bytes("reader", data);
    g.global_step(step);
    g.value("loss", loss);
    hs::session s = hs::training_session(
        g, HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .save_checkpoint_steps = 1000, .signals = true,
                               .scalars = HS_NAMES("loss"),
                               .hooks = HS_HOOKS(hs_stop_at_step(.last_step = steps), hs_nan_tensor(.tensor = "loss"))));
    while (s.step_begin()) {
        loss = 0;
        for (int i = 0; i < batch; i++)
            loss += m.learn(data.next());
        m.adam(static_cast<double>(step) + 1);
        std::printf("%lld %.9g\n", static_cast<long long>(step) + 1, static_cast<double>(loss));
        s.step_end();
    }
    hs::outcome outcome = s.close();
    if (outcome.exit_code() == 0)
        m.save();
    return outcome.exit_code();
} catch (const std::exception &e) {
    std::cerr << e.what() << "\n";
    return 1;
}
