/* SPDX-License-Identifier: Apache-2.0 */
/* Random faults in a simulated group. Whatever fails: no rank waits forever, the living ranks have the same outcome, and
 * the training continues from the newest checkpoint as if nothing had happened.
 *
 *   HOOKSESS_FAULTS      trainings with faults. Default: 20
 *   HOOKSESS_FAULT_SEED  seed of the first training, from 1; the next ones follow. Default: 1
 *
 * A failed test names the seed. HOOKSESS_FAULTS=1 HOOKSESS_FAULT_SEED=N repeats this training; with RANKS_TRACE=1, the
 * calls of all ranks are printed if one waits forever. */
#include "replicas/ranks.h"

enum { STEPS = 15, DEFAULT_FAULTS = 20 };

static uint64_t random_state;

static int64_t below(int64_t n)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)((z ^ z >> 31) % (uint64_t)n);
}

/* Faults of the simulation. Those of the sessions are ranks_event. */
typedef enum { KILL, KILL_IN_FILE_CALL, EXIT, FREEZE, DELAY, N_KINDS } kind;

typedef struct {
    kind kind;
    int32_t rank;
    int64_t at;
} fault;

enum { FAULTS_MAX = 3 };

static struct {
    fault items[FAULTS_MAX];
    int n;
    char text[1024]; /* the training in words, for messages */
} plan;

static void say(const char *format, ...) HS_PRINTF(1, 2);
static void say(const char *format, ...)
{
    size_t used = strlen(plan.text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(plan.text + used, sizeof plan.text - used, format, arguments);
    va_end(arguments);
}

static void arrange(ranks *r, hs_simulation *simulation)
{
    (void)r;
    for (int i = 0; i < plan.n; i++) {
        const fault *f = &plan.items[i];
        switch (f->kind) {
        case KILL:
            hs_simulation_kill(simulation, f->rank, f->at);
            break;
        case KILL_IN_FILE_CALL:
            hs_simulation_kill_in_file_call(simulation, f->rank, f->at);
            break;
        case EXIT:
            hs_simulation_report_exit(simulation, f->rank, f->at);
            break;
        case FREEZE:
            hs_simulation_freeze(simulation, f->rank, f->at);
            break;
        default:
            hs_simulation_delay(simulation, f->rank, f->at, 100);
        }
    }
}

static void silent(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level;
    test_check_line(text);
}

/* The training without faults. */
static void choose_training(ranks *r)
{
    static const int64_t intervals[] = {0, 0, 3, 5}; /* STEPS is a multiple of each */
    r->rank_count = (int32_t)below(RANKS_MAX) + 1;
    r->own_loop = below(2);
    r->repeats = below(3) == 0;
    r->no_gate = below(4) == 0;
    r->chief_stops = below(4) == 0;
    r->every_n = intervals[below(4)];
    r->background = below(3) == 0;
    r->per_rank_position = below(3) == 0;
    r->scope = r->per_rank_position ? HS_STATE_PER_RANK : HS_STATE_SHARED;
    r->steps = STEPS;
    say("%d ranks%s%s%s%s%s, agreeing every %lld steps", (int)r->rank_count, r->own_loop ? ", own loop" : "",
        r->repeats ? ", repeats" : "", r->no_gate ? ", no gate" : "", r->chief_stops ? ", chief stops" : "",
        r->background ? ", saves in the background" : "", (long long)r->every_n);
}

/* Half of the events are at a step of which a checkpoint may be saved. */
static void choose_event(ranks *r, int i)
{
    ranks_fault *event = &r->more[i];
    *event = (ranks_fault){(ranks_event)(below(RANKS_EVENTS - 1) + 1), (int32_t)below(r->rank_count), below(STEPS + 1)};
    if (below(2))
        event->step -= event->step % RANKS_SAVE_STEPS;
    if (event->event == INPUT_ENDS && r->own_loop && r->no_gate)
        event->event = LEAVES_LOOP; /* the other ranks would make the step, without a sample of this one */
    if (event->event == CLOSING_FAILS && below(2))
        event->step = STEPS;
    if (i > 0 && below(2))
        event->step = r->more[i - 1].step;
    say("; event %d of rank %d at %lld", (int)event->event, (int)event->rank, (long long)event->step);
}

/* Adds a fault of the simulation, at any of the calls that the training without faults makes. */
static void choose_fault(const ranks *clean)
{
    static const char *const names[] = {"kill", "kill in file call", "exit", "freeze", "delay"};
    fault *f = &plan.items[plan.n++];
    f->kind = (kind)below(N_KINDS);
    f->rank = (int32_t)below(clean->rank_count);
    int64_t calls = f->kind == KILL_IN_FILE_CALL ? clean->file_calls[f->rank] : clean->collectives[f->rank];
    f->at = below(calls ? calls : 1) + 1;
    say("; %s of rank %d at %lld", names[f->kind], (int)f->rank, (long long)f->at);
}

static void choose_faults(ranks *r, const ranks *clean, hs_test_system *files)
{
    plan.n = 0;
    r->alloc_at = 0;
    memset(r->more, 0, sizeof r->more);
    hs_test_system_fail_file_call(files, 0, HS_OK, false);
    int64_t n = below(2) ? 1 : below(FAULTS_MAX) + 1;
    int n_events = 0;
    while (n-- > 0) {
        int64_t which = below(10);
        if (which < 5) {
            choose_event(r, n_events++);
        } else if (which < 8) {
            choose_fault(clean);
        } else if (which < 9) {
            static const hs_code codes[] = {HS_RESOURCE_EXHAUSTED, HS_UNKNOWN, HS_UNAVAILABLE};
            size_t at = (size_t)below(clean->file_calls[0]) + 1;
            hs_code code = codes[below(3)];
            bool later = below(4) == 0;
            hs_test_system_fail_file_call(files, at, code, later);
            say("; file call %zu%s fails with %s", at, later ? " and all later" : "", hs_code_name(code));
        } else {
            r->alloc_rank = (int32_t)below(r->rank_count);
            r->alloc_at = (size_t)below((int64_t)clean->allocations[r->alloc_rank]) + 1;
            say("; allocation %zu of rank %d fails", r->alloc_at, (int)r->alloc_rank);
        }
    }
}

/* The global step of the newest checkpoint. 0: none */
static int64_t newest_step(const char *directory)
{
    char *path = hs_checkpoint_latest(NULL, directory, NULL, NULL);
    int64_t step = path ? strtoll(strrchr(path, '-') + 1, NULL, 10) : 0;
    hs_env_free(NULL, path);
    return step;
}

static void fail_training(const ranks *r, const char *why, const char *more)
{
    fail_msg("seed %llu: %s: %s (%s)", (unsigned long long)r->seed, why, more, plan.text);
}

static void complete(ranks *r)
{
    ranks_run(r);
    if (r->code)
        fail_training(r, "without faults", r->error.message);
    if (r->leaks)
        fail_training(r, "without faults", "memory is lost");
    for (int32_t i = 0; i < r->rank_count; i++)
        if (r->outcomes[i].reason == HS_REASON_FAILED)
            fail_training(r, "without faults", r->outcomes[i].error.message);
    if (ranks_outcome(r)->step != STEPS)
        fail_training(r, "without faults", "it ended at another step");
}

static void check_resume(ranks *faulty, const ranks *clean)
{
    ranks again = *faulty;
    again.arrange = NULL;
    again.env = clean->env;
    again.alloc_at = 0;
    memset(again.more, 0, sizeof again.more);
    int64_t from = newest_step(again.directory);
    complete(&again);
    for (int32_t i = 0; i < again.rank_count; i++) {
        if (again.steps_made[i] > STEPS - from) /* fewer: a rank died before it wrote which checkpoint is the newest */
            fail_training(&again, "resume", "it did not begin at the newest checkpoint");
        if (again.samples[i] != clean->samples[i] ||
            memcmp(again.parameters[i], clean->parameters[i], sizeof again.parameters[i]) != 0)
            fail_training(&again, "resume", "it differs from the training without faults");
    }
}

/* True if a rank may fail where the others do not join it, so that they wait for it. */
static bool may_wait(const ranks *r)
{
    bool late = r->no_gate;
    for (int i = 0; i < RANKS_MORE; i++)
        late |= r->more[i].event == OP_FAILS_LATE;
    return late;
}

static void check_outcomes(const ranks *r)
{
    if (r->code)
        fail_training(r, "simulation", r->error.message);
    if (r->leaks)
        fail_training(r, "with faults", "memory is lost");
    if (r->timed_out && !may_wait(r))
        fail_training(r, "with a gate", "the ranks waited for a rank that had failed");
    bool ended = false;
    for (int32_t i = 0; i < r->rank_count; i++) {
        ended |= r->ended[i];
        if (r->timed_out && r->ended[i] && r->outcomes[i].reason != HS_REASON_FAILED)
            fail_training(r, "the other ranks waited for a rank", hs_reason_name(r->outcomes[i].reason));
    }
    if (ended && !r->timed_out) /* else the ranks may be at different steps, and only some know the cause */
        ranks_outcome(r);
}

static void train_with_faults(const char *directory, uint64_t seed)
{
    const hs_env quiet = HS_INIT(hs_env, .logger = {silent, NULL});
    hs_test_system *files = hs_test_system_new();
    assert_non_null(files);
    const hs_env faulty_env = HS_INIT(hs_env, .logger = {silent, NULL}, .files = hs_test_system_env(files)->files);
    ranks clean = {.directory = directory, .seed = seed, .env = &quiet};
    memset(&plan, 0, sizeof plan);
    random_state = seed;
    choose_training(&clean);
    test_empty_directory(directory);
    complete(&clean);
    ranks r = clean;
    r.env = &faulty_env;
    r.arrange = arrange;
    r.what = plan.text;
    test_empty_directory(directory);
    for (int64_t runs = below(2) + 1; runs > 0; runs--) { /* the second one resumes the first */
        choose_faults(&r, &clean, files);
        if (getenv("RANKS_TRACE"))
            print_message("seed %llu: %s\n", (unsigned long long)seed, plan.text);
        ranks_run(&r);
        check_outcomes(&r);
        say("; then");
    }
    check_resume(&r, &clean);
    hs_test_system_free(files);
}

static void random_faults_leave_equal_outcomes_and_a_checkpoint_that_restores(void **state)
{
    char *directory = test_make_directory();
    uint64_t first = ranks_number("HOOKSESS_FAULT_SEED", 1), n = ranks_number("HOOKSESS_FAULTS", DEFAULT_FAULTS);
    (void)state;
    for (uint64_t seed = first; seed < first + n; seed++)
        train_with_faults(directory, seed);
    test_remove_directory(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_faults_leave_equal_outcomes_and_a_checkpoint_that_restores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
