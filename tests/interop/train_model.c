/* SPDX-License-Identifier: Apache-2.0 */
/* train_model [-l LAST_STEP] [-s SAVE_STEPS] [-e SUMMARY_STEPS] [-o OFFSET] [-k KILL_AT_STEP] [-w WEIGHTS] DIRECTORY
 *
 * A training session that resumes from the checkpoint in DIRECTORY. Its model has three weights, called WEIGHTS, which grow
 * by one each step. Its loss is OFFSET + step, so that the chart shows which run wrote a point. Prints its first step and
 * its last step, with the weights. */
#include <hooksess/hooksess.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct {
    const char *directory, *weights_name;
    long long last_step, save_steps, summary_steps, kill_at;
    double offset;
} options;

typedef struct {
    float weights[3], loss, accuracy;
    double offset;
    uint64_t position;  /* saved as state of the graph */
    uint64_t runs_seen; /* saved as state of a hook */
    hs_summary *summary;
    hs_string serialized;
} model;

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    model *m = self;
    (void)err;
    for (int i = 0; i < 3; i++)
        m->weights[i]++;
    m->position += 7;
    m->loss = (float)(m->offset + (double)hs_op_global_step(op, NULL) + 1);
    m->accuracy = -m->loss;
    return HS_OK;
}

static hs_code summarize(void *self, hs_op *op, hs_error *err)
{
    model *m = self;
    hs_code code;
    hs_summary_clear(m->summary);
    if ((code = hs_summary_scalar(m->summary, "loss", (double)m->loss, err)) ||
        (code = hs_summary_scalar(m->summary, "metrics/accuracy", (double)m->accuracy, err)))
        return code;
    m->serialized = hs_summary_serialized(m->summary);
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &m->serialized);
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((model *)self)->position, sizeof(uint64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((model *)self)->position, sizeof(uint64_t), err);
}

/* A hook with state: it counts runs. */

static hs_code count_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values, (void)err;
    ((model *)self)->runs_seen++;
    return HS_OK;
}

static hs_code save_count(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((model *)self)->runs_seen, sizeof(uint64_t), err);
}

static hs_code load_count(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((model *)self)->runs_seen, sizeof(uint64_t), err);
}

static const hs_hook_ops counter_ops =
    HS_INIT(hs_hook_ops, .name = "counter", .after_run = count_run, .save_state = save_count, .load_state = load_count);

static hs_graph *make_graph(model *m, const options *o)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, o->weights_name, HS_FLOAT, HS_SHAPE(3), m->weights);
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &m->loss);
    hs_graph_add_state(g, HS_STATE_PROVIDER(.name = "position", .save = save_position, .load = load_position, .self = m,
                                            .version = 2, .identity = "seven a step, caf\xc3\xa9"));
    hs_graph_op(g, .name = "train", .run = train, .user = m, .writes = HS_NAMES(o->weights_name, "loss"),
                .advances_step = true);
    hs_graph_op(g, .name = "summaries", .run = summarize, .user = m, .inputs = HS_NAMES("loss"),
                .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    hs_graph_collect(g, HS_SUMMARY_OP, "summaries");
    return g;
}

/* Kills the process. Only the event files are flushed before. */
static void die(hs_session *s, const char *directory)
{
    hs_summary_writer *writer;
    if (hs_raw_session_summary_writer(hs_session_raw(s), directory, &writer, NULL) == HS_OK)
        hs_summary_writer_flush(writer, false, NULL);
    raise(SIGKILL);
}

static void run(hs_session *s, const options *o, hs_error *err)
{
    while (!hs_session_should_stop(s) && hs_session_run(s, "train", err) == HS_OK)
        if (hs_session_global_step(s, NULL) == o->kill_at)
            die(s, o->directory);
}

static bool read_options(options *o, int argc, char **argv)
{
    int letter;
    while ((letter = getopt(argc, argv, "l:s:e:o:k:w:")) != -1) {
        switch (letter) {
        case 'l':
            o->last_step = atoll(optarg);
            break;
        case 's':
            o->save_steps = atoll(optarg);
            break;
        case 'e':
            o->summary_steps = atoll(optarg);
            break;
        case 'o':
            o->offset = atof(optarg);
            break;
        case 'k':
            o->kill_at = atoll(optarg);
            break;
        case 'w':
            o->weights_name = optarg;
            break;
        default:
            return false;
        }
    }
    o->directory = argv[optind];
    return optind + 1 == argc;
}

int main(int argc, char **argv)
{
    options o = {.weights_name = "weights", .last_step = 10, .save_steps = 5, .summary_steps = 1, .kill_at = -1};
    if (!read_options(&o, argc, argv))
        return 2;
    model m = {.offset = o.offset, .summary = hs_summary_new(NULL)};
    hs_graph *g = make_graph(&m, &o);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = o.last_step), {.ops = &counter_ops, .self = &m}, {.ops = NULL}};
    hs_training_options training = HS_INIT(hs_training_options, .checkpoint_dir = o.directory, .hooks = hooks,
                                           .save_checkpoint_steps = o.save_steps, .save_summaries_steps = o.summary_steps);
    hs_error err = {0};
    hs_session *s = hs_training_session_open(hs_graph_backend(g), &training, &err);
    long long start = s ? (long long)hs_session_global_step(s, NULL) : -1;
    run(s, &o, &err);
    hs_outcome outcome = hs_session_close(s, &err);
    printf("%lld %lld %g %g %g\n", start, (long long)outcome.step, (double)m.weights[0], (double)m.weights[1],
           (double)m.weights[2]);
    if (outcome.error.code)
        fprintf(stderr, "%s: %s\n", hs_code_name(outcome.error.code), outcome.error.message);
    hs_graph_free(g);
    hs_summary_free(m.summary);
    return hs_outcome_exit_code(&outcome);
}
