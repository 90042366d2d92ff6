/* SPDX-License-Identifier: Apache-2.0 */
/* wrapper DIRECTORY: programs over hooksess.hpp. */
#include <hooksess/hooksess.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                                                        \
    do                                                                                                                     \
        if (!(what)) {                                                                                                     \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                \
            std::exit(1);                                                                                                  \
        }                                                                                                                  \
    while (0)

namespace
{

struct model {
    std::vector<float> weights = std::vector<float>(6);
    std::array<double, 3> moments{};
    std::mt19937_64 engine{7};
    std::complex<double> phase{1, 0};
    uint16_t batches = 0;
    struct {
        int32_t file, line;
    } position = {0, 0};
    float loss = 0;
    std::vector<double> squares = std::vector<double>(6); /* a value */

    void make_step()
    {
        std::normal_distribution<float> noise(0, 1);
        batches++;
        position.line += 3;
        loss = 0;
        for (float &w : weights) {
            w += 0.1f * noise(engine);
            loss += w * w;
        }
        moments[batches % 3] += static_cast<double>(loss);
        phase *= std::complex<double>(0, 1);
    }
};

hs_shape shape_of(const std::vector<float> &values)
{
    return HS_SHAPE(values.size(), 1); /* a size_t */
}

/* `directory` must outlive them. */
hs_training_options options_for(const std::string &directory, const hs_hook *hooks)
{
    hs_training_options options{};
    options.size = sizeof options;
    options.checkpoint_dir = directory.c_str();
    options.save_checkpoint_steps = 2;
    options.hooks = hooks;
    return options;
}

hs_hook stop_at(int64_t step)
{
    hs_stop_at_step_options options{};
    options.size = sizeof options;
    options.last_step = step;
    return hs_stop_at_step_hook(&options);
}

void describe(hs::graph &g, model &m)
{
    g.variable("weights", m.weights, {2, 3});
    g.variable("moments", m.moments);
    g.variable("phase", m.phase);
    g.variable("batches", m.batches);
    g.bytes("position", m.position, HS_STATE_PER_RANK);
    g.state("engine", m.engine, HS_STATE_PER_RANK);
    g.value("squares", m.squares, {3, 2});
    g.value("loss", m.loss);
}

int train(const std::string &directory, int64_t last_step, model &m)
{
    hs::graph g;
    describe(g, m);
    hs::op_options training;
    training.writes = {"weights", "moments", "phase", "batches", "loss"};
    training.advances_step = true;
    g.global_step();
    g.op(
        "train", [&](hs::op &) { m.make_step(); }, training);
    const hs_hook hooks[] = {stop_at(last_step), {}};
    const hs_training_options options = options_for(directory, hooks);
    hs::session s = hs::training_session(g, &options);
    while (!s.should_stop())
        s.run("train");
    return s.close().exit_code();
}

void a_resumed_run_is_the_same(const std::string &directory)
{
    model whole, first, second;
    CHECK(train(directory + "/whole", 5, whole) == 0);
    CHECK(train(directory + "/resumed", 2, first) == 0);
    CHECK(train(directory + "/resumed", 5, second) == 0);
    CHECK(whole.weights == second.weights && whole.moments == second.moments && whole.engine == second.engine);
    CHECK(whole.batches == 5 && second.batches == 5 && second.position.line == 15 && whole.phase == second.phase);
}

void an_exception_of_an_op_ends_the_run(const std::string &directory)
{
    hs::graph g;
    g.global_step();
    hs::op_options training;
    training.advances_step = true;
    g.op(
        "train", [](hs::op &op) { op.global_step() == 1 ? throw std::runtime_error("the data is gone") : 0; }, training);
    const std::string place = directory + "/thrown";
    const hs_training_options options = options_for(place, nullptr);
    hs::session s = hs::training_session(g, &options);
    int runs = 0;
    for (; !s.should_stop(); runs++)
        s.run("train");
    CHECK(runs == 2);
    CHECK(std::strstr(s.last_error().message, "the data is gone"));
    hs::outcome outcome = s.close();
    CHECK(outcome.exit_code() == 1 && outcome.get().error.code == HS_INTERNAL);
    CHECK(std::strstr(outcome.get().error.message, "the data is gone"));
}

struct amount {
    int value;
};
std::ostream &operator<<(std::ostream &to, const amount &a)
{
    return a.value < 0 ? to << "a debt" : to << a.value;
}
std::istream &operator>>(std::istream &from, amount &a)
{
    return from >> a.value;
}

/* Text that is not read back is refused when it is restored, as is text that is left over. */
void state_that_cannot_be_read(const std::string &directory)
{
    for (int value : {-1, 12}) {
        const std::string place = directory + "/amount" + std::to_string(value);
        const hs_hook hooks[] = {stop_at(1), {}};
        for (int times = 0; times < 2; times++) {
            amount a{times ? 0 : value};
            hs::graph g;
            g.state("amount", a);
            const hs_training_options options = options_for(place, times ? nullptr : hooks);
            hs::session s = hs::training_session(g, &options);
            while (!times && s.step_begin())
                s.step_end();
            if (times && value < 0)
                CHECK(!s.get() && std::strstr(s.last_error().message, "cannot read the state"));
            else
                CHECK(s.get() && a.value == value);
        }
    }
}

void placeholders_are_fed()
{
    hs::graph g;
    float x = 4;
    g.placeholder("x", HS_FLOAT);
    hs::session s = hs::hooked_session(g, nullptr);
    const hs_feed feeds[] = {{"x", hs_tensor_of(HS_FLOAT, hs_shape_of(0, nullptr), &x)}, {}};
    const char *const names[] = {"x", nullptr};
    hs_run_args args{};
    args.size = sizeof args;
    args.names = names;
    args.feeds = feeds;
    const hs_run_values *values;
    hs_error err;
    CHECK(hs_session_run_args(s.get(), &args, &values, &err) == HS_OK && hs_run_values_number(values, 0) == 4);
    s.request_stop();
    CHECK(s.should_stop());
    s.interrupt();
    CHECK(s.close().exit_code() == 0);
}

void codes_of_lambdas_count()
{
    hs::graph g;
    int batches = 0;
    g.op("read", [&](hs::op &) {
        if (++batches == 3)
            return HS_OUT_OF_RANGE;
        return HS_OK;
    });
    g.op("lost", [](hs::op &) -> hs_code { throw hs::error(HS_ABORTED, "the worker is gone"); });
    {
        hs::session s = hs::hooked_session(g, nullptr);
        while (!s.should_stop())
            s.run("read");
        CHECK(batches == 3);
        CHECK(s.close().exit_code() == 0);
    }
    hs::session s = hs::hooked_session(g, nullptr);
    int runs = 0;
    for (; !s.should_stop(); runs++)
        s.run("lost");
    CHECK(runs == 1 && s.close().get().error.code == HS_ABORTED); /* it does not recover */
}

void a_callback_does_not_close_its_session()
{
    hs::graph g;
    hs::session *inside = nullptr;
    int refusals = 0;
    g.op("close", [&](hs::op &) { refusals += inside->close().get().error.code == HS_FAILED_PRECONDITION; });
    hs::session s = hs::hooked_session(g, nullptr);
    inside = &s;
    CHECK(s.run("close") == HS_OK && refusals == 1);
    CHECK(s.close().exit_code() == 0);
}

void an_exception_in_the_loop_saves_nothing(const std::string &directory)
{
    model m;
    try {
        hs::graph g;
        describe(g, m);
        const std::string place = directory + "/left";
        const hs_training_options options = options_for(place, nullptr);
        hs::session s = hs::training_session(g, &options);
        for (int i = 0; s.step_begin(); i++) {
            if (i == 3)
                throw std::out_of_range("no batch");
            m.make_step();
            s.step_end();
        }
    } catch (const std::out_of_range &) {
        hs_error err;
        char *newest = hs_checkpoint_latest(nullptr, (directory + "/left").c_str(), nullptr, &err);
        CHECK(newest && std::strstr(newest, "model.ckpt-"));
        hs_env_free(nullptr, newest);
        return;
    }
    CHECK(!"reached");
}

/* Trains in a range of steps, up to `last_step`, or to a break in `left`. Returns the numbers of the completed steps. */
std::vector<int64_t> train_range(const std::string &directory, int64_t last_step, int64_t left)
{
    model m;
    hs::graph g;
    describe(g, m);
    const hs_hook hooks[] = {stop_at(last_step), {}};
    const hs_training_options options = options_for(directory, hooks);
    hs::session s = hs::training_session(g, &options);
    std::vector<int64_t> numbers;
    for (int64_t step : s.steps()) {
        if (step == left)
            break;
        m.make_step();
        numbers.push_back(step);
        if (step % 2)
            continue;
        CHECK(s.global_step() == step - 1);
    }
    s.close();
    return numbers;
}

void a_range_has_the_steps_that_are_left(const std::string &directory)
{
    CHECK(train_range(directory + "/range", 3, 0) == (std::vector<int64_t>{1, 2, 3}));
    CHECK(train_range(directory + "/range", 5, 0) == (std::vector<int64_t>{4, 5}));
    CHECK(train_range(directory + "/range", 5, 0).empty());
    CHECK(train_range(directory + "/range", 9, 7) == (std::vector<int64_t>{6}));
    CHECK(train_range(directory + "/range", 7, 0) == (std::vector<int64_t>{7})); /* the break has discarded it */
}

/* In a forked child, destructors close nothing. */
void a_worker_that_throws_does_not_harm_the_session(const std::string &directory)
{
    static const char *const scalars[] = {"loss", nullptr};
    model m;
    pid_t worker = -1;
    try {
        hs::graph g;
        describe(g, m);
        const std::string place = directory + "/workers";
        const hs_hook hooks[] = {stop_at(4), {}};
        hs_training_options options = options_for(place, hooks);
        options.scalars = scalars;
        options.signals = true;
        hs::session s = hs::training_session(g, &options);
        while (s.step_begin()) {
            worker = fork();
            if (worker == 0) {
                alarm(50);
                throw std::out_of_range("no image");
            }
            int status = -1;
            CHECK(waitpid(worker, &status, 0) == worker && status == 0);
            m.make_step();
            s.step_end();
        }
        const hs::outcome ended = s.close();
        CHECK(ended.exit_code() == 0 && ended.get().step == 4 && ended.get().last_saved_step == 4);
    } catch (const std::out_of_range &) {
        _exit(worker == 0 ? 0 : 1);
    }
}

void hooks_are_lambdas(const std::string &directory)
{
    model m;
    double sum = 0;
    int ends = 0;
    hs::graph g;
    describe(g, m);
    hs::hook_options looking;
    looking.fetches = {"loss", "batches"};
    looking.after_run = [&](hs::run_context &run, const hs_run_values *values) {
        sum += hs_run_values_number(values, 0);
        if (hs_run_values_number(values, 1) == 3)
            run.request_stop();
    };
    looking.end = [&] { ends++; };
    const hs_hook hooks[] = {hs::hook("looking", looking), {}};
    const std::string place = directory + "/hooked";
    const hs_training_options options = options_for(place, hooks);
    hs::session s = hs::training_session(g, &options);
    double expected = 0;
    while (s.step_begin()) {
        m.make_step();
        expected += static_cast<double>(m.loss);
        s.step_end();
    }
    CHECK(s.global_step() == 3);
    CHECK(s.close().exit_code() == 0);
    CHECK(sum == expected && ends == 1);
}

hs_trigger every_two_steps()
{
    hs_trigger trigger{};
    trigger.every_n_steps = 2;
    return trigger;
}

hs_hook squares_of(double &last, int &calls)
{
    auto add = [&last, &calls](hs::run_context &run, const hs_run_values *values) {
        CHECK(run.global_step() % 2 == 0);
        last = hs_run_values_number(values, 0);
        calls++;
    };
#if __cplusplus >= 202002L
    return hs::hook("squares", {.fetches = {"loss"}, .when = HS_EVERY_STEPS(2), .after_run = add});
#else
    hs::hook_options options;
    options.fetches = {"loss"};
    options.when = every_two_steps();
    options.after_run = add;
    return hs::hook("squares", options);
#endif
}

void a_step_wants_what_its_hooks_read(const std::string &directory)
{
    model m;
    double last = 0;
    int calls = 0, copies = 0;
    hs::graph g;
    describe(g, m);
    const hs_hook hooks[] = {stop_at(5), squares_of(last, calls), {}};
    const std::string place = directory + "/wants";
    const hs_training_options options = options_for(place, hooks);
    hs::session s = hs::training_session(g, &options);
    while (s.step_begin()) {
        if (s.wants("loss"))
            m.loss = static_cast<float>(++copies);
        s.step_end();
    }
    CHECK(s.close().exit_code() == 0);
    CHECK(calls == 2 && copies == 2 && last == 2);
}

void a_lambda_acts_every_n_steps(const std::string &directory)
{
    const std::string place = directory + "/every";
    double last = 0;
    int calls = 0, before_calls = 0;
    for (int64_t end : {1, 3, 4, 7}) { /* resumed: at the steps of an uninterrupted training */
        model m;
        hs::graph g;
        describe(g, m);
        hs::hook_options before;
        before.when = every_two_steps();
        before.before_run = [&](hs::run_context &run) {
            CHECK(run.global_step() % 2 == 1);
            before_calls++;
        };
        const hs_hook hooks[] = {squares_of(last, calls), hs::hook("before", before), stop_at(end), {}};
        const hs_training_options options = options_for(place, hooks);
        hs::session s = hs::training_session(g, &options);
        while (s.step_begin()) {
            m.make_step();
            s.step_end();
            CHECK(s.global_step() % 2 || last == static_cast<double>(m.loss));
        }
        CHECK(s.close().exit_code() == 0);
    }
    CHECK(calls == 3 && before_calls == 3);
}

void the_listed_steps_of_a_lambda_are_copied(const std::string &directory)
{
    model m;
    hs::graph g;
    describe(g, m);
    std::string acted;
    hs::hook_options listed;
    std::vector<int64_t> steps = {5, 1, -1};
    listed.when.at_steps = steps.data();
    listed.after_run = [&](hs::run_context &run, const hs_run_values *) {
        acted += std::to_string(run.global_step()) + " ";
    };
    const hs_hook hooks[] = {hs::hook("listed", listed), stop_at(7), {}};
    steps = {2, -1, -1};
    const std::string place = directory + "/listed";
    const hs_training_options options = options_for(place, hooks);
    hs::session s = hs::training_session(g, &options);
    while (s.step_begin()) {
        m.make_step();
        s.step_end();
    }
    CHECK(s.close().exit_code() == 0);
    CHECK(acted == "1 5 ");
}

void a_hook_that_throws_fails(const std::string &directory)
{
    model m;
    hs::graph g;
    describe(g, m);
    hs::hook_options throwing;
    throwing.before_run = [](hs::run_context &run) {
        if (run.global_step() == 1)
            throw hs::error(HS_DATA_LOSS, "the file is torn");
    };
    const hs_hook hooks[] = {hs::hook("throwing", throwing), {}};
    const std::string place = directory + "/throwing";
    const hs_training_options options = options_for(place, hooks);
    hs::session s = hs::training_session(g, &options);
    while (s.step_begin()) {
        m.make_step();
        s.step_end();
    }
    hs::outcome outcome = s.close();
    CHECK(outcome.get().error.code == HS_DATA_LOSS && std::strcmp(outcome.get().hook, "throwing") == 0);
}

void a_sink_is_a_lambda(const std::string &directory)
{
    const std::string place = directory + "/sink";
    std::vector<double> losses;
    hs_scalars_options scalars{};
    const char *const names[] = {"loss", nullptr};
    scalars.size = sizeof scalars;
    scalars.tensors = names;
    scalars.every_n_steps = 2;
    scalars.sink = hs::scalar_sink("losses", [&](const hs_scalar_row &row) {
        losses.push_back(row.scalars[0].value);
        if (row.step == 3)
            throw std::runtime_error("no room"); /* ends no training */
    });
    model m;
    hs::graph g;
    describe(g, m);
    const hs_hook hooks[] = {stop_at(5), hs_scalars_hook(&scalars), {}};
    const hs_training_options options = options_for(place, hooks);
    hs::session s = hs::training_session(g, &options);
    while (s.step_begin()) {
        m.make_step();
        s.step_end();
    }
    CHECK(s.close().exit_code() == 0);
    CHECK(losses.size() == 3 && losses[2] == static_cast<double>(m.loss));
}

void inputs_and_outputs()
{
    hs::graph g;
    std::vector<double> x = {1, 2, 3};
    g.variable("x", x);
    hs::op_options adding;
    adding.inputs = {"x"};
    hs::output sum{};
    sum.dtype = HS_DOUBLE;
    adding.outputs = {sum};
    g.op(
        "sum",
        [](hs::op &op) {
            const double *from = op.input<double>(0);
            *op.output<double>(0) = from[0] + from[1] + from[2];
        },
        adding);
    adding.outputs[0].dtype = HS_FLOAT;
    g.op(
        "wrong", [](hs::op &op) { *op.output<double>(0) = 0; }, adding);
    hs::session s = hs::hooked_session(g, nullptr);
    const hs_run_values *values;
    hs_error err;
    const char *const names[] = {"sum", nullptr};
    hs_run_args args{};
    args.size = sizeof args;
    args.names = names;
    CHECK(hs_session_run_args(s.get(), &args, &values, &err) == HS_OK && hs_run_values_number(values, 0) == 6);
    CHECK(s.run("wrong") == HS_INVALID_ARGUMENT && std::strstr(s.last_error().message, "of type float"));
}

/* Vectors that are swapped and allocated by the steps, and a pointer. */
struct mover {
    std::vector<float> u, next, moments;
    float *raw = nullptr;
    mover() : u(4), next(4)
    {
    }
    mover(const mover &) = delete;
    mover &operator=(const mover &) = delete;
    ~mover()
    {
        std::free(raw);
    }
    void make_step()
    {
        if (moments.empty())
            moments.resize(4);
        if (!raw)
            raw = static_cast<float *>(std::calloc(4, sizeof *raw));
        for (size_t i = 0; i < 4; i++) {
            moments[i] = 0.5f * moments[i] + static_cast<float>(i);
            raw[i] += moments[i];
            next[i] = u[i] + raw[i];
        }
        std::swap(u, next);
    }
};

void move_on(const std::string &directory, int64_t last_step, mover &m)
{
    hs::graph g;
    g.variable("u", m.u);
    g.variable("moments", m.moments, {4});
    g.variable("raw", m.raw, {2, 2});
    const hs_hook hooks[] = {stop_at(last_step), {}};
    const hs_training_options options = options_for(directory, hooks);
    hs::session s = hs::training_session(g, &options);
    while (s.step_begin()) {
        m.make_step();
        s.step_end();
    }
    CHECK(s.close().exit_code() == 0);
}

void vectors_may_move(const std::string &directory)
{
    for (int64_t stop = 1; stop < 4; stop++) {
        mover whole, first, second;
        const std::string number = std::to_string(stop);
        move_on(directory + "/moved" + number, 6, whole);
        move_on(directory + "/moved_on" + number, stop, first);
        move_on(directory + "/moved_on" + number, 6, second);
        CHECK(whole.u == second.u && whole.moments == second.moments);
        CHECK(std::memcmp(whole.raw, second.raw, 4 * sizeof(float)) == 0);
    }
}

void a_vector_of_another_size_is_refused()
{
    hs::graph g;
    std::vector<float> v(6);
    g.variable("v", v);
    hs::session s = hs::hooked_session(g, nullptr);
    hs_error err;
    hs_state_copy *copy = nullptr;
    v.reserve(1000);
    CHECK(hs_raw_session_copy_state(hs_session_raw(s.get()), &copy, &err) == HS_OK);
    v.push_back(1);
    CHECK(hs_raw_session_copy_state(hs_session_raw(s.get()), &copy, &err) == HS_FAILED_PRECONDITION);
    CHECK(std::strstr(err.message, "variable 'v': the vector has 7 elements, but was defined with 6"));
    v.clear();
    CHECK(hs_raw_session_copy_state(hs_session_raw(s.get()), &copy, &err) == HS_FAILED_PRECONDITION);
    hs_state_copy_free(copy);
}

template <class Body> void throws(hs_code code, const char *says, Body &&body)
{
    try {
        body();
    } catch (const hs::error &e) {
        CHECK(e.code() == code && std::strstr(e.what(), says));
        return;
    }
    CHECK(!"it throws nothing");
}

void what_cannot_be_built_throws()
{
    hs::graph g;
    std::vector<float> v(6), none;
    throws(HS_INVALID_ARGUMENT, "do not fit its shape", [&] { g.variable("v", v, {2, 4}); });
    throws(HS_INVALID_ARGUMENT, "too many dimensions", [&] { g.variable("v", v, {1, 1, 1, 1, 1, 1, 1, 1, 1, 6}); });
    throws(HS_INVALID_ARGUMENT, "too many dimensions", [&] { g.variable("v", v, std::vector<int64_t>(9, 1)); });
    throws(HS_INVALID_ARGUMENT, "name", [&] { g.variable("", v); });
    hs::session s = hs::training_session(g, nullptr); /* the graph is broken */
    CHECK(s.should_stop() && !s.step_begin());
    CHECK(s.last_error().code == HS_INVALID_ARGUMENT);
    CHECK(s.close().exit_code() == 1);
}

/* Memory whose dtype and shape are known at run time, found by a function that the graph keeps. */
struct layers {
    std::vector<std::vector<int16_t>> memory;
    std::vector<int64_t> dims;
    std::string label;
};

int train_layers(const std::string &directory, int64_t last_step, layers &l)
{
    hs::graph g;
    auto alive = std::make_shared<int>(0);
    const std::weak_ptr<int> watch = alive;
    for (size_t i = 0; i < 2; i++)
        g.variable_at("layer/" + std::to_string(i), HS_INT16, hs::shape(l.dims), [&l, i, alive](bool allocate) -> void * {
            if (allocate)
                l.memory[i].resize(6);
            return l.memory[i].empty() ? nullptr : l.memory[i].data();
        });
    alive.reset();
    CHECK(!watch.expired());
    std::vector<double> squares(6);
    g.value("squares", squares, l.dims);
    g.state_at(
        "label", [&] { return l.label; }, [&](const std::string &saved) { l.label = saved; });
    int64_t &step = g.keep(int64_t());
    g.global_step(step);
    const hs_hook hooks[] = {stop_at(last_step), {}};
    const hs_training_options options = options_for(directory, hooks);
    {
        hs::session s = hs::training_session(g, &options);
        while (s.step_begin()) {
            l.memory[0].resize(6);
            l.memory[0][static_cast<size_t>(step)]++;
            l.label += 'x';
            s.step_end();
        }
        CHECK(s.close().exit_code() == 0 && step == last_step);
    }
    return 0;
}

void memory_is_found_by_a_function(const std::string &directory)
{
    layers first{{{}, {}}, {2, 3}, ""}, second = first;
    train_layers(directory + "/layers", 2, first);
    train_layers(directory + "/layers", 4, second);
    CHECK((second.memory[0] == std::vector<int16_t>{1, 1, 1, 1, 0, 0}) && second.memory[1].empty());
    CHECK(second.label == "xxxx");
}

} // namespace

int main(int argc, char **argv)
{
    CHECK(shape_of(model().weights).dims[0] == 6);
    if (argc != 2)
        return 2;
    a_resumed_run_is_the_same(argv[1]);
    an_exception_of_an_op_ends_the_run(argv[1]);
    state_that_cannot_be_read(argv[1]);
    placeholders_are_fed();
    codes_of_lambdas_count();
    a_callback_does_not_close_its_session();
    an_exception_in_the_loop_saves_nothing(argv[1]);
    a_range_has_the_steps_that_are_left(argv[1]);
    a_worker_that_throws_does_not_harm_the_session(argv[1]);
    hooks_are_lambdas(argv[1]);
    a_step_wants_what_its_hooks_read(argv[1]);
    a_lambda_acts_every_n_steps(argv[1]);
    the_listed_steps_of_a_lambda_are_copied(argv[1]);
    a_hook_that_throws_fails(argv[1]);
    a_sink_is_a_lambda(argv[1]);
    inputs_and_outputs();
    vectors_may_move(argv[1]);
    a_vector_of_another_size_is_refused();
    memory_is_found_by_a_function(argv[1]);
    what_cannot_be_built_throws();
    return 0;
}
