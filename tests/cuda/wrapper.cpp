/* SPDX-License-Identifier: Apache-2.0 */
/* wrapper DIRECTORY: hs::cuda, over the stand-in for CUDA's driver. Trains twice, the second time from a checkpoint. */
#include <hooksess/hooksess.hpp>

#include <cuda_runtime.h>

#include <cstdio>

#define CHECK(what)                                                                                                        \
    do                                                                                                                     \
        if (!(what)) {                                                                                                     \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                \
            std::exit(1);                                                                                                  \
        }                                                                                                                  \
    while (0)

namespace
{

constexpr int N = 1000;

struct half { /* as __half */
    uint16_t bits;
};
struct generator {
    int64_t next;
    short position, unused[3];
};
struct arguments {
    float *weights, *loss;
    half *scale;
    generator *generators;
};

void step(void *of)
{
    const arguments *a = static_cast<const arguments *>(of);
    float *weights = static_cast<float *>(fake_cuda_show(a->weights));
    for (int i = 0; i < N; i++)
        weights[i] += static_cast<float>(i);
    auto *scale = static_cast<half *>(fake_cuda_show(a->scale));
    auto *second = static_cast<generator *>(fake_cuda_show(a->generators)) + 1;
    const int64_t steps = static_cast<int64_t>(weights[1]);
    scale->bits++;
    second->next++;
    CHECK(scale->bits == steps && second->next == steps);
    *static_cast<float *>(fake_cuda_show(a->loss)) = weights[1];
}

/* Trains to the step, from the checkpoint if there is one. Returns the losses. */
std::vector<float> train(const std::string &directory, int64_t last)
{
    float *weights, *loss;
    half *scale;
    generator *generators;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMalloc(&weights, N * sizeof(float));
    cudaMalloc(&loss, sizeof(float));
    cudaMalloc(&scale, sizeof *scale);
    cudaMalloc(&generators, 2 * sizeof *generators);
    cudaMemsetAsync(weights, 0, N * sizeof(float), stream);
    cudaMemsetAsync(scale, 0, sizeof *scale, stream);
    cudaMemsetAsync(generators, 0, 2 * sizeof *generators, stream);

    std::vector<float> losses;
    {
        hs::cuda device(stream);
        hs::graph g;
        int64_t steps = 0;
        g.global_step(steps);
        g.variable("weights", weights, {N}, device);
        g.variable("scale", HS_HALF, scale, {}, device);
        g.bytes("generators", generators, 2, device);
        g.value("loss", loss, {}, device);
        hs::session s = hs::hooked_session(
            g, HS_SESSION_OPTIONS(.checkpoint_dir = directory.c_str(),
                                  .hooks = HS_HOOKS(
                                      hs_checkpoint_saver(.checkpoint_dir = directory.c_str(), .every_n_steps = 5))));
        while (steps < last && s.step_begin()) {
            const arguments a{weights, loss, scale, generators};
            fake_cuda_launch(stream, step, &a, sizeof a);
            s.step_end();
            float now;
            cudaMemcpyAsync(&now, loss, sizeof now, cudaMemcpyDeviceToHost, stream);
            cudaStreamSynchronize(stream);
            losses.push_back(now);
        }
        CHECK(s.close().exit_code() == 0);
    }
    cudaFree(weights);
    cudaFree(loss);
    cudaFree(scale);
    cudaFree(generators);
    cudaStreamDestroy(stream);
    return losses;
}

} // namespace

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(train(argv[1], 3) == (std::vector<float>{1, 2, 3}));
    CHECK(train(argv[1], 5) == (std::vector<float>{4, 5}));
    CHECK(fake_cuda_objects() == 0);

    try {
        hs::cuda device(nullptr, 9);
        CHECK(false);
    } catch (const hs::error &e) {
        CHECK(e.code() == HS_INVALID_ARGUMENT);
    }
}
