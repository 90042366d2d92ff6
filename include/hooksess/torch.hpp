/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TORCH_HPP
#define HOOKSESS_TORCH_HPP

/* LibTorch's modules, optimizers, generators and data loaders in checkpoints: for C++17 and later, header-only
 * (docs/guide/libtorch.md). Tensors may be on any device; LibTorch copies them.
 *
 *     hs::torch_graph g;
 *     g.global_step();
 *     g.module(*net);
 *     g.optimizer(optimizer);
 *     auto batches = g.batches(std::move(dataset), 64);
 *     ...
 *     while (batches.epoch() < 10 && s.step_begin()) {
 *         auto batch = batches.next();
 *         ...
 *         s.step_end();
 *     }
 *
 * Tensors are found at each save and restore, so their storage may move: by torch::load, by set_data, in the first step of
 * an optimizer. If dtype, shape or device of a tensor have changed, the save fails with HS_FAILED_PRECONDITION and names
 * the tensor.
 *
 * Lifetime: declare modules and optimizers first, then the graph, the batches, the session. Functions throw hs::error. */

#include <hooksess/hooksess.hpp>

#include <torch/torch.h>
#include <torch/version.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace hs
{

namespace detail
{

inline hs_dtype torch_dtype(const std::string &name, at::ScalarType type)
{
    switch (type) {
    case at::kFloat:
        return HS_FLOAT;
    case at::kDouble:
        return HS_DOUBLE;
    case at::kHalf:
        return HS_HALF;
    case at::kBFloat16:
        return HS_BFLOAT16;
    case at::kLong:
        return HS_INT64;
    case at::kInt:
        return HS_INT32;
    case at::kShort:
        return HS_INT16;
    case at::kChar:
        return HS_INT8;
    case at::kByte:
        return HS_UINT8;
    case at::kBool:
        return HS_BOOL;
    case at::kComplexFloat:
        return HS_COMPLEX64;
    case at::kComplexDouble:
        return HS_COMPLEX128;
#if TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 203
    case at::kFloat8_e5m2:
    case at::kFloat8_e4m3fn:
        return HS_UINT8; /* see saved_name */
    case at::kUInt16:
        return HS_UINT16;
    case at::kUInt32:
        return HS_UINT32;
    case at::kUInt64:
        return HS_UINT64;
#endif
    default:
        throw error(HS_UNIMPLEMENTED,
                    "tensor '" + name + "' has elements of type " + at::toString(type) + ", which checkpoints do not have");
    }
}

/* Checkpoints have no float8. Such a tensor is saved as bytes, under a name with the type at its end. */
inline std::string saved_name(const std::string &name, at::ScalarType type)
{
    const std::string type_name = at::toString(type);
    return type_name.compare(0, 6, "Float8") == 0 ? name + "." + type_name : name;
}

/* Finds the memory of one tensor, on the host or on a device. LibTorch copies from and to a device. Checkpoints have
 * row-major order: a tensor with other strides is saved and restored through a contiguous copy. */
class torch_memory
{
  public:
    torch_memory(const at::Tensor &like, std::function<at::Tensor(bool)> find)
        : type_(like.scalar_type()), dims_(like.sizes().vec()), device_(like.device()),
          is_contiguous_(like.is_contiguous()), find_(std::move(find))
    {
        memory_.size = sizeof memory_;
        memory_.device_type = device_.is_cpu() ? 1 : 2; /* the host, or a device */
        memory_.device_id = device_.has_index() ? device_.index() : 0;
        memory_.to_host = [](void *self, void *host, const void *data, size_t bytes, hs_error *err) {
            return guarded(err, [&] {
                host_bytes(host, bytes).copy_(static_cast<torch_memory *>(self)->bytes_at(const_cast<void *>(data), bytes));
            });
        };
        memory_.from_host = [](void *self, void *data, const void *host, size_t bytes, hs_error *err) {
            return guarded(err, [&] {
                torch::NoGradGuard no_grad;
                torch_memory *m = static_cast<torch_memory *>(self);
                m->bytes_at(data, bytes).copy_(host_bytes(const_cast<void *>(host), bytes));
                if (!m->is_contiguous_)
                    m->find_(false).copy_(m->copy_);
            });
        };
    }
    /* Call it when the object has its final address. */
    const hs_memory *memory()
    {
        memory_.user = this;
        return is_contiguous_ && device_.is_cpu() ? nullptr : &memory_;
    }
    void *locate(bool allocate)
    {
        const at::Tensor now = find_(allocate);
        if (!now.defined())
            return nullptr;
        if (now.scalar_type() != type_ || now.sizes() != at::IntArrayRef(dims_) || now.device() != device_) {
            std::ostringstream text;
            text << "the tensor is now " << now.scalar_type() << now.sizes() << " on " << now.device()
                 << ", but was added as " << type_ << at::IntArrayRef(dims_) << " on " << device_;
            throw error(HS_FAILED_PRECONDITION, text.str());
        }
        if (!is_contiguous_)
            copy_ = now.detach().clone(at::MemoryFormat::Contiguous);
        else if (!now.is_contiguous())
            throw error(HS_FAILED_PRECONDITION, "the tensor is no longer contiguous; change its strides before you add it");
        return is_contiguous_ ? now.data_ptr() : copy_.data_ptr();
    }

  private:
    static at::Tensor host_bytes(void *host, size_t bytes)
    {
        return at::from_blob(host, {static_cast<int64_t>(bytes)}, at::kByte);
    }
    at::Tensor bytes_at(void *data, size_t bytes) const
    {
        return at::from_blob(data, {static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte).device(device_));
    }

    at::ScalarType type_;
    std::vector<int64_t> dims_;
    at::Device device_;
    bool is_contiguous_;
    std::function<at::Tensor(bool)> find_;
    at::Tensor copy_;
    hs_memory memory_{};
};

inline std::string bytes_of(at::Generator generator)
{
    const std::lock_guard<std::mutex> lock(generator.mutex());
    const at::Tensor state = generator.get_state();
    return std::string(static_cast<const char *>(state.data_ptr()), state.nbytes());
}
inline void set_bytes(at::Generator generator, const std::string &bytes)
{
    const at::Tensor state = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
    std::memcpy(state.data_ptr(), bytes.data(), bytes.size());
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
}

/* The position in a data set. */
struct torch_position {
    int64_t epoch = 0, samples = 0; /* completed epochs; consumed samples of this one */
    std::string shuffle;            /* state of the generator when the epoch began */
    bool is_draining = false;       /* no more requests to workers */
};

/* A sampler that begins at the position. Samples before it are not read. */
template <class Sampler, class Size> struct torch_sampler : Sampler {
    torch_sampler(size_t size, torch_position &at) : Sampler(static_cast<int64_t>(size)), position(&at)
    {
    }
    void reset(Size size = {}) override
    {
        const at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
        const std::string now = bytes_of(generator);
        if (!position->samples)
            position->shuffle = now;
        set_bytes(generator, position->shuffle);
        Sampler::reset(size);
        if (position->samples) {
            Sampler::next(static_cast<size_t>(position->samples));
            set_bytes(generator, now);
        }
    }
    decltype(std::declval<Sampler &>().next(size_t())) next(size_t batch_size) override
    {
        return position->is_draining ? decltype(Sampler::next(batch_size))() : Sampler::next(batch_size);
    }
    torch_position *position;
};

} // namespace detail

/* The batches of a data set, epoch after epoch, from the position in the checkpoint. Made by torch_graph::batches. */
template <class Dataset, class Sampler> class torch_batches
{
  public:
    torch_batches(graph &g, Dataset dataset, const torch::data::DataLoaderOptions &options, const std::string &name)
        : size_(static_cast<int64_t>(dataset.size().value())),
          loader_(
              torch::data::make_data_loader(std::move(dataset), sampler(static_cast<size_t>(size_), position_), options)),
          iterator_(loader_->end())
    {
        if (!loader_->options().enforce_ordering)
            throw error(HS_INVALID_ARGUMENT,
                        "batches '" + name + "': enforce_ordering is false; a resume would not be exact");
        const auto save = [this] {
            std::string bytes(2 * sizeof(int64_t), '\0');
            std::memcpy(&bytes[0], &position_.epoch, sizeof(int64_t));
            std::memcpy(&bytes[sizeof(int64_t)], &position_.samples, sizeof(int64_t));
            return bytes + position_.shuffle;
        };
        const auto load = [this](const std::string &bytes) {
            if (bytes.size() < 2 * sizeof(int64_t))
                throw error(HS_DATA_LOSS, "the position in the data is too short");
            std::memcpy(&position_.epoch, &bytes[0], sizeof(int64_t));
            std::memcpy(&position_.samples, &bytes[sizeof(int64_t)], sizeof(int64_t));
            position_.shuffle = bytes.substr(2 * sizeof(int64_t));
            is_open_ = false;
        };
        g.state_at(name, save, load);
    }
    torch_batches(const torch_batches &) = delete;

    /* Returns the next batch. Call it in a step. */
    auto next()
    {
        if (is_open_)
            ++iterator_;
        else
            open();
        auto batch = std::move(*iterator_);
        const int64_t batch_size = static_cast<int64_t>(loader_->options().batch_size);
        position_.samples += batch_size;
        if (size_ - position_.samples < (loader_->options().drop_last ? batch_size : 1)) {
            position_.epoch++;
            position_.samples = 0;
            is_open_ = false;
        }
        return batch;
    }
    /* Completed epochs. */
    int64_t epoch() const
    {
        return position_.epoch;
    }
    /* Consumed samples of the current epoch. 0: the last batch completed an epoch. */
    int64_t samples() const
    {
        return position_.samples;
    }

  private:
    using sampler = detail::torch_sampler<Sampler, decltype(std::declval<const Dataset &>().size())>;
    using loader = torch::data::StatelessDataLoader<Dataset, sampler>;

    void open()
    {
        position_.is_draining = true; /* after a rollback, workers may still read batches */
        while (iterator_ != loader_->end())
            ++iterator_;
        position_.is_draining = false;
        iterator_ = loader_->begin();
        is_open_ = true;
    }

    int64_t size_;
    detail::torch_position position_;
    std::unique_ptr<loader> loader_;
    torch::data::Iterator<typename Dataset::BatchType> iterator_;
    bool is_open_ = false;
};

/* A graph for LibTorch. It saves the CPU's default generator, as "generator". */
class torch_graph : public graph
{
  public:
    explicit torch_graph(const hs_env *env = nullptr) : graph(env)
    {
        generator("generator", at::globalContext().defaultGenerator(at::kCPU));
    }

    /* A tensor. */
    void tensor(const std::string &name, const at::Tensor &tensor)
    {
        this->tensor(name, tensor, [tensor](bool) { return tensor; });
    }
    /* A tensor that `find` returns, with dtype, shape and strides of `like`. An undefined tensor does not exist yet. If the
     * argument of `find` is true, a value is restored: `find` creates the tensor. */
    void tensor(const std::string &name, const at::Tensor &like, std::function<at::Tensor(bool)> find)
    {
        if (like.layout() != at::kStrided)
            throw error(HS_UNIMPLEMENTED, "tensor '" + name + "' must be dense");
        auto &memory = keep(detail::torch_memory(like, std::move(find)));
        variable_at(
            detail::saved_name(name, like.scalar_type()), detail::torch_dtype(name, like.scalar_type()),
            shape(like.sizes()), [&memory](bool allocate) { return memory.locate(allocate); }, memory.memory());
    }
    /* A tensor of the program as a value for hooks, not saved. It may be undefined before the first step. It is copied from
     * a device only in runs in which a hook fetches it.
     *
     *     torch::Tensor loss;
     *     g.tensor_value("loss", loss);
     */
    void tensor_value(const std::string &name, const at::Tensor &tensor, at::IntArrayRef dims = {},
                      at::ScalarType type = at::kFloat)
    {
        auto &host = keep(at::Tensor());
        variable_at(
            name, detail::torch_dtype(name, type), shape(dims),
            [&tensor, &host, type, dims = dims.vec()](bool) -> void * {
                if (!tensor.defined())
                    return nullptr;
                if (tensor.scalar_type() != type || tensor.sizes() != at::IntArrayRef(dims)) {
                    std::ostringstream text;
                    text << "the tensor is " << tensor.scalar_type() << tensor.sizes() << ", but was added as " << type
                         << at::IntArrayRef(dims);
                    throw error(HS_FAILED_PRECONDITION, text.str());
                }
                host = tensor.detach().to(at::kCPU).contiguous();
                return host.data_ptr();
            },
            nullptr, HS_VARIABLE_LOCAL);
    }

    /* The parameters and buffers of a module, as `prefix` and PyTorch's name: "conv1.weight". A tensor with two names is
     * saved once, under the first. Register all submodules before. */
    void module(const torch::nn::Module &module, const std::string &prefix = {})
    {
        for (const auto &tensors : {module.named_parameters(), module.named_buffers()})
            for (const auto &item : tensors)
                if (item.value().defined() &&
                    names_.emplace(item.value().unsafeGetTensorImpl(), prefix + item.key()).second)
                    tensor(prefix + item.key(), item.value());
    }

    /* The state of an optimizer, as "optimizer/exp_avg/conv1.weight": moments, step counters, and the learning rate of each
     * group, "optimizer/learning_rate", "optimizer/learning_rate_1", ..., which hs_schedule may set. Add the module before,
     * and all groups to the optimizer. HS_UNIMPLEMENTED: it is not SGD, Adam, AdamW, RMSprop or Adagrad. */
    void optimizer(torch::optim::Optimizer &optimizer, const std::string &name = "optimizer")
    {
        std::set<const void *> seen; /* a tied parameter occurs twice */
        using namespace torch::optim;
        const auto add_step = [](auto each) {
            each("step", [](auto &s) { return at::from_blob(&s.step(), {}, at::kLong); });
        };
        const auto add_adam = [&](auto &o, auto each) {
            add_step(each);
            each("exp_avg", [](auto &s) -> at::Tensor & { return s.exp_avg(); });
            each("exp_avg_sq", [](auto &s) -> at::Tensor & { return s.exp_avg_sq(); });
            if (o.amsgrad())
                each("max_exp_avg_sq", [](auto &s) -> at::Tensor & { return s.max_exp_avg_sq(); });
        };
        const auto add_sgd = [](SGDOptions &o, auto each) {
            if (o.momentum() != 0)
                each("momentum_buffer", [](auto &s) -> at::Tensor & { return s.momentum_buffer(); });
        };
        const auto add_rmsprop = [&](RMSpropOptions &o, auto each) {
            add_step(each);
            each("square_avg", [](auto &s) -> at::Tensor & { return s.square_avg(); });
            if (o.momentum() > 0)
                each("momentum_buffer", [](auto &s) -> at::Tensor & { return s.momentum_buffer(); });
            if (o.centered())
                each("grad_avg", [](auto &s) -> at::Tensor & { return s.grad_avg(); });
        };
        const auto add_adagrad = [&](AdagradOptions &, auto each) {
            add_step(each);
            each("sum", [](auto &s) -> at::Tensor & { return s.sum(); });
        };
        for (size_t i = 0; i < optimizer.param_groups().size(); i++)
            if (!group<AdamWOptions, AdamWParamState>(optimizer, i, name, seen, add_adam) &&
                !group<AdamOptions, AdamParamState>(optimizer, i, name, seen, add_adam) &&
                !group<SGDOptions, SGDParamState>(optimizer, i, name, seen, add_sgd) &&
                !group<RMSpropOptions, RMSpropParamState>(optimizer, i, name, seen, add_rmsprop) &&
                !group<AdagradOptions, AdagradParamState>(optimizer, i, name, seen, add_adagrad))
                throw error(HS_UNIMPLEMENTED, "optimizer '" + name + "' must be SGD, Adam, AdamW, RMSprop or Adagrad");
    }

    /* A generator in addition to the CPU's default one. */
    void generator(const std::string &name, at::Generator generator)
    {
        state_at(
            name, [generator] { return detail::bytes_of(generator); },
            [generator](const std::string &bytes) { detail::set_bytes(generator, bytes); });
    }

    /* Replaces torch::data::make_data_loader, with the same arguments. The position in the data is saved as `name`. A
     * resume in the middle of an epoch does not read the samples before it. The sampler is a RandomSampler or
     * SequentialSampler. */
    template <class Sampler = torch::data::samplers::RandomSampler, class Dataset>
    torch_batches<Dataset, Sampler> batches(Dataset dataset, const torch::data::DataLoaderOptions &options,
                                            const std::string &name = "data")
    {
        return torch_batches<Dataset, Sampler>(*this, std::move(dataset), options, name);
    }

  private:
    /* Old versions of LibTorch have the address as text as the key. */
    template <class States> static auto key_of(const States &, const at::Tensor &parameter)
    {
        void *const address = parameter.unsafeGetTensorImpl();
        if constexpr (std::is_same_v<typename States::key_type, std::string>) {
            std::ostringstream text;
            text << address;
            return text.str();
        } else {
            return address;
        }
    }
    /* Adds a group of parameters if it has these options. */
    template <class Options, class State, class Fields>
    bool group(torch::optim::Optimizer &optimizer, size_t index, const std::string &name, std::set<const void *> &seen,
               Fields fields)
    {
        auto &added = optimizer.param_groups()[index];
        auto *options = dynamic_cast<Options *>(&added.options());
        if (!options)
            return false;
        variable_at(name + (index ? "/learning_rate_" + std::to_string(index) : "/learning_rate"), HS_DOUBLE, shape(),
                    [&optimizer, index](bool) -> void * {
                        return &static_cast<Options &>(optimizer.param_groups().at(index).options()).lr();
                    });
        for (const at::Tensor &parameter : added.params()) {
            const auto named = names_.find(parameter.unsafeGetTensorImpl());
            if (named == names_.end())
                throw error(HS_INVALID_ARGUMENT, "optimizer '" + name +
                                                     "' has a parameter of another module; call module() for "
                                                     "each module before");
            if (!seen.insert(named->first).second)
                continue;
            fields(*options, [&](const char *field, auto get) {
                add_field<State>(optimizer, parameter, name + '/' + field + '/' + named->second, get);
            });
        }
        return true;
    }
    /* Adds one tensor of a parameter's state. The optimizer creates the state in its first step; a restore may be earlier.
     */
    template <class State, class Get>
    void add_field(torch::optim::Optimizer &optimizer, const at::Tensor &parameter, const std::string &name, Get get)
    {
        constexpr bool is_moment = std::is_reference_v<decltype(get(std::declval<State &>()))>;
        const at::Tensor like = is_moment ? parameter.detach() : at::zeros({}, at::kLong);
        tensor(name, like, [&optimizer, parameter, get](bool create) -> at::Tensor {
            auto &states = optimizer.state();
            const auto key = key_of(states, parameter);
            if (create && states.find(key) == states.end())
                states[key] = std::make_unique<State>();
            const auto found = states.find(key);
            if (found == states.end())
                return {};
            State &state = static_cast<State &>(*found->second);
            if constexpr (is_moment)
                if (create && !get(state).defined())
                    get(state) = at::zeros_like(parameter.detach());
            return get(state);
        });
    }

    std::map<const void *, std::string> names_; /* of parameters and buffers */
};

namespace detail
{

/* Calls `body` with a session that has only the tensors of a module. */
template <class Body> void with_module(const torch::nn::Module &module, Body body)
{
    torch_graph g;
    g.module(module);
    hs_error err;
    {
        const session s = hooked_session(g, nullptr);
        err = s.last_error();
        if (s.get())
            body(hs_session_raw(s.get()), &err);
    }
    if (err.code)
        throw error(err);
}

} // namespace detail

/* Write the parameters and buffers of a module to a safetensors file, and read them from it, under PyTorch's names, as
 * load_state_dict in Python takes them. `names` maps names of the module to others in the file. NULL: none. */
inline void save_safetensors(const torch::nn::Module &module, const std::string &path,
                             const hs_checkpoint_name *names = nullptr)
{
    const hs_safetensors_pair metadata[] = {{"format", "pt"}, {nullptr, nullptr}};
    hs_safetensors_options options{};
    options.size = sizeof options;
    options.names = names;
    options.metadata = metadata;
    detail::with_module(
        module, [&](hs_raw_session *s, hs_error *err) { return hs_safetensors_save(s, path.c_str(), &options, err); });
}
inline void load_safetensors(const torch::nn::Module &module, const std::string &path,
                             const hs_checkpoint_name *names = nullptr)
{
    hs_restore_options options{};
    options.size = sizeof options;
    options.names = names;
    detail::with_module(
        module, [&](hs_raw_session *s, hs_error *err) { return hs_safetensors_load(s, path.c_str(), &options, err); });
}

} // namespace hs

#endif
