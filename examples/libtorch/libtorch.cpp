/* SPDX-License-Identifier: Apache-2.0 */
/* libtorch DATA RUN [EPOCHS]: a convolutional network on Fashion-MNIST. DATA has the four files of the data set, RUN gets
 * checkpoints, charts and the weights. Kill it at any time: the next start continues, bit for bit. */
#include <hooksess/torch.hpp>

#include <cstdio>

struct net : torch::nn::Module {
    torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
    torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
    torch::nn::Dropout dropout{nullptr};
    torch::nn::Linear linear{nullptr};

    net()
    {
        conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
        norm1 = register_module("norm1", torch::nn::BatchNorm2d(16));
        conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
        norm2 = register_module("norm2", torch::nn::BatchNorm2d(32));
        dropout = register_module("dropout", torch::nn::Dropout(0.3));
        linear = register_module("linear", torch::nn::Linear(32 * 7 * 7, 10));
    }
    torch::Tensor forward(torch::Tensor x)
    {
        x = torch::max_pool2d(torch::relu(norm1(conv1(x))), 2);
        x = torch::max_pool2d(torch::relu(norm2(conv2(x))), 2);
        return linear(dropout(x.flatten(1)));
    }
};

/* torch::data::datasets::MNIST reads Fashion-MNIST, which has the same files. */
static torch::data::datasets::MNIST read(const std::string &path, torch::data::datasets::MNIST::Mode mode)
{
    return torch::data::datasets::MNIST(path, mode);
}

static double accuracy(net &model, const torch::data::datasets::MNIST &test)
{
    torch::NoGradGuard no_grad;
    model.eval();
    int64_t right = 0;
    const auto images = test.images().split(1000), labels = test.targets().split(1000);
    for (size_t i = 0; i < images.size(); i++)
        right += model.forward(images[i]).argmax(1).eq(labels[i]).sum().item<int64_t>();
    model.train();
    return static_cast<double>(right) / static_cast<double>(test.images().size(0));
}

int main(int argc, char **argv)
try {
    if (argc < 3) {
        std::fprintf(stderr, "usage: libtorch DATA RUN [EPOCHS]\n");
        return 2;
    }
    const std::string run = argv[2], weights = run + "/model.safetensors";
    const int64_t epochs = argc > 3 ? std::atoll(argv[3]) : 5, batch_size = 64;
    torch::manual_seed(1);

    net model;
    torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(2e-3));
    const auto test = read(argv[1], torch::data::datasets::MNIST::Mode::kTest);
    auto train = read(argv[1], torch::data::datasets::MNIST::Mode::kTrain);
    const int64_t steps_per_epoch = (train.images().size(0) + batch_size - 1) / batch_size;

    hs::torch_graph g;
    g.global_step();
    g.module(model);
    g.optimizer(optimizer);
    auto batches = g.batches(std::move(train).map(torch::data::transforms::Stack<>()),
                             torch::data::DataLoaderOptions(batch_size).workers(2));
    torch::Tensor loss;
    g.tensor_value("loss", loss);
    g.op("accuracy", [&](hs::op &op) { *op.output<double>(0) = accuracy(model, test); }, {.outputs = {{HS_DOUBLE}}});

    hs::session s = hs::training_session(
        g,
        HS_TRAINING_OPTIONS(.checkpoint_dir = run.c_str(), .save_checkpoint_secs = 10, .signals = true,
                            .scalars = HS_NAMES("loss", "optimizer/learning_rate"),
                            .hooks = HS_HOOKS(hs_schedule(.value = "optimizer/learning_rate", .warmup_steps = 100,
                                                          .decay = HS_DECAY_COSINE, .from = 2e-3, .to = 2e-5,
                                                          .decay_steps = epochs * steps_per_epoch - 100),
                                              hs_nan_tensor(.tensor = "loss"),
                                              hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 100),
                                              hs_evaluation(.metrics = HS_NAMES("accuracy"),
                                                            .every_n_steps = steps_per_epoch, .summary_dir = run.c_str()),
                                              hs_early_stopping(.metric = "eval/accuracy", .patience = 3,
                                                                .larger_is_better = true, .restore_best = true))));
    while (batches.epoch() < epochs && s.step_begin()) {
        auto batch = batches.next();
        optimizer.zero_grad();
        loss = torch::cross_entropy_loss(model.forward(batch.data), batch.target);
        loss.backward();
        optimizer.step();
        s.step_end();
    }
    const hs::outcome outcome = s.close();
    if (outcome.exit_code() == 0) {
        hs::save_safetensors(model, weights);
        std::printf("test accuracy %.4f at step %lld\nweights: %s\n", accuracy(model, test),
                    static_cast<long long>(outcome.get().step), weights.c_str());
    }
    return outcome.exit_code();
} catch (const std::exception &e) {
    std::fprintf(stderr, "libtorch: %s\n", e.what());
    return 1;
}
