/* SPDX-License-Identifier: Apache-2.0 */
/* resume_program [WORD...]: a training program for `hooksess verify-resume`, with the mistakes that the words name. */
#include <hooksess/hooksess.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The words, and their steps: STEP for "WORD=STEP", 1 for "WORD", 0 if the word is not given. */
static const char *const words[] = {
    "no_generator", "lossy_input", "lossy_hook", "late_input", "clock",    "swaps",        "own_loop",  "device", "text",
    "no_directory", "seldom",      "summaries",  "fresh",      "required", "worker",       "own_files", "two",    "both",
    "elsewhere",    "kill",        "fail",       "exit",       "end",      "ends_resumed", "stale",     "random", "points",
    "other_files",  "says_a_lot",  "stride",     "times",      "control",  "next_epoch",   "late_save", "grows"};
enum { N_WORDS = sizeof words / sizeof *words };
static int64_t steps[N_WORDS];

static int64_t is(const char *name)
{
    for (size_t i = 0; i < N_WORDS; i++)
        if (strcmp(words[i], name) == 0)
            return steps[i];
    fprintf(stderr, "'%s' is not a word\n", name);
    exit(98);
}

static bool parse_word(const char *word)
{
    size_t length = strcspn(word, "=");
    for (size_t i = 0; i < N_WORDS; i++)
        if (strlen(words[i]) == length && strncmp(words[i], word, length) == 0) {
            steps[i] = word[length] ? atoll(word + length + 1) : 1;
            return true;
        }
    return false;
}

/* The model: a random walk whose input is the length of a step. */
typedef struct {
    double position, loss, average;
    double buffers[2];       /* each step computes one from the other; the first is a variable */
    double *newest, *moment; /* the newest buffer; memory that the third step allocates */
    double far[2];           /* simulated device memory: the inverted bits of the number */
    uint64_t generator;
    int64_t input, produced, runs; /* produced: inputs of this process */
    int64_t step;                  /* with "stride=N": each run makes N steps */
} walk;

static void flip(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)~((const unsigned char *)from)[i];
}

static hs_code copy_flipped(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    flip(to, from, bytes);
    return HS_OK;
}

static hs_code from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    return copy_flipped(user, device, host, bytes, err);
}

static hs_code compute(walk *w, int64_t step, hs_error *err)
{
    if (step == is("end") && !(is("ends_resumed") && w->produced >= step - 1))
        return hs_error_set(err, HS_OUT_OF_RANGE, "the input is at its end");
    if (step == is("kill") && (step == 1 || w->produced < step - 1)) /* not in the uninterrupted run */
        raise(SIGKILL);
    if (step == is("exit"))
        exit(3);
    if (step == is("fail"))
        return hs_error_set(err, HS_DEADLINE_EXCEEDED, "the worker is gone");
    w->generator = w->generator * 6364136223846793005u + 1442695040888963407u;
    if (is("random"))
        w->generator += (uint64_t)hs_env_monotonic_ns(NULL) << 30;
    w->position += (double)(w->generator >> 40) * (double)(++w->input % 3);
    w->loss = w->position / 7;
    if (w->produced == 0)
        w->average = w->loss;
    if (is("swaps")) {
        int64_t from = w->produced % 2;
        w->buffers[1 - from] = w->buffers[from] + w->position;
    }
    if (is("points")) {
        double *next = w->newest == w->buffers ? w->buffers + 1 : w->buffers;
        if (step > 2 && !w->moment)
            w->moment = calloc(1, sizeof *w->moment);
        *next = *w->newest / 2 + w->position + (w->moment ? *w->moment : 0);
        w->newest = next;
        if (w->moment)
            *w->moment += w->position;
    }
    if (is("device")) {
        double number;
        flip(&number, &w->far[0], sizeof number);
        number += w->position;
        flip(&w->far[0], &number, sizeof number);
        flip(&w->far[1], &w->loss, sizeof number);
    }
    w->produced++;
    return HS_OK;
}

static hs_code advance(void *self, hs_op *op, hs_error *err)
{
    ((walk *)self)->step += is("stride");
    return compute(self, hs_op_global_step(op, NULL) + 1, err);
}

static hs_code double_loss(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(double *)hs_op_output(op, 0)->data = 2 * ((walk *)self)->loss;
    return HS_OK;
}

/* State. */

static hs_code save_number(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int64_t), err);
}

static hs_code load_number(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int64_t), err);
}

static hs_code load_one_more(void *self, hs_state_reader *in, hs_error *err)
{
    hs_code code = load_number(self, in, err);
    ++*(int64_t *)self;
    return code;
}

static hs_code save_clock(void *self, hs_state_writer *out, hs_error *err)
{
    int64_t now = hs_env_monotonic_ns(NULL);
    (void)self;
    return hs_state_writer_write(out, &now, sizeof now, err);
}

static hs_code load_clock(void *self, hs_state_reader *in, hs_error *err)
{
    int64_t then;
    (void)self;
    return hs_state_reader_read(in, &then, sizeof then, err);
}

/* As many bytes as inputs of this process, and one more. */
static hs_code save_inputs(void *self, hs_state_writer *out, hs_error *err)
{
    static const char zeros[64];
    return hs_state_writer_write(out, zeros, (size_t)((walk *)self)->produced % sizeof zeros + 1, err);
}

static hs_code load_inputs(void *self, hs_state_reader *in, hs_error *err)
{
    char bytes[64];
    (void)self;
    return hs_state_reader_read(in, bytes, hs_state_reader_remaining(in), err);
}

/* A hook with state. */

static hs_code count_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values, (void)err;
    ((walk *)self)->runs++;
    return HS_OK;
}

static hs_code save_runs(void *self, hs_state_writer *out, hs_error *err)
{
    return save_number(&((walk *)self)->runs, out, err);
}

static hs_code load_runs(void *self, hs_state_reader *in, hs_error *err)
{
    walk *w = self;
    return (is("lossy_hook") ? load_one_more : load_number)(&w->runs, in, err);
}

static hs_code add_input(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    walk *w = self;
    (void)coordinator;
    if (!is("late_input"))
        return HS_OK;
    return hs_raw_session_add_state(
        session, HS_STATE_PROVIDER(.name = "input", .save = save_number, .load = load_number, .self = &w->input), err);
}

/* Saves once more when the session is closed, which the session itself would not do. */
static hs_code save_late(void *self, hs_run_context *run, hs_error *err)
{
    (void)self;
    if (!is("late_save") || hs_run_context_boundary(run) != HS_BOUNDARY_END)
        return HS_OK;
    hs_saver *saver = hs_saver_new(NULL, err);
    hs_raw_session *session = hs_run_context_session(run);
    hs_code code = saver ? hs_saver_save(saver, session, "run/model.ckpt", hs_run_context_global_step(run, err), NULL, err)
                         : err->code;
    hs_saver_free(saver);
    return code;
}

static const hs_hook_ops counter_ops =
    HS_INIT(hs_hook_ops, .name = "counter", .after_create_session = add_input, .after_run = count_run,
            .boundary = save_late, .save_state = save_runs, .load_state = load_runs);

static hs_graph *make_graph(walk *w, const hs_env *env)
{
    static const hs_memory far = HS_INIT(hs_memory, .device_type = 2, .to_host = copy_flipped, .from_host = from_host);
    static hs_string text = {"abc", 3};
    hs_graph *g = hs_graph_new(env);
    hs_graph_variable(g, "position", HS_DOUBLE, HS_SCALAR, &w->position);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &w->loss);
    if (is("stale"))
        hs_graph_value(g, "average", HS_DOUBLE, HS_SCALAR, &w->average);
    if (is("text"))
        hs_graph_value(g, "text", HS_STRING, HS_SCALAR, &text);
    if (is("swaps"))
        hs_graph_variable(g, "u", HS_DOUBLE, HS_SCALAR, &w->buffers[0]);
    if (is("points")) {
        hs_graph_variable_at(g, "newest", HS_DOUBLE, HS_SCALAR, &w->newest);
        hs_graph_variable_at(g, "moment", HS_DOUBLE, HS_SCALAR, &w->moment);
    }
    if (is("device")) {
        flip(&w->far[0], &(double){0}, sizeof w->far[0]);
        hs_graph_add_variable(
            g, HS_VARIABLE_DEF(.name = "far", .dtype = HS_DOUBLE, .shape = HS_SCALAR, .data = &w->far[0], .memory = &far));
    }
    if (!is("no_generator"))
        hs_graph_state(g, "generator", save_number, load_number, &w->generator);
    if (!is("late_input"))
        hs_graph_state(g, "input", save_number, is("lossy_input") ? load_one_more : load_number, &w->input);
    if (is("clock"))
        hs_graph_state(g, "clock", save_clock, load_clock, w);
    if (is("grows"))
        hs_graph_state(g, "inputs", save_inputs, load_inputs, w);
    if (is("stride")) {
        hs_graph_global_step(g, NULL, &w->step);
        hs_graph_op(g, .name = "train", .run = advance, .user = w, .writes = HS_NAMES("position", "loss", "global_step"));
    } else if (!is("own_loop")) {
        hs_graph_op(g, .name = "train", .run = advance, .user = w, .writes = HS_NAMES("position", "loss"),
                    .advances_step = true);
    }
    if (!is("own_loop")) {
        hs_graph_op(g, .name = "double_loss", .run = double_loss, .user = w, .inputs = HS_NAMES("loss"),
                    .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    }
    return g;
}

static void train_own(walk *w, hs_session *s, hs_error *err)
{
    while (hs_step_begin(s)) {
        if (compute(w, hs_session_global_step(s, NULL) + 1, err))
            hs_session_fail(s, err);
        if (err->code)
            break;
        hs_step_end(s);
    }
}

static int train(const char *checkpoint_dir)
{
    walk w = {.generator = 1};
    hs_error err = {0};
    w.newest = w.buffers;
    const int64_t last = is("stride") ? 400 : 40;
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    hs_env env = HS_INIT(hs_env, .files = {&ops, NULL});
    hs_graph *g = make_graph(&w, is("own_files") ? &env : NULL);
    hs_hook counter = {.ops = &counter_ops, .self = &w};
    hs_hook metrics = hs_metrics_file(.path = "./run//metrics.csv", .tensors = HS_NAMES("loss"), .every_n_steps = 1);
    hs_hook chart = hs_evaluation(.name = "train", .metrics = HS_NAMES("loss"), .every_n_steps = 1, .summary_dir = "run");
    hs_hook limit = hs_stop_after(.this_run_secs = 3600), watchdog = hs_watchdog();
    hs_hook rows = hs_metrics_file(.path = "run/rows.csv", .tensors = HS_NAMES("loss"), .every_n_secs = 1e-4);
    hs_hook scalars = hs_scalars(.tensors = HS_NAMES("loss"), .every_n_secs = 1e-4, .summary_dir = "run");
    hs_hook control = hs_control(.path = "run/control");
    hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = is("no_directory") ? NULL : checkpoint_dir,
                .summary_dir = is("summaries") ? "summaries" : NULL,
                .save_checkpoint_steps = is("seldom") || is("no_directory") ? HS_NEVER : 3,
                .hooks = is("other_files") ? HS_HOOKS(counter, hs_stop_at_step(.last_step = last), metrics, chart)
                         : is("times")     ? HS_HOOKS(counter, limit, watchdog, rows, scalars)
                         : is("control")   ? HS_HOOKS(counter, control)
                                           : HS_HOOKS(counter, hs_stop_at_step(.last_step = last)),
                .restore = is("fresh")      ? HS_RESTORE_NEVER
                           : is("required") ? HS_RESTORE_REQUIRE
                                            : HS_RESTORE_IF_PRESENT,
                .is_worker = is("worker"), .max_wait_secs = 1);
    if (!is("other_files")) {
        hs_hook_free(metrics);
        hs_hook_free(chart);
    }
    if (!is("times"))
        hs_hooks_free(HS_HOOKS(limit, watchdog, rows, scalars));
    if (!is("control"))
        hs_hook_free(control);
    hs_session *s = hs_training_session_open(hs_graph_backend(g), &options, &err);
    if (!s)
        fprintf(stderr, "%s\n", err.message);
    hs_session *other = NULL;
    if (is("both")) {
        hs_graph *second = hs_graph_new(NULL);
        hs_graph_global_step(second, NULL, NULL);
        other = hs_training_session_open(hs_graph_backend(second), HS_TRAINING_OPTIONS(.checkpoint_dir = "second"), &err);
    }
    if (is("own_loop"))
        train_own(&w, s, &err);
    else
        while (!hs_session_should_stop(s) && hs_session_run(s, "train", &err) == HS_OK)
            continue;
    if (is("next_epoch") || is("late_save"))
        w.generator++; /* the loop around the loop of steps */
    if (is("both") && !other)
        fprintf(stderr, "second: %s\n", err.message);
    hs_outcome outcome = hs_session_close(s, &err);
    hs_graph_free(g);
    free(w.moment);
    return hs_outcome_exit_code(&outcome);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!parse_word(argv[i]))
            return 97;
    for (int i = 0; is("says_a_lot") && i < 1000; i++)
        fprintf(stderr, "line %d\n", i);
    if (is("elsewhere"))
        return 0;
    int status = train("run");
    if (is("two"))
        status = train("run2");
    FILE *file = fopen("exported", "w"); /* code after the training */
    if (file)
        fclose(file);
    return status;
}
