/* SPDX-License-Identifier: Apache-2.0 */
/* train DIRECTORY OPTIMIZER SAMPLER STEPS [nan|sigterm]: trains a small network on made data, and prints the loss of each
 * step and a checksum at the end. With `nan`, the loss of step 13 is NaN once, and the training rolls back. With `sigterm`,
 * the process gets SIGTERM in step 13. train DIRECTORY checks: checks of hooksess/torch.hpp that need no second process. */
#include <hooksess/torch.hpp>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#define EXPECT(what)                                                                                                       \
    do                                                                                                                     \
        if (!(what)) {                                                                                                     \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                \
            std::exit(1);                                                                                                  \
        }                                                                                                                  \
    while (0)

namespace
{

std::atomic<int> samples_read{0};

struct numbers : torch::data::datasets::Dataset<numbers> {
    torch::Tensor inputs, labels;
    numbers()
    {
        auto random = torch::make_generator<at::CPUGeneratorImpl>(uint64_t(3));
        inputs = torch::randn({100, 1, 6, 6}, random);
        labels = torch::randint(0, 4, {100}, random, torch::kLong);
    }
    torch::data::Example<> get(size_t i) override
    {
        samples_read++;
        return {inputs[static_cast<int64_t>(i)], labels[static_cast<int64_t>(i)]};
    }
    decltype(std::declval<torch::data::datasets::MNIST>().size()) size() const override
    {
        return 100;
    }
};

struct network : torch::nn::Module {
    torch::nn::Conv2d conv{nullptr};
    torch::nn::BatchNorm2d norm{nullptr};
    torch::nn::Dropout dropout{nullptr};
    torch::nn::Linear linear{nullptr}, unused{nullptr};
    torch::Tensor steps, seen, half, tied;

    network()
    {
        conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
        norm = register_module("norm", torch::nn::BatchNorm2d(4));
        dropout = register_module("dropout", torch::nn::Dropout(0.5));
        linear = register_module("linear", torch::nn::Linear(64, 4));
        unused = register_module("unused", torch::nn::Linear(2, 2)); /* never gets a gradient */
        steps = register_buffer("steps", torch::zeros({}, torch::kShort));
        seen = register_buffer("seen", torch::zeros({4}, torch::kBool));
        half = register_buffer("half", torch::zeros({3}, torch::kBFloat16));
        tied = register_parameter("tied", linear->weight);
        conv->weight.set_data(conv->weight.detach().transpose(2, 3)); /* not contiguous */
    }
    torch::Tensor forward(torch::Tensor x)
    {
        steps += 1;
        half += 0.25;
        return linear(dropout(torch::relu(norm(conv(x))).flatten(1)));
    }
};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string &kind, network &net)
{
    using namespace torch::optim;
    if (kind == "sgd")
        return std::make_unique<SGD>(net.parameters(), SGDOptions(0.1).momentum(0.9));
    if (kind == "adam")
        return std::make_unique<Adam>(net.parameters(), AdamOptions(0.01).amsgrad(true));
    if (kind == "rmsprop")
        return std::make_unique<RMSprop>(net.parameters(), RMSpropOptions(0.01).momentum(0.9).centered(true));
    if (kind == "adagrad")
        return std::make_unique<Adagrad>(net.parameters(), AdagradOptions(0.05));
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(net.conv->parameters(), std::make_unique<AdamWOptions>(0.02));
    groups.emplace_back(net.linear->parameters(), std::make_unique<AdamWOptions>(0.01));
    return std::make_unique<AdamW>(std::move(groups), AdamWOptions(0.01));
}

double checksum(torch::nn::Module &module)
{
    double sum = 0;
    for (const auto &tensors : {module.parameters(), module.buffers()})
        for (const torch::Tensor &t : tensors)
            sum = 1.1 * sum + t.detach().to(torch::kDouble).sum().item<double>();
    return sum;
}

template <class Sampler>
int train(const std::string &directory, const std::string &kind, int64_t last_step, std::string event)
{
    network net;
    const auto optimizer = make_optimizer(kind, net);
    hs::torch_graph g;
    g.module(net);
    g.optimizer(*optimizer);
    auto batches = g.batches<Sampler>(numbers().map(torch::data::transforms::Stack<>()),
                                      torch::data::DataLoaderOptions(16).workers(2));
    int64_t step = 0;
    torch::Tensor loss;
    g.global_step(step);
    g.tensor_value("loss", loss);

    hs_stop_at_step_options stop{};
    stop.size = sizeof stop;
    stop.last_step = last_step;
    hs_schedule_options schedule{};
    schedule.size = sizeof schedule;
    schedule.value = "optimizer/learning_rate";
    schedule.decay = HS_DECAY_COSINE;
    schedule.from = 0.02;
    schedule.to = 0.002;
    schedule.decay_steps = 30;
    const char *const losses[] = {"loss", nullptr};
    hs_finite_guard_options guard{};
    guard.size = sizeof guard;
    guard.losses = losses;
    guard.spike_zscore = HS_NEVER;
    guard.policy = HS_GUARD_ROLLBACK;
    const hs_hook hooks[] = {hs_stop_at_step_hook(&stop), hs_schedule_hook(&schedule), hs_finite_guard_hook(&guard), {}};
    hs_training_options options{};
    options.size = sizeof options;
    options.checkpoint_dir = directory.c_str();
    options.save_checkpoint_steps = 5;
    options.signals = true;
    options.hooks = hooks;
    hs::session s = hs::training_session(g, &options);
    while (s.step_begin()) {
        const bool is_first_batch = batches.samples() == 0;
        const torch::data::Example<> batch = batches.next();
        EXPECT(batch.data.size(0) == (batches.samples() == 0 ? 4 : 16));
        optimizer->zero_grad();
        loss = torch::cross_entropy_loss(net.forward(batch.data), batch.target);
        loss.backward();
        optimizer->step();
        if (is_first_batch)
            for (torch::Tensor parameter : net.linear->parameters())
                parameter.set_data(parameter.detach().clone()); /* other storage */
        net.seen[step % 4] = true;
        std::printf("%lld %.9g\n", static_cast<long long>(step + 1), loss.item<double>());
        std::fflush(stdout);
        if (step == 12 && event == "nan")
            loss = torch::tensor(float(NAN));
        else if (step == 12 && event == "sigterm")
            std::raise(SIGTERM);
        if (step == 12)
            event.clear();
        s.step_end();
    }
    const hs::outcome outcome = s.close();
    if (outcome.exit_code() == 0)
        std::printf("checksum %.17g, %d samples read\n", checksum(net), samples_read.load());
    return outcome.exit_code();
}

template <class Body> void throws(hs_code code, const std::string &says, Body body)
{
    try {
        body();
    } catch (const hs::error &e) {
        if (e.code() != code || std::string(e.what()).find(says) == std::string::npos)
            std::fprintf(stderr, "%s\n", e.what());
        EXPECT(e.code() == code && std::string(e.what()).find(says) != std::string::npos);
        return;
    }
    EXPECT(!"it throws nothing");
}

/* Returns the message of a save of all variables. */
std::string save_error(const hs::session &s)
{
    hs_error err;
    hs_error_clear(&err);
    hs_state_copy *copy = nullptr;
    const hs_code code = hs_raw_session_copy_state(hs_session_raw(s.get()), &copy, &err);
    hs_state_copy_free(copy);
    EXPECT(!code || code == HS_FAILED_PRECONDITION);
    return code ? err.message : "";
}

void a_changed_tensor_is_named()
{
    torch::nn::Linear linear(3, 2);
    hs::torch_graph g;
    g.module(*linear, "net/");
    hs::session s = hs::hooked_session(g, nullptr);
    EXPECT(save_error(s) == "");
    const torch::Tensor weight = linear->weight.detach();
    linear->weight.set_data(weight.clone());
    EXPECT(save_error(s) == "");
    linear->weight.set_data(weight.to(torch::kDouble));
    EXPECT(save_error(s).find(
               "variable 'net/weight': the tensor is now Double[2, 3] on cpu, but was added as Float[2, 3] on cpu") !=
           std::string::npos);
    linear->weight.set_data(torch::zeros({3, 2}));
    EXPECT(save_error(s).find("variable 'net/weight': the tensor is now Float[3, 2]") != std::string::npos);
    linear->weight.set_data(torch::zeros({3, 2}).t());
    EXPECT(save_error(s).find("variable 'net/weight': the tensor is no longer contiguous") != std::string::npos);
}

/* Runs one step after which a hook fetches the value. Returns the error. */
std::string fetch_error(const torch::Tensor &value)
{
    hs::torch_graph g;
    torch::Tensor assigned;
    g.tensor_value("value", assigned, {2}, torch::kDouble);
    hs_nan_tensor_options options{};
    options.size = sizeof options;
    options.tensor = "value";
    const hs_hook hooks[] = {hs_nan_tensor_hook(&options), {}};
    hs_session_options session_options{};
    session_options.size = sizeof session_options;
    session_options.hooks = hooks;
    g.global_step();
    hs::session s = hs::hooked_session(g, &session_options);
    EXPECT(s.step_begin());
    assigned = value;
    s.step_end();
    return s.close().get().error.message;
}

void a_value_is_checked_when_it_is_fetched()
{
    EXPECT(fetch_error(torch::ones({2}, torch::kDouble)) == "");
    EXPECT(fetch_error(torch::ones({4}, torch::kDouble).slice(0, 0, 4, 2)) == "");
    EXPECT(fetch_error(torch::tensor({1.0, double(NAN)}, torch::kDouble)).find("NaN") != std::string::npos);
    EXPECT(fetch_error(torch::ones({2})).find("the tensor is Float[2], but was added as Double[2]") != std::string::npos);
    EXPECT(fetch_error(torch::ones({3}, torch::kDouble)).find("the tensor is Double[3]") != std::string::npos);
    EXPECT(fetch_error({}).find("'value'") != std::string::npos);
}

void unsupported_objects_are_refused()
{
    network net;
    hs::torch_graph g;
    torch::optim::SGD sgd(net.parameters(), 0.1);
    throws(HS_INVALID_ARGUMENT, "optimizer 'optimizer' has a parameter", [&] { g.optimizer(sgd); });
    hs::torch_graph other;
    other.module(net);
    torch::optim::LBFGS lbfgs(net.parameters(), 0.1);
    throws(HS_UNIMPLEMENTED, "must be SGD, Adam", [&] { other.optimizer(lbfgs); });
    throws(HS_UNIMPLEMENTED, "tensor 'q' has elements of type QInt8",
           [&] { other.tensor("q", torch::quantize_per_tensor(torch::zeros({2}), 0.1, 0, torch::kQInt8)); });
    throws(HS_UNIMPLEMENTED, "tensor 'sparse' must be dense",
           [&] { other.tensor("sparse", torch::zeros({2}).to_sparse()); });
    throws(HS_INVALID_ARGUMENT, "enforce_ordering", [&] {
        other.batches(numbers().map(torch::data::transforms::Stack<>()),
                      torch::data::DataLoaderOptions(16).enforce_ordering(false));
    });
}

void weights_leave_and_return(const std::string &path)
{
    network net, other;
    net.half.fill_(1.5);
    net.seen[1] = true;
    const torch::Tensor image = torch::randn({2, 1, 6, 6});
    net.eval();
    other.eval();
    hs::save_safetensors(net, path);
    EXPECT(checksum(net) != checksum(other));
    hs::load_safetensors(other, path);
    EXPECT(checksum(net) == checksum(other));
    EXPECT(torch::equal(net.forward(image), other.forward(image)));
    torch::nn::Linear linear(64, 5), fitting(64, 4);
    throws(HS_NOT_FOUND, "2 missing, 0 different", [&] { hs::load_safetensors(*linear, path); });
    const hs_checkpoint_name names[] = {{"weight", "tied"}, {"bias", "linear.bias"}, {nullptr, nullptr}};
    throws(HS_INVALID_ARGUMENT, "0 missing, 2 different", [&] { hs::load_safetensors(*linear, path, names); });
    hs::load_safetensors(*fitting, path, names);
    EXPECT(torch::equal(fitting->weight, net.linear->weight));
}

void float8_is_saved_as_bytes(const std::string &path)
{
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 203
    struct quantized : torch::nn::Module {
        torch::Tensor small;
        explicit quantized(double first)
        {
            small = register_buffer("small", torch::tensor({first, -2.0}).to(torch::kFloat8_e4m3fn));
        }
    } one(0.5), other(1);
    hs::save_safetensors(one, path);
    hs::load_safetensors(other, path);
    EXPECT(torch::equal(other.small.to(torch::kFloat), torch::tensor({0.5f, -2.0f})));
    one.small.set_data(torch::zeros({2}).to(torch::kFloat8_e5m2));
    throws(HS_NOT_FOUND, "small.Float8_e5m2", [&] { hs::load_safetensors(one, path); });
#else
    (void)path;
#endif
}

} // namespace

int main(int argc, char **argv)
try {
    torch::manual_seed(1);
    torch::set_num_threads(1);
    const std::string directory = argc > 1 ? argv[1] : "";
    if (argc >= 5) {
        const auto run = argv[3] == std::string("random") ? train<torch::data::samplers::RandomSampler>
                                                          : train<torch::data::samplers::SequentialSampler>;
        return run(directory, argv[2], std::atoll(argv[4]), argc > 5 ? argv[5] : "");
    }
    EXPECT(argc == 3);
    a_changed_tensor_is_named();
    a_value_is_checked_when_it_is_fetched();
    unsupported_objects_are_refused();
    weights_leave_and_return(directory + "/model.safetensors");
    float8_is_saved_as_bytes(directory + "/float8.safetensors");
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
