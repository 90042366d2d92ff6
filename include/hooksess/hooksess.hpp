/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HPP
#define HOOKSESS_HPP

/* The library for C++17 and later, header-only (docs/guide/cpp.md). The designated initializers below are C++20;
 * compilers take them as C++17, too, and warn with -Wpedantic.
 *
 *     hs::graph g;
 *     std::vector<float> weights(784 * 10);
 *     float loss = 0;
 *     g.variable("weights", weights, {784, 10});
 *     g.value("loss", loss);
 *     g.op("train", [&](hs::op &) { train_step(weights, loss); }, {.writes = {"weights", "loss"}, .advances_step = true});
 *     hs::session s = hs::training_session(
 *         g, HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .hooks = HS_HOOKS(hs_nan_tensor(.tensor = "loss"))));
 *     while (!s.should_stop())
 *         s.run("train");
 *     return s.close().exit_code();
 *
 * Lifetime: declare the memory of variables first, then the graph, then the session. An op that fills a queue must end
 * within stop_grace_secs.
 *
 * Errors: functions that build a graph throw hs::error. A failing run returns its code, and should_stop() is then true.
 * An exception of a lambda ends the run with HS_INTERNAL, or the code of the hs::error. If an exception unwinds the stack
 * past a session, the session fails and saves nothing more.
 *
 * Threads: one thread at a time per object. Any thread may call session::interrupt and session::request_stop. */

#include <hooksess/hooksess.h>
#if __has_include(<hooksess/cuda.h>)
#include <hooksess/cuda.h>
#endif

#include <array>
#include <complex>
#include <cxxabi.h>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hs
{

class error : public std::runtime_error
{
  public:
    error(hs_code code, const std::string &message) : std::runtime_error(message), code_(code)
    {
    }
    explicit error(const hs_error &e) : error(e.code, e.message)
    {
    }
    hs_code code() const noexcept
    {
        return code_;
    }

  private:
    hs_code code_;
};

namespace detail
{

template <class T> constexpr hs_dtype dtype()
{
    static_assert(!std::is_const_v<T>, "variables must not be const: the library writes to them");
    static_assert(!std::is_pointer_v<T>, "for a pointer, give the shape of its memory, too");
    if constexpr (std::is_same_v<T, float>)
        return HS_FLOAT;
    else if constexpr (std::is_same_v<T, double>)
        return HS_DOUBLE;
    else if constexpr (std::is_same_v<T, std::complex<float>>)
        return HS_COMPLEX64;
    else if constexpr (std::is_same_v<T, std::complex<double>>)
        return HS_COMPLEX128;
    else if constexpr (std::is_same_v<T, bool>)
        return HS_BOOL;
    else {
        static_assert(
            std::is_integral_v<T> && sizeof(T) <= 8,
            "no dtype has elements of this type; use float, double, std::complex, bool or an integer, give a dtype "
            "to hs::graph::variable, or include hooksess/torch.hpp for tensors of LibTorch");
        constexpr hs_dtype as_signed[] = {HS_INT8, HS_INT16, HS_INT32, HS_INT64};
        constexpr hs_dtype as_unsigned[] = {HS_UINT8, HS_UINT16, HS_UINT32, HS_UINT64};
        constexpr int width = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
        return std::is_signed_v<T> ? as_signed[width] : as_unsigned[width];
    }
}

/* Whether << writes the type and >> reads it. */
template <class T, class = void> struct is_text : std::false_type {
};
template <class T>
struct is_text<T, std::void_t<decltype(std::declval<std::ostream &>() << std::declval<T &>()),
                              decltype(std::declval<std::istream &>() >> std::declval<T &>())>> : std::true_type {
};

/* Converts exceptions to errors, except those of pthread_exit and cancellation. */
template <class Body> hs_code guarded(hs_error *err, Body &&body)
{
    try {
        using result = decltype(body());
        if constexpr (std::is_void_v<result>) {
            return body(), HS_OK;
        } else {
            static_assert(std::is_convertible_v<result, hs_code> && !std::is_same_v<result, bool>,
                          "the function must return nothing or an hs_code");
            return body();
        }
    } catch (const error &e) {
        return hs_error_set(err, e.code() ? e.code() : HS_INTERNAL, "%s", e.what());
    } catch (const std::bad_alloc &) {
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory");
    } catch (const std::exception &e) {
        return hs_error_set(err, HS_INTERNAL, "%s", e.what());
#ifdef __GLIBCXX__
    } catch (const abi::__forced_unwind &) {
        throw;
#endif
    } catch (...) {
        return hs_error_set(err, HS_INTERNAL, "an exception that is not a std::exception");
    }
}

/* A list of names for C. The strings must outlive it. */
inline std::vector<const char *> pointers_of(const std::vector<std::string> &names)
{
    std::vector<const char *> pointers;
    for (const std::string &name : names)
        pointers.push_back(name.c_str());
    pointers.push_back(nullptr);
    return pointers;
}

/* Base of objects that a graph owns. */
struct kept {
    virtual ~kept() = default;
};

} // namespace detail

/* A shape that is known when the program runs: {784, 10}, or a container of integers, such as a std::vector. Without
 * dimensions: a scalar, or for memory of a known size one dimension. */
class shape
{
  public:
    shape() = default;
    shape(std::initializer_list<int64_t> dims) : shape(dims.begin(), dims.end())
    {
    }
    template <class Container, class = std::enable_if_t<std::is_integral_v<
                                   std::decay_t<decltype(*std::begin(std::declval<const Container &>()))>>>>
    shape(const Container &dims) : shape(std::begin(dims), std::end(dims))
    {
    }
    operator hs_shape() const
    {
        return c_;
    }

  private:
    template <class Iterator> shape(Iterator begin, Iterator end)
    {
        for (; begin != end; ++begin) {
            if (c_.rank == HS_MAX_RANK)
                throw error(HS_INVALID_ARGUMENT, "a shape has too many dimensions");
            c_.dims[c_.rank++] = static_cast<int64_t>(*begin);
        }
    }
    hs_shape c_{};
};

/* The running op. See hs_op_input and the functions after it. Throws if `index` or the element type is wrong. */
class op
{
  public:
    explicit op(hs_op *c) : c_(c)
    {
    }
    template <class T> const T *input(size_t index) const
    {
        return static_cast<const T *>(element<T>(hs_op_input(c_, index)));
    }
    template <class T> T *output(size_t index)
    {
        return static_cast<T *>(element<T>(hs_op_output(c_, index)));
    }
    int64_t global_step() const
    {
        return hs_op_global_step(c_, nullptr);
    }
    bool stop_requested() const
    {
        return hs_op_stop_requested(c_);
    }
    hs_op *get() const
    {
        return c_;
    }

  private:
    template <class T> static void *element(const hs_tensor *tensor)
    {
        if (!tensor)
            throw error(HS_INVALID_ARGUMENT, "the op has no tensor with this index");
        if (tensor->dtype != detail::dtype<std::remove_const_t<T>>())
            throw error(HS_INVALID_ARGUMENT, std::string("a tensor of the op is of type ") + hs_dtype_name(tensor->dtype));
        return const_cast<void *>(static_cast<const void *>(tensor->data));
    }
    hs_op *c_;
};

struct output {
    hs_dtype dtype;
    hs_shape shape = hs_shape_of(0, nullptr);
};

struct op_options {
    std::vector<std::string> inputs = {}, control_inputs = {};
    std::vector<output> outputs = {};
    std::vector<std::string> writes = {}; /* variables and values that it changes. Empty: any */
    bool advances_step = false;
};

class graph
{
  public:
    explicit graph(const hs_env *env = nullptr) : c_(hs_graph_new(env))
    {
        if (!c_)
            throw std::bad_alloc();
    }
    graph(graph &&) = default;
    graph &operator=(graph &&) = delete; /* would destroy the ops before the graph */

    /* A variable, saved and restored. Without a shape, a vector has one dimension. The vector may be assigned, swapped or
     * reallocated, but a save or a run fails with HS_FAILED_PRECONDITION if its size has changed. An empty vector with a
     * shape is allocated later, by a step or a restore. hs_save_options.overlap has no effect on vectors. */
    template <class T> void variable(const std::string &name, std::vector<T> &memory, const shape &dims = {})
    {
        static_assert(!std::is_same_v<T, bool>, "std::vector<bool> is not supported: it has no array of its elements");
        const bool comes_later = memory.empty() && hs_shape(dims).rank;
        const hs_shape fitting = comes_later ? hs_shape(dims) : fit(name, dims, memory.size());
        const size_t size = static_cast<size_t>(hs_shape_elements(&fitting));
        variable_at(name, detail::dtype<T>(), fitting, [&memory, size, comes_later](bool allocate) -> void * {
            if (comes_later && memory.empty() && allocate)
                memory.resize(size);
            if (memory.size() != size && !(comes_later && memory.empty()))
                throw error(HS_FAILED_PRECONDITION, "the vector has " + std::to_string(memory.size()) +
                                                        " elements, but was defined with " + std::to_string(size));
            return memory.data();
        });
    }
    /* A variable in memory that `pointer` points to (hs_graph_variable_at). The pointer must outlive the session. `memory`
     * is the memory's device, such as an hs::cuda, and must outlive the graph; nullptr: host memory. */
    template <class T>
    void variable(const std::string &name, T *&pointer, const shape &dims, const hs_memory *memory = nullptr)
    {
        add_at(name, detail::dtype<T>(), pointer, dims, memory, 0);
    }
    /* The same for elements of a type that C++ does not have, such as HS_HALF for __half. */
    template <class T>
    void variable(const std::string &name, hs_dtype dtype, T *&pointer, const shape &dims,
                  const hs_memory *memory = nullptr)
    {
        add_at(name, dtype, pointer, dims, memory, 0);
    }
    template <class T, size_t N> void variable(const std::string &name, std::array<T, N> &memory, const shape &dims = {})
    {
        check(hs_graph_variable(get(), name.c_str(), detail::dtype<T>(), fit(name, dims, N), memory.data()));
    }
    template <class T> void variable(const std::string &name, T &scalar)
    {
        check(hs_graph_variable(get(), name.c_str(), detail::dtype<T>(), hs_shape_of(0, nullptr), &scalar));
    }

    /* A variable of any dtype, in memory that the function `locate` finds at each save, restore and fetch. Its argument is
     * true if a value is restored and needs memory. It returns the address, or nullptr: no memory yet. `memory` is the
     * memory's device, and must outlive the session; nullptr: host memory. With HS_VARIABLE_LOCAL it is a value. */
    template <class Locate>
    void variable_at(const std::string &name, hs_dtype dtype, const hs_shape &dims, Locate locate,
                     const hs_memory *memory = nullptr, uint64_t flags = 0)
    {
        hs_variable_def def{};
        def.size = sizeof def;
        def.name = name.c_str();
        def.dtype = dtype;
        def.shape = dims;
        def.locate = [](void *user, size_t, bool allocate, void **data, hs_error *err) -> hs_code {
            return detail::guarded(err, [&] { *data = (*static_cast<Locate *>(user))(allocate); });
        };
        def.user = &keep(std::move(locate));
        def.memory = memory;
        def.flags = flags;
        check(hs_graph_add_variable(get(), &def));
    }

    /* State of plain bytes without pointers, such as the position in the data (hs_graph_bytes). */
    template <class T> void bytes(const std::string &name, T &plain, hs_state_scope scope = HS_STATE_SHARED)
    {
        static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                      "the type must be trivially copyable and no pointer; for a std::vector use variable()");
        check(hs_graph_bytes(get(), name.c_str(), &plain, sizeof plain, scope));
    }
    /* `n` structs without pointers in memory of a device, such as the generators of cuRAND: a variable of HS_UINT8. See the
     * variables for `pointer` and `memory`. */
    template <class T> void bytes(const std::string &name, T *&pointer, int64_t n, const hs_memory *memory)
    {
        static_assert(std::is_trivially_copyable_v<T>, "the type must be trivially copyable");
        auto &plain = reinterpret_cast<unsigned char *&>(pointer);
        add_at(name, HS_UINT8, plain, {n * static_cast<int64_t>(sizeof(T))}, memory, 0);
    }

    /* Memory that ops write and hooks read. Not saved. */
    template <class T> void value(const std::string &name, std::vector<T> &memory, const shape &dims = {})
    {
        check(hs_graph_value(get(), name.c_str(), detail::dtype<T>(), fit(name, dims, memory.size()), memory.data()));
    }
    template <class T> void value(const std::string &name, T &scalar)
    {
        check(hs_graph_value(get(), name.c_str(), detail::dtype<T>(), hs_shape_of(0, nullptr), &scalar));
    }
    template <class T>
    void value(const std::string &name, T *&pointer, const shape &dims, const hs_memory *memory = nullptr)
    {
        add_at(name, detail::dtype<T>(), pointer, dims, memory, HS_VARIABLE_LOCAL);
    }
    template <class T>
    void value(const std::string &name, hs_dtype dtype, T *&pointer, const shape &dims, const hs_memory *memory = nullptr)
    {
        add_at(name, dtype, pointer, dims, memory, HS_VARIABLE_LOCAL);
    }

    void global_step(int64_t &step)
    {
        check(hs_graph_global_step(get(), nullptr, &step));
    }
    void global_step()
    {
        check(hs_graph_global_step(get(), nullptr, nullptr));
    }

    void placeholder(const std::string &name, hs_dtype dtype, const shape &dims = {})
    {
        check(hs_graph_placeholder(get(), name.c_str(), dtype, dims));
    }

    /* Adds an op. `body` takes an hs::op &, and returns nothing or an hs_code. */
    template <class Body> void op(const std::string &name, Body body, const op_options &options = {})
    {
        std::vector<hs_output_def> outputs;
        for (const output &o : options.outputs) {
            hs_output_def def{};
            def.dtype = o.dtype;
            def.shape = o.shape;
            outputs.push_back(def);
        }
        outputs.push_back(hs_output_def{});
        const auto inputs = detail::pointers_of(options.inputs), controls = detail::pointers_of(options.control_inputs),
                   writes = detail::pointers_of(options.writes);
        hs_op_def def{};
        def.size = sizeof def;
        def.name = name.c_str();
        def.run = [](void *user, hs_op *c, hs_error *err) -> hs_code {
            return detail::guarded(err, [&] {
                hs::op called(c);
                return (*static_cast<Body *>(user))(called);
            });
        };
        def.user = &keep(std::move(body));
        def.inputs = inputs.data();
        def.control_inputs = controls.data();
        def.outputs = outputs.data();
        def.writes = options.writes.empty() ? nullptr : writes.data();
        def.advances_step = options.advances_step;
        check(hs_graph_add_op(get(), &def));
    }

    /* State that << writes and >> reads as text, such as an engine of <random>. It must outlive the session. Not for
     * numbers and strings. `scope` is as in hs_graph_bytes. */
    template <class State> void state(const std::string &name, State &state, hs_state_scope scope = HS_STATE_SHARED)
    {
        static_assert(!std::is_arithmetic_v<State> && !std::is_same_v<State, std::string>,
                      "numbers and strings are not supported; use variable() or bytes()");
        static_assert(detail::is_text<State>::value, "the type must have << and >>; use bytes() or hs_graph_state");
        const auto save = [&state] {
            std::ostringstream text;
            text.imbue(std::locale::classic());
            text << state;
            return text.str();
        };
        const auto load = [&state](const std::string &bytes) {
            std::istringstream text(bytes);
            text.imbue(std::locale::classic());
            if (!(text >> state) || !(text >> std::ws).eof())
                throw error(HS_DATA_LOSS, "cannot read the state");
        };
        state_at(name, save, load, scope);
    }
    /* State that `save` returns as a std::string, and `load` reads from one. */
    template <class Save, class Load>
    void state_at(const std::string &name, Save save, Load load, hs_state_scope scope = HS_STATE_SHARED)
    {
        using functions = std::pair<Save, Load>;
        hs_state_provider provider{};
        provider.size = sizeof provider;
        provider.name = name.c_str();
        provider.self = &keep(functions(std::move(save), std::move(load)));
        provider.scope = scope;
        provider.save = [](void *self, hs_state_writer *out, hs_error *err) -> hs_code {
            return detail::guarded(err, [&]() -> hs_code {
                const std::string bytes = static_cast<functions *>(self)->first();
                return hs_state_writer_write(out, bytes.data(), bytes.size(), err);
            });
        };
        provider.load = [](void *self, hs_state_reader *in, hs_error *err) -> hs_code {
            return detail::guarded(err, [&]() -> hs_code {
                std::string bytes(hs_state_reader_remaining(in), '\0');
                const hs_code code = hs_state_reader_read(in, &bytes[0], bytes.size(), err);
                if (!code)
                    static_cast<functions *>(self)->second(bytes);
                return code;
            });
        };
        check(hs_graph_add_state(get(), &provider));
    }

    /* Moves an object into the graph, which destroys it after its sessions. Its address stays. */
    template <class T> T &keep(T object)
    {
        struct holder : detail::kept {
            explicit holder(T &&o) : object(std::move(o))
            {
            }
            T object;
        };
        auto kept = std::make_unique<holder>(std::move(object));
        T &address = kept->object;
        kept_.push_back(std::move(kept));
        return address;
    }

    hs_graph *get() const
    {
        return c_.get();
    }
    hs_backend backend() const
    {
        return hs_graph_backend(get());
    }

  private:
    struct release {
        void operator()(hs_graph *c) const
        {
            hs_graph_free(c);
        }
    };

    static hs_shape fit(const std::string &name, const hs_shape &dims, size_t size)
    {
        const int64_t all = static_cast<int64_t>(size);
        const hs_shape fitting = dims.rank ? dims : hs_shape_of(1, &all);
        if (hs_shape_elements(&fitting) != all)
            throw error(HS_INVALID_ARGUMENT,
                        "'" + name + "' has " + std::to_string(size) + " elements, which do not fit its shape");
        return fitting;
    }

    template <class T>
    void add_at(const std::string &name, hs_dtype dtype, T *&pointer, const shape &dims, const hs_memory *memory,
                uint64_t flags)
    {
        hs_variable_def def{};
        def.size = sizeof def;
        def.name = name.c_str();
        def.dtype = dtype;
        def.shape = dims;
        def.data_at = &pointer;
        def.element_bytes = sizeof(T);
        def.memory = memory;
        def.flags = flags;
        check(hs_graph_add_variable(get(), &def));
    }

    void check(hs_code code) const
    {
        if (!code)
            return;
        hs_error first; /* not set if a call fails because a session is open */
        throw error(code, hs_graph_error(get(), &first) == code ? first.message : hs_code_name(code));
    }

    std::vector<std::unique_ptr<detail::kept>> kept_; /* destroyed after the graph */
    std::unique_ptr<hs_graph, release> c_;
};

#if __has_include(<hooksess/cuda.h>)
/* Memory of a CUDA device (cuda.h), for graph::variable and graph::value. Declare it before the graph. Link with
 * libhooksess_cuda.
 *
 *     float *weights; // from cudaMalloc
 *     hs::cuda device(stream);
 *     hs::graph g;
 *     g.variable("weights", weights, {784, 10}, device);
 *
 * The constructor throws hs::error if there is no driver or no such device. */
class cuda
{
  public:
    explicit cuda(void *stream = nullptr, int32_t device = 0, const hs_env *env = nullptr)
    {
        hs_cuda_options options{};
        hs_error err;
        options.size = sizeof options;
        options.stream = stream;
        options.device = device;
        options.env = env;
        c_.reset(hs_cuda_new(&options, &err));
        if (!c_)
            throw error(err);
    }
    operator const hs_memory *() const &
    {
        return hs_cuda_memory(c_.get());
    }
    operator const hs_memory *() && = delete; /* it must outlive the graph */
    hs_cuda *get() const
    {
        return c_.get();
    }

  private:
    struct release {
        void operator()(hs_cuda *c) const
        {
            hs_cuda_free(c);
        }
    };
    std::unique_ptr<hs_cuda, release> c_;
};
#endif

class run_context
{
  public:
    explicit run_context(hs_run_context *c) : c_(c)
    {
    }
    int64_t global_step()
    {
        hs_error err;
        const int64_t step = hs_run_context_global_step(c_, &err);
        if (step < 0)
            throw error(err);
        return step;
    }
    void request_stop()
    {
        hs_run_context_request_stop(c_);
    }
    hs_run_context *get() const
    {
        return c_;
    }

  private:
    hs_run_context *c_;
};

struct hook_options {
    std::vector<std::string> fetches = {};              /* tensors whose values after_run gets */
    hs_trigger when = {};                               /* when it is called; by default in each run. Copied */
    std::function<void(run_context &)> before_run = {}; /* cannot choose fetches: that needs hs_hook_ops */
    std::function<void(run_context &, const hs_run_values *)> after_run = {};
    std::function<void()> end = {}; /* the session ends normally */
};

/* Creates a hook for HS_HOOKS. Without a session call hs_hook_free(). If a function throws, the hook fails. */
inline hs_hook hook(std::string name, hook_options options)
{
    struct lambdas {
        std::string name;
        hook_options options;
        std::vector<const char *> names;
        std::vector<int64_t> steps; /* of `when` */
        hs_hook_ops ops{};
    };
    auto made = std::make_unique<lambdas>();
    made->name = std::move(name);
    made->options = std::move(options);
    made->names = detail::pointers_of(made->options.fetches);
    made->ops.size = sizeof made->ops;
    made->ops.name = made->name.c_str();
    if (!made->options.fetches.empty())
        made->ops.fetches = made->names.data();
    if (made->options.before_run)
        made->ops.before_run = [](void *self, hs_run_context *run, const hs_run_args **, hs_error *err) -> hs_code {
            return detail::guarded(err, [&] {
                run_context context(run);
                static_cast<lambdas *>(self)->options.before_run(context);
            });
        };
    made->ops.after_run = [](void *self, hs_run_context *run, const hs_run_values *values, hs_error *err) -> hs_code {
        lambdas *l = static_cast<lambdas *>(self);
        return detail::guarded(err, [&] {
            run_context context(run);
            if (l->options.after_run)
                l->options.after_run(context, values);
        });
    };
    made->ops.end = [](void *self, hs_raw_session *, hs_error *err) -> hs_code {
        lambdas *l = static_cast<lambdas *>(self);
        return detail::guarded(err, [&] {
            if (l->options.end)
                l->options.end();
        });
    };
    made->ops.destroy = [](void *self) { delete static_cast<lambdas *>(self); };
    hs_hook hook{};
    hook.ops = &made->ops;
    hook.when = made->options.when;
    if (const int64_t *step = hook.when.at_steps) {
        while (*step != -1)
            made->steps.push_back(*step++);
        made->steps.push_back(-1);
        hook.when.at_steps = made->steps.data();
    }
    hook.self = made.release();
    return hook;
}

/* Creates a sink for hs_scalars, which frees it. `write` gets each row. If it throws, the sink fails. */
inline hs_scalar_sink scalar_sink(std::string name, std::function<void(const hs_scalar_row &)> write)
{
    struct lambda {
        std::string name;
        std::function<void(const hs_scalar_row &)> write;
        hs_scalar_sink_ops ops{};
    };
    auto made = std::make_unique<lambda>();
    made->name = std::move(name);
    made->write = std::move(write);
    made->ops.size = sizeof made->ops;
    made->ops.name = made->name.c_str();
    made->ops.write = [](void *self, const hs_scalar_row *row, hs_error *err) -> hs_code {
        return detail::guarded(err, [&] { static_cast<lambda *>(self)->write(*row); });
    };
    made->ops.destroy = [](void *self) { delete static_cast<lambda *>(self); };
    hs_scalar_sink sink{};
    sink.ops = &made->ops;
    sink.self = made.release();
    return sink;
}

class outcome
{
  public:
    explicit outcome(const hs_outcome &c) : c_(c)
    {
    }
    int exit_code() const
    {
        return hs_outcome_exit_code(&c_);
    }
    const hs_outcome &get() const
    {
        return c_;
    }

  private:
    hs_outcome c_;
};

/* A session. The destructor closes it, but not in a forked child. The graph must outlive it. */
class session
{
  public:
    class step_iterator
    {
      public:
        explicit step_iterator(session *s) : s_(s && s->step_begin() ? s : nullptr)
        {
        }
        int64_t operator*() const
        {
            return s_->global_step() + 1;
        }
        step_iterator &operator++()
        {
            s_->step_end();
            if (!s_->step_begin())
                s_ = nullptr;
            return *this;
        }
        bool operator!=(const step_iterator &other) const
        {
            return s_ != other.s_;
        }

      private:
        session *s_; /* nullptr: no step is left */
    };
    class step_range
    {
      public:
        explicit step_range(session &s) : s_(s)
        {
        }
        step_iterator begin() const
        {
            return step_iterator(&s_);
        }
        step_iterator end() const
        {
            return step_iterator(nullptr);
        }

      private:
        session &s_;
    };

    /* Takes ownership. If `c` is NULL, should_stop() is true and close() returns `err`. */
    session(hs_session *c, const hs_error &err) : c_(c), err_(err), unwinding_(std::uncaught_exceptions())
    {
    }
    session(session &&other) noexcept
        : c_(std::exchange(other.c_, nullptr)), err_(other.err_), failed_(other.failed_), unwinding_(other.unwinding_)
    {
    }
    session(const session &) = delete;
    session &operator=(const session &) = delete;
    session &operator=(session &&) = delete;
    ~session()
    {
        if (c_ && std::uncaught_exceptions() > unwinding_) {
            hs_error_set(&err_, HS_INTERNAL, "an exception left the training loop");
            hs_session_fail(c_, &err_);
        }
        if (c_)
            hs_session_close(c_, nullptr);
    }

    /* True if the loop must end, also after a failed run. */
    bool should_stop() const
    {
        return failed_ || hs_session_should_stop(c_);
    }
    /* Runs an op. HS_ABORTED after a recovery does not end the loop (hs_recovery.return_aborted). */
    hs_code run(const char *op)
    {
        const int64_t before = hs_session_recoveries(c_);
        const scope calling(calling_);
        const hs_code code = hs_session_run(c_, op, &err_);
        failed_ |= code && !hs_session_should_stop(c_) && (code != HS_ABORTED || hs_session_recoveries(c_) == before);
        return code;
    }
    /* A step without ops. See hs_step_begin. */
    bool step_begin()
    {
        const scope calling(calling_);
        return hs_step_begin(c_);
    }
    /* All such steps that are left. Each begins before the body and ends after it, also if that says `continue`. The number
     * is the step's, from 1 on:
     *
     *     for (int64_t step : s.steps())
     *         train(step); */
    step_range steps()
    {
        return step_range(*this);
    }
    /* In such a step: whether a hook reads the value. See hs_session_wants. */
    bool wants(const char *value)
    {
        return hs_session_wants(c_, value);
    }
    /* Before the first change of a variable in a step. See hs_step_before_update. */
    void step_before_update()
    {
        hs_step_before_update(c_);
    }
    hs_code step_end()
    {
        const scope calling(calling_);
        return hs_step_end(c_);
    }
    /* The global step, or -1 if it is unknown. */
    int64_t global_step() const
    {
        return hs_session_global_step(c_, nullptr);
    }
    /* Any thread may call these two. */
    void interrupt()
    {
        hs_session_interrupt(c_);
    }
    void request_stop()
    {
        hs_session_request_stop(c_);
    }
    /* The error of the last run or of opening. */
    const hs_error &last_error() const
    {
        return err_;
    }
    /* Closes the session. From one of its callbacks, it stays open, and the outcome is HS_FAILED_PRECONDITION. */
    outcome close()
    {
        const hs_outcome ended = c_ ? hs_session_close(c_, nullptr) : hs_outcome_from_error(&err_);
        err_ = ended.error;
        if (!calling_)
            c_ = nullptr;
        return outcome(ended);
    }
    hs_session *get() const
    {
        return c_;
    }

  private:
    struct scope {
        explicit scope(bool &flag) : flag_(flag)
        {
            flag_ = true;
        }
        ~scope()
        {
            flag_ = false;
        }
        bool &flag_;
    };
    hs_session *c_;
    hs_error err_;
    bool failed_ = false, calling_ = false; /* calling_: a callback of the session may be running */
    int unwinding_;
};

/* Open a training session, or a session with your hooks only. They do not throw: if opening fails, the log says why, and
 * should_stop() is true. */
inline session training_session(const graph &g, const hs_training_options *options)
{
    hs_error err;
    hs_error_clear(&err);
    hs_session *c = hs_training_session_open(g.backend(), options, &err);
    if (!c)
        hs_log(hs_backend_env(g.backend()), HS_LOG_ERROR, "session not opened: %s", err.message);
    return session(c, err);
}

inline session hooked_session(const graph &g, const hs_session_options *options)
{
    hs_error err;
    hs_error_clear(&err);
    hs_session *c = hs_session_open(g.backend(), options, &err);
    if (!c)
        hs_log(hs_backend_env(g.backend()), HS_LOG_ERROR, "session not opened: %s", err.message);
    return session(c, err);
}

} // namespace hs

#endif
