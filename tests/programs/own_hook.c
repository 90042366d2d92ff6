/* SPDX-License-Identifier: Apache-2.0 */
/* own_hook DIRECTORY: a program's own hook, made with the public headers, does what built-in hooks do: it acts by its
 * `when`, resumes its schedule, writes events, and reports invalid options when the session is opened. C11 and C++20. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                        \
    do                                                                                                                     \
        if (!(what)) {                                                                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                     \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    while (0)

/* The steps at which a hook has acted, in all sessions. */
typedef struct {
    char text[256];
} record;

static void note(record *acted, int64_t step)
{
    size_t used = strlen(acted->text);
    snprintf(acted->text + used, sizeof acted->text - used, " %lld", (long long)step);
}

/* After the run: counts its actions. */

typedef struct {
    const char *tensor, *directory;
    record *acted;
    hs_summary_writer *writer;
    int64_t times;
} counter;

static hs_code counter_begin(void *self, hs_backend backend, hs_error *err)
{
    counter *h = (counter *)self;
    h->times = 0;
    return hs_backend_check_tensor(backend, h->tensor, err);
}

static hs_code counter_create(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    counter *h = (counter *)self;
    (void)coordinator;
    return hs_raw_session_event_writer(session, h->directory, NULL, &h->writer, err);
}

static hs_code counter_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    counter *h = (counter *)self;
    (void)values;
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    note(h->acted, step);
    h->times++;
    return hs_summary_writer_scalar(h->writer, "times", (double)h->times, step, err);
}

static hs_code counter_save(void *self, hs_state_writer *out, hs_error *err)
{
    const counter *h = (const counter *)self;
    return hs_state_writer_write(out, &h->times, sizeof h->times, err);
}

static hs_code counter_load(void *self, hs_state_reader *in, hs_error *err)
{
    counter *h = (counter *)self;
    return hs_state_reader_read(in, &h->times, sizeof h->times, err);
}

static void counter_destroy(void *self)
{
    free(self);
}

static const hs_hook_ops counter_ops =
    HS_INIT(hs_hook_ops, .name = "counter", .begin = counter_begin, .after_create_session = counter_create,
            .after_run = counter_after, .save_state = counter_save, .load_state = counter_load, .destroy = counter_destroy);

static hs_hook counter_hook(const char *tensor, hs_trigger when, const char *directory, record *acted)
{
    hs_error error;
    if (!*tensor) {
        hs_error_set(&error, HS_INVALID_ARGUMENT, "tensor is missing");
        return hs_hook_broken(counter_ops.name, &error);
    }
    counter *h = (counter *)calloc(1, sizeof *h);
    CHECK(h);
    h->tensor = tensor;
    h->directory = directory;
    h->acted = acted;
    hs_hook hook = HS_HOOK(.ops = &counter_ops, .self = h, .when = when);
    return hook;
}

/* Before the run: fetches the loss when it acts. */

static hs_code watcher_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    CHECK(hs_run_values_number(values, 0) == 1.0 / (double)step);
    note((record *)self, step);
    return HS_OK;
}

static const hs_hook_ops watcher_ops =
    HS_INIT(hs_hook_ops, .name = "watcher", .fetches = HS_NAMES("loss"), .after_run = watcher_after);

/* Sessions. */

typedef struct {
    hs_graph *graph;
    double loss;
} model;

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    model *m = (model *)self;
    (void)err;
    m->loss = 1.0 / (double)(hs_op_global_step(op, NULL) + 1);
    return HS_OK;
}

static void build(model *m)
{
    m->loss = 0;
    m->graph = hs_graph_new(NULL);
    hs_graph_global_step(m->graph, NULL, NULL);
    hs_graph_value(m->graph, "loss", HS_DOUBLE, HS_SCALAR, &m->loss);
    hs_graph_op(m->graph, .name = "train", .run = train, .user = m, .writes = HS_NAMES("loss"), .advances_step = true);
}

/* Trains up to this step in `directory`, with both hooks. */
static void train_to(const char *directory, int64_t last_step, record *counted, record *watched)
{
    model m;
    hs_error err;
    build(&m);
    hs_hook watching = HS_HOOK(.ops = &watcher_ops, .self = watched, .when = HS_EVERY_STEPS(5));
    hs_session *s = hs_training_session_open(
        hs_graph_backend(m.graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = directory,
                            .hooks =
                                HS_HOOKS(hs_stop_at_step(.last_step = last_step),
                                         counter_hook("loss", HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(3, 10)),
                                                      directory, counted),
                                         watching)),
        &err);
    while (!hs_session_should_stop(s))
        if (hs_session_run(s, "train", &err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(s, &err);
    hs_graph_free(m.graph);
    CHECK(err.code == HS_OK && outcome.step == last_step);
}

/* The steps of the scalars "times" in the directory's event files, of which the last is `last`. */
static record events_in(const char *directory, double last)
{
    record steps = {""};
    const hs_event *event;
    double value = -1;
    hs_event_reader *reader = hs_event_reader_open(directory, NULL, NULL);
    CHECK(reader);
    while (hs_event_reader_next(reader, &event, NULL) == HS_OK)
        for (size_t i = 0; i < event->n_values; i++)
            if (event->values[i].tag.bytes == 5 && memcmp(event->values[i].tag.data, "times", 5) == 0) {
                note(&steps, event->step);
                value = event->values[i].scalar;
            }
    hs_event_reader_close(reader);
    CHECK(value == last);
    return steps;
}

static void a_resumed_run_acts_where_the_whole_run_does(const char *folder)
{
    record counted = {""}, watched = {""}, resumed_counted = {""}, resumed_watched = {""};
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/whole", folder);
    train_to(directory, 20, &counted, &watched);
    CHECK(strcmp(counted.text, " 3 4 8 10 12 16 20") == 0);
    CHECK(strcmp(watched.text, " 5 10 15 20") == 0);
    snprintf(directory, sizeof directory, "%s/resumed", folder);
    const int64_t ends[] = {3, 6, 7, 20};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        train_to(directory, ends[i], &resumed_counted, &resumed_watched);
    CHECK(strcmp(resumed_counted.text, counted.text) == 0);
    CHECK(strcmp(resumed_watched.text, watched.text) == 0);
    record events = events_in(directory, 7);
    CHECK(strcmp(events.text, counted.text) == 0);
}

static void opening_fails(hs_graph *graph, hs_hook hook, hs_code code, const char *says)
{
    hs_error err;
    CHECK(!hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err));
    if (err.code != code || !strstr(err.message, says) || !strstr(err.message, "counter"))
        fprintf(stderr, "%s: %s\n", hs_code_name(err.code), err.message);
    CHECK(err.code == code && strstr(err.message, says) && strstr(err.message, "counter"));
}

static void invalid_options_are_reported_when_the_session_is_opened(void)
{
    record acted;
    model m;
    build(&m);
    opening_fails(m.graph, counter_hook("loss", HS_EVERY_STEPS(-1), NULL, &acted), HS_INVALID_ARGUMENT,
                  "every_n_steps is -1");
    opening_fails(m.graph, counter_hook("", HS_EVERY_STEPS(1), NULL, &acted), HS_INVALID_ARGUMENT, "tensor is missing");
    opening_fails(m.graph, counter_hook("lost", HS_EVERY_STEPS(1), NULL, &acted), HS_NOT_FOUND, "'lost'");
    opening_fails(m.graph, counter_hook("train", HS_EVERY_STEPS(1), NULL, &acted), HS_INVALID_ARGUMENT, "'train' is an op");
    hs_graph_free(m.graph);
    hs_graph *stepless = hs_graph_new(NULL);
    hs_graph_value(stepless, "loss", HS_DOUBLE, HS_SCALAR, &m.loss);
    opening_fails(stepless, counter_hook("loss", HS_EVERY_STEPS(1), NULL, &acted), HS_FAILED_PRECONDITION,
                  "no global step");
    hs_graph_free(stepless);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    a_resumed_run_acts_where_the_whole_run_does(argv[1]);
    invalid_options_are_reported_when_the_session_is_opened();
    return 0;
}
