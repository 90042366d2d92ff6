/* SPDX-License-Identifier: Apache-2.0 */
#include "session/signaled.h"

#include "session/session.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

record *record_new(size_t n)
{
    FILE *memory = tmpfile();
    assert_non_null(memory);
    assert_int_equal(ftruncate(fileno(memory), (off_t)(n * sizeof(record))), 0);
    void *shared = mmap(NULL, n * sizeof(record), PROT_READ | PROT_WRITE, MAP_SHARED, fileno(memory), 0);
    fclose(memory);
    assert_true(shared != MAP_FAILED);
    return shared;
}

void record_free(record *r, size_t n)
{
    munmap(r, n * sizeof *r);
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

static void write_byte(const trainer *t)
{
    if (write(t->pipe, "x", 1) != 1)
        _exit(9);
}

static bool is_moment(const trainer *t, moment at, int64_t step)
{
    return t->at == at && t->at_step == step;
}

/* The data: 1, 2, 3 ... */

static hs_code produce(void *self, hs_op *op, hs_error *err)
{
    trainer *t = self;
    (void)err;
    t->position++;
    if (is_moment(t, AT_DATA, t->position)) {
        write_byte(t);
        pause_us(1500);
    }
    if (is_moment(t, AT_NO_DATA, t->position)) {
        write_byte(t);
        while (!atomic_load(&t->coordinator))
            pause_us(100);
        hs_coordinator_wait_for_stop(atomic_load(&t->coordinator), 1e9);
    }
    *(int64_t *)hs_op_output(op, 0)->data = t->position;
    return HS_OK;
}

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((trainer *)self)->position, sizeof(int64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((trainer *)self)->position, sizeof(int64_t), err);
}

/* The step. */

static void await_signals(const trainer *t, const hs_op *op)
{
    while (!hs_op_stop_requested(op))
        pause_us(100);
    write_byte(t);
    while (!hs_raw_session_save_refusal(t->raw, NULL))
        pause_us(100);
    if (t->does != STAYS)
        return;
    write_byte(t);
    for (;;)
        pause_us(1000);
}

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    trainer *t = self;
    int64_t x = *(const int64_t *)hs_op_input(op, 0)->data, step = hs_op_global_step(op, NULL) + 1;
    double loss = 0;
    (void)err;
    if (is_moment(t, AT_STEP, step)) {
        write_byte(t);
        if (t->does == AWAITS_SIGNALS || t->does == STAYS)
            await_signals(t, op);
    }
    pause_us(80);
    for (size_t i = 0; i < 4; i++) {
        t->weights[i] = 0.9 * t->weights[i] + 0.01 * (double)(x * (int64_t)(i + 1));
        loss += t->weights[i];
    }
    t->record->losses[step] = loss;
    return HS_OK;
}

static hs_code evaluate(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    const trainer *t = self;
    (void)err;
    if (!is_moment(t, AT_EVALUATION, step))
        return HS_OK;
    write_byte(t);
    for (int i = 0; i < 20 && !hs_raw_session_stop_requested(session); i++)
        pause_us(100);
    return HS_OK;
}

static hs_code before_save(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    const trainer *t = self;
    (void)session, (void)err;
    if (is_moment(t, AT_SAVE, step)) {
        write_byte(t);
        pause_us(500);
    }
    return HS_OK;
}

/* The first hook, so that its close and its destroy are called last. */

static hs_code m_begin(void *self, hs_backend backend, hs_error *err)
{
    trainer *t = self;
    (void)backend, (void)err;
    atomic_store(&t->record->begun, true);
    if (t->at == AT_OPENING) {
        write_byte(t);
        pause_us(500);
    }
    return HS_OK;
}

static hs_code m_created(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    trainer *t = self;
    (void)err;
    t->raw = session;
    atomic_store(&t->coordinator, coordinator);
    return HS_OK;
}

static hs_code m_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    trainer *t = self;
    (void)args;
    if (t->does != AWAITS_REQUEST)
        return HS_OK;
    int64_t step = hs_run_context_global_step(run, err);
    if (step >= 0 && step + 1 == t->at_step) {
        write_byte(t);
        while (!atomic_load(&run->session->save_requests))
            pause_us(100);
    }
    return err->code;
}

/* The session is already closing, so only its own field shows that a signal came. */
static void await_signals_at_the_end(const trainer *t, hs_raw_session *session)
{
    while (!atomic_load(&session->owner->signals.first_ns))
        pause_us(100);
    write_byte(t);
    while (!hs_raw_session_save_refusal(session, NULL))
        pause_us(100);
}

static hs_code m_end(void *self, hs_raw_session *session, hs_error *err)
{
    const trainer *t = self;
    (void)err;
    if (t->at == AT_END) {
        write_byte(t);
        pause_us(500);
        if (t->does == AWAITS_SIGNALS)
            await_signals_at_the_end(t, session);
    }
    return HS_OK;
}

static void m_close(void *self, const hs_outcome *outcome)
{
    const trainer *t = self;
    (void)outcome;
    if (t->at == AT_END)
        pause_us(500);
}

static void m_destroy(void *self)
{
    atomic_store(&((trainer *)self)->record->freed, true);
}

static hs_hook marker(trainer *t)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "marker", .begin = m_begin, .after_create_session = m_created, .before_run = m_before,
                .end = m_end, .close = m_close, .destroy = m_destroy);
    return (hs_hook){.ops = &ops, .self = t};
}

/* The program. */

static hs_code no_sync(void *user, void *file, hs_error *err)
{
    (void)user, (void)file, (void)err;
    return HS_OK; /* the death of a process does not lose the disk's cache */
}

static hs_code no_sync_directory(void *user, const char *path, hs_error *err)
{
    (void)user, (void)path, (void)err;
    return HS_OK;
}

static void no_log(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level;
    test_check_line(text);
}

static void build(trainer *t)
{
    t->files = *hs_env_default()->files.ops;
    t->files.sync = no_sync;
    t->files.sync_directory = no_sync_directory;
    t->env = (hs_env)HS_INIT(hs_env, .logger = {no_log, NULL}, .files = {&t->files, NULL});
    const hs_state_provider position =
        HS_INIT(hs_state_provider, .name = "reader", .save = save_position, .load = load_position, .self = t);
    t->graph = hs_graph_new(&t->env);
    hs_graph_variable(t->graph, "weights", HS_DOUBLE, HS_SHAPE(4), t->weights);
    hs_graph_global_step(t->graph, NULL, &t->step);
    hs_graph_queue(t->graph, .name = "in", .capacity = 2, .components = HS_OUTPUTS({.dtype = HS_INT64}), .produce = produce,
                   .user = t, .position = &position);
    hs_graph_op(t->graph, .name = "train", .run = train, .user = t, .inputs = HS_NAMES("in/dequeue:0"),
                .writes = HS_NAMES("weights"), .advances_step = true);
}

static uint64_t digest(const trainer *t)
{
    const unsigned char *bytes = (const unsigned char *)t->weights;
    uint64_t sum = 14695981039346656037u ^ (uint64_t)t->step;
    for (size_t i = 0; i < sizeof t->weights; i++)
        sum = (sum ^ bytes[i]) * 1099511628211u;
    return sum;
}

static hs_session *open_session(trainer *t, hs_saver *saver, hs_error *err)
{
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .before_save = before_save);
    const hs_saver_listener listener = {&ops, t};
    hs_hook hooks[] = {
        marker(t),
        hs_stop_at_step(.last_step = t->last_step ? t->last_step : STEPS),
        hs_evaluation(.every_n_steps = EVAL_STEPS, .evaluate = evaluate, .user = t),
        hs_checkpoint_saver(.checkpoint_dir = t->directory, .every_n_steps = SAVE_STEPS, .saver = saver,
                            .listeners = HS_LISTENERS(listener), .background = t->background),
        {.ops = NULL},
    };
    const hs_session_options options =
        HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = t->directory, .signals = true);
    if (t->unsaved) {
        hs_hook_free(hooks[3]);
        hooks[3].ops = NULL;
    }
    return hs_session_open(hs_graph_backend(t->graph), &options, err);
}

int trainer_run(trainer *t)
{
    hs_error err = {0};
    build(t);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 20, .env = &t->env), &err);
    if (t->at == AT_START) {
        write_byte(t);
        pause_us(1000);
    }
    t->session = open_session(t, saver, &err);
    t->record->refused = !t->session;
    while (!hs_session_should_stop(t->session) && !hs_session_run(t->session, "train", &err))
        if (t->step == t->leaves_at)
            break;
    hs_outcome outcome = hs_session_close(t->session, &err);
    t->record->outcome = outcome;
    t->record->digest = digest(t);
    atomic_store(&t->record->closed, true);
    hs_saver_free(saver);
    hs_graph_free(t->graph);
    return hs_outcome_exit_code(&outcome);
}
