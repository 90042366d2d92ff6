/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks in C++ that throw: the exception passes through the library, and the session can be closed. */
#include <hooksess/hooksess.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#define CHECK(condition)                                                                                                   \
    ((condition) ? (void)0 : (std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), std::exit(1)))

namespace
{

struct trainer {
    hs_graph *graph = hs_graph_new(nullptr);
    int steps = 0, throws_at = 0;
    double loss = 0;
    int ends = 0, closes = 0, throws_in_begin = 0, throws_in_after = 0, throws_in_end = 0;
    hs_error err{};

    trainer()
    {
        static const char *const writes[] = {"loss", nullptr};
        hs_op_def train{};
        train.size = sizeof train;
        train.name = "train";
        train.run = step;
        train.user = this;
        train.writes = writes;
        train.advances_step = true;
        hs_graph_value(graph, "loss", HS_DOUBLE, hs_shape{}, &loss);
        CHECK(hs_graph_add_op(graph, &train) == HS_OK);
    }

    ~trainer()
    {
        hs_graph_free(graph);
    }

    static hs_code step(void *self, hs_op *, hs_error *)
    {
        auto *t = static_cast<trainer *>(self);
        if (++t->steps == t->throws_at)
            throw std::runtime_error("no luck");
        return HS_OK;
    }

    static hs_code begin(void *self, hs_backend, hs_error *)
    {
        if (static_cast<trainer *>(self)->throws_in_begin)
            throw std::runtime_error("no begin");
        return HS_OK;
    }

    static hs_code after_run(void *self, hs_run_context *, const hs_run_values *, hs_error *)
    {
        if (static_cast<trainer *>(self)->throws_in_after-- == 1)
            throw std::runtime_error("no after_run");
        return HS_OK;
    }

    static hs_code end(void *self, hs_raw_session *, hs_error *)
    {
        auto *t = static_cast<trainer *>(self);
        t->ends++;
        if (t->throws_in_end)
            throw std::runtime_error("no end");
        return HS_OK;
    }

    static void close(void *self, const hs_outcome *)
    {
        static_cast<trainer *>(self)->closes++;
    }

    hs_session *open()
    {
        static hs_hook_ops ops{};
        ops.size = sizeof ops;
        ops.name = "thrower";
        ops.begin = begin;
        ops.after_run = after_run;
        ops.end = end;
        ops.close = close;
        const hs_hook hooks[] = {{&ops, this, 0, 0}, {}};
        hs_session_options options{};
        options.size = sizeof options;
        options.hooks = hooks;
        options.signals = true;
        return hs_session_open(hs_graph_backend(graph), &options, &err);
    }
};

bool terminates_by_default()
{
    struct sigaction found;
    sigaction(SIGTERM, nullptr, &found);
    return found.sa_handler == SIG_DFL;
}

template <typename Call> bool throws(Call call)
{
    try {
        call();
    } catch (const std::runtime_error &) {
        return true;
    }
    return false;
}

/* Separate functions, so that the session is closed deeper in the stack than it was run. */
__attribute__((noinline)) hs_outcome close_deep(hs_session *session, int depth)
{
    volatile char room[8192];
    room[depth] = 0;
    return depth ? close_deep(session, depth - 1) : hs_session_close(session, nullptr);
}

void has_failed(trainer &t, hs_session *session)
{
    hs_error err{};
    CHECK(hs_session_should_stop(session));
    CHECK(hs_session_run(session, "train", &err) == HS_FAILED_PRECONDITION);
    hs_outcome outcome = close_deep(session, 3);
    CHECK(outcome.reason == HS_REASON_FAILED && outcome.error.code == HS_INTERNAL);
    CHECK(std::strstr(outcome.error.message, "a callback threw an exception instead of returning"));
    CHECK(hs_outcome_exit_code(&outcome) == 1);
    CHECK(t.closes == 1);
    CHECK(terminates_by_default());
}

void an_op_throws()
{
    trainer t;
    t.throws_at = 3;
    hs_session *session = t.open();
    CHECK(session && !terminates_by_default());
    CHECK(throws([&] {
        while (!hs_session_should_stop(session))
            CHECK(hs_session_run(session, "train", &t.err) == HS_OK);
    }));
    CHECK(t.steps == 3);
    has_failed(t, session);
    CHECK(t.ends == 0);
}

void a_hook_throws()
{
    trainer t;
    t.throws_in_after = 2;
    hs_session *session = t.open();
    CHECK(hs_session_run(session, "train", &t.err) == HS_OK);
    CHECK(throws([&] { hs_session_run(session, "train", &t.err); }));
    has_failed(t, session);
}

void a_raw_run_throws()
{
    trainer t;
    t.throws_at = 1;
    hs_session *session = t.open();
    CHECK(throws(
        [&] { hs_raw_session_run(hs_session_raw(session), nullptr, nullptr, nullptr), throw std::runtime_error(""); }));
    hs_run_args train{};
    static const char *const names[] = {"train", nullptr};
    train.size = sizeof train;
    train.names = names;
    CHECK(throws([&] { hs_raw_session_run(hs_session_raw(session), &train, nullptr, nullptr); }));
    has_failed(t, session);
}

void a_step_function_throws()
{
    trainer t;
    hs_session *session = t.open();
    auto step = [](void *, hs_step_context *, hs_error *) -> hs_code { throw std::runtime_error("no step"); };
    CHECK(throws([&] { hs_session_run_step(session, step, nullptr, &t.err); }));
    has_failed(t, session);
}

/* No frame of the library is between the two. */
void a_step_of_the_programs_own_throws()
{
    trainer t;
    hs_session *session = t.open();
    CHECK(throws([&] {
        while (hs_step_begin(session)) {
            if (++t.steps == 3)
                throw std::runtime_error("no batch");
            hs_step_end(session);
        }
    }));
    hs_outcome outcome = hs_session_close(session, nullptr);
    CHECK(outcome.interrupted && outcome.step == 2);
    CHECK(terminates_by_default());
}

void an_opening_throws()
{
    trainer t;
    t.throws_in_begin = 1;
    CHECK(throws([&] { t.open(); }));
    CHECK(t.closes == 1);
    CHECK(terminates_by_default());
    t.throws_in_begin = 0;
    hs_outcome outcome = hs_session_close(t.open(), nullptr);
    CHECK(outcome.reason == HS_REASON_CLOSED);
}

void an_end_throws()
{
    trainer t;
    t.throws_in_end = 1;
    hs_session *session = t.open();
    CHECK(hs_session_run(session, "train", &t.err) == HS_OK);
    CHECK(throws([&] { hs_session_close(session, nullptr); }));
    has_failed(t, session);
    CHECK(t.ends == 1);
}

} // namespace

int main()
{
    an_op_throws();
    a_hook_throws();
    a_raw_run_throws();
    a_step_function_throws();
    a_step_of_the_programs_own_throws();
    an_opening_throws();
    an_end_throws();
}
