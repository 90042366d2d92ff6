/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a small GPT under a hooksess session, and generates text with it. `gpt --help` lists the options.
 *
 *   main.c        the program: the steps, the saved state, the hooks, the loop
 *   data.c        the text, cut into sequences
 *   model.c       the transformer; layers.c has its loops over numbers
 *   optimizer.c   AdamW
 *   sample.c      generates text; a hook that shows samples
 *   threads.c, options.c   threads; the command line
 *
 * Random numbers, the file of losses and the group of processes are those of the trainer (../trainer/rng.c, losses.c,
 * replicas.c). */
#include "data.h"
#include "losses.h"
#include "optimizer.h"
#include "options.h"
#include "replicas.h"
#include "sample.h"

#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function of OpenBLAS. NULL with another CBLAS. */
extern void openblas_set_num_threads(int n) __attribute__((weak));

enum { VALIDATION_SEQUENCES = 256, GENERATED_BYTES = 500, WARMUP_STEPS = 100 };

struct program {
    struct options options;
    int32_t sizes[N_SIZES];
    struct text text;
    struct gpt model;
    struct adamw adamw;
    struct sampler sampler;
    struct losses losses;
    struct replicas replicas;
    char identity[160]; /* what must be equal in all processes, one in a line */
    struct {
        struct rng batches, dropout;
    } generators;
    int32_t *inputs, *targets; /* of a step, [accumulate][batch_size][context] */
    uint64_t dropout_key;
    double learning_rate;
    float loss, gradient_norm;
    float validated;                    /* the last validation loss. 0: none yet */
    const char *names[MAX_TENSORS + 1]; /* of the parameters */
};

/* The step, in three ops. Only the last one changes variables. So a save in the background copies them while the second one
 * works, and the guard can skip batches with the first one. With --replicas, all processes draw the same batches, and each
 * computes its share of their sequences. */

static hs_code draw_batches(void *self, hs_op *op, hs_error *err)
{
    struct program *p = self;
    (void)op, (void)err;
    for (int64_t i = 0; i < p->options.accumulate * p->options.batch_size; i++)
        text_draw(&p->text, &p->generators.batches, p->model.context, p->inputs + i * p->model.context,
                  p->targets + i * p->model.context);
    p->dropout_key = rng_next(&p->generators.dropout) | 1;
    return HS_OK;
}

static hs_code compute_gradients(void *self, hs_op *op, hs_error *err)
{
    struct program *p = self;
    double sum = 0;
    (void)op, (void)err;
    for (int64_t i = 0; i < p->options.accumulate; i++) {
        int64_t at = (i * p->options.batch_size + p->model.first) * p->model.context;
        gpt_forward(&p->model, p->inputs + at, p->model.batch, 0, p->model.context, p->dropout_key + ((uint64_t)i << 32));
        sum += gpt_loss(&p->model, p->targets + at, 1 / (float)p->options.accumulate);
        gpt_backward(&p->model);
    }
    p->loss = (float)(sum / (double)p->options.accumulate);
    return HS_OK;
}

static hs_code update(void *self, hs_op *op, hs_error *err)
{
    struct program *p = self;
    size_t n = p->model.n_parameters;
    int64_t step = hs_op_global_step(op, err) + 1;
    hs_code code = hs_op_pass_gate(op, err); /* all processes make this step, or none */
    if (!code)
        code = replicas_average(&p->replicas, p->model.gradients, n, &p->loss, p->model.batch, (int)p->options.batch_size,
                                err);
    if (code) {
        memset(p->model.gradients, 0, n * sizeof(float));
        return code;
    }
    p->gradient_norm = adamw_update(&p->adamw, &p->model, p->learning_rate, step);
    return HS_OK;
}

/* The mean loss of sequences `first` to `first + count - 1` of those that the training never uses. */
static double validation_loss(struct program *p, int first, int count)
{
    double sum = 0;
    int batch = p->model.batch;
    for (int i = first; i < first + count; i += batch) {
        int n = i + batch <= first + count ? batch : first + count - i;
        for (int k = 0; k < n; k++)
            text_validation(&p->text, i + k, VALIDATION_SEQUENCES, p->model.context, p->inputs + k * p->model.context,
                            p->targets + k * p->model.context);
        gpt_forward(&p->model, p->inputs, n, 0, p->model.context, 0);
        sum += gpt_loss(&p->model, p->targets, 0) * n;
    }
    return count ? sum / count : 0;
}

static hs_code validate(void *self, hs_op *op, hs_error *err)
{
    struct program *p = self;
    float *loss = hs_op_output(op, 0)->data;
    int mine, first = replicas_share(&p->replicas, VALIDATION_SEQUENCES, &mine);
    *loss = (float)validation_loss(p, first, mine);
    hs_code code = replicas_average(&p->replicas, NULL, 0, loss, mine, VALIDATION_SEQUENCES, err);
    p->validated = *loss;
    return code;
}

/* The graph: variables and states, which checkpoints save, and values, which hooks read. */

static hs_code save_generators(void *self, hs_state_writer *out, hs_error *err)
{
    struct program *p = self;
    return hs_state_writer_write(out, &p->generators, sizeof p->generators, err);
}

static hs_code load_generators(void *self, hs_state_reader *in, hs_error *err)
{
    struct program *p = self;
    return hs_state_reader_read(in, &p->generators, sizeof p->generators, err);
}

static hs_graph *make_graph(struct program *p)
{
    struct gpt *model = &p->model;
    int64_t n = (int64_t)model->n_parameters;
    hs_graph *g = hs_graph_new(NULL);
    for (int i = 0; i < model->n_tensors; i++) {
        const struct gpt_tensor *tensor = &model->tensors[i];
        hs_shape shape = tensor->rows ? HS_SHAPE(tensor->rows, tensor->columns) : HS_SHAPE(tensor->columns);
        hs_graph_variable(g, tensor->name, HS_FLOAT, shape, model->parameters + tensor->at);
        p->names[i] = tensor->name;
    }
    hs_graph_variable(g, "adamw/mean", HS_FLOAT, HS_SHAPE(n), p->adamw.mean);
    hs_graph_variable(g, "adamw/square", HS_FLOAT, HS_SHAPE(n), p->adamw.square);
    hs_graph_variable(g, "sizes", HS_INT32, HS_SHAPE(N_SIZES), p->sizes);
    hs_graph_add_state(g, HS_STATE_PROVIDER(.name = "generators", .save = save_generators, .load = load_generators,
                                            .self = p, .identity = p->text.identity, .bytes = sizeof p->generators));
    hs_graph_value(g, "loss", HS_FLOAT, HS_SCALAR, &p->loss);
    hs_graph_value(g, "gradient_norm", HS_FLOAT, HS_SCALAR, &p->gradient_norm);
    hs_graph_value(g, "learning_rate", HS_DOUBLE, HS_SCALAR, &p->learning_rate);
    hs_graph_op(g, .name = "batches", .run = draw_batches, .user = p, .writes = HS_NAMES(NULL));
    hs_graph_op(g, .name = "gradients", .run = compute_gradients, .user = p, .control_inputs = HS_NAMES("batches"),
                .writes = HS_NAMES("loss"));
    hs_graph_op(g, .name = "update", .run = update, .user = p, .control_inputs = HS_NAMES("gradients"), .collective = true,
                .advances_step = true); /* without `writes`: it may change all */
    hs_graph_op(g, .name = "validation_loss", .run = validate, .user = p, .writes = HS_NAMES(NULL), .collective = true,
                .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}));
    return g;
}

/* A hook that writes model.safetensors when the training ends. generate.py reads it. */
static hs_code export_model(void *self, hs_raw_session *session, hs_error *err)
{
    struct program *p = self;
    char path[4096], heads[16];
    snprintf(path, sizeof path, "%s/model.safetensors", p->options.model_dir);
    snprintf(heads, sizeof heads, "%d", p->model.heads);
    return hs_safetensors_save(session, path,
                               HS_SAFETENSORS_OPTIONS(.variables = p->names, .metadata = HS_SAFETENSORS_METADATA(
                                                                                 {"format", "pt"}, {"heads", heads})),
                               err);
}

static const hs_hook_ops exporter = HS_INIT(hs_hook_ops, .name = "exporter", .end = export_model);

static hs_session *open_session(struct program *p, hs_graph *g, hs_error *err)
{
    const struct options *o = &p->options;
    int64_t warmup = o->max_steps / 10 < WARMUP_STEPS ? o->max_steps / 10 : WARMUP_STEPS;
    double tokens = (double)(o->accumulate * o->batch_size * p->model.context);
    int processes = p->replicas.group ? p->replicas.count : 1;
    double peak = gpt_measure_peak(&p->model) * processes;
    char control[4096];
    snprintf(control, sizeof control, "%s/control", o->model_dir);
    if (p->replicas.rank == 0)
        hs_log(NULL, HS_LOG_INFO, "%zu parameters, %s, matrix products with %.0f GFLOP/s on %d threads",
               p->model.n_parameters, p->text.identity, peak * 1e-9, p->model.threads * processes);
    const hs_hook hooks[] = {
        hs_stop_at_step(.last_step = o->max_steps),
        hs_schedule(.value = "learning_rate", .warmup_steps = warmup, .decay = HS_DECAY_COSINE, .from = o->learning_rate,
                    .to = o->learning_rate / 10, .decay_steps = o->max_steps - warmup),
        hs_control(.path = control, .knobs = HS_KNOBS({.name = "learning_rate", .value = &p->learning_rate, .max = 1000})),
        hs_finite_guard(.activations = HS_NAMES("loss", "gradient_norm"), .policy = HS_GUARD_ROLLBACK,
                        .skip_op = "batches"),
        hs_logging_tensor(.tensors = HS_NAMES("loss", "gradient_norm", "learning_rate"),
                          .when = HS_TRIGGER(.every_n_steps = o->log_steps, .last = true)),
        hs_step_counter(.every_n_steps = o->log_steps, .summary_dir = o->model_dir, .units_per_step = tokens,
                        .unit = "tokens", .flops_per_step = tokens * gpt_flops_per_token(&p->model), .peak_flops = peak),
        hs_evaluation(.metrics = HS_NAMES("validation_loss"), .every_n_steps = o->eval_steps, .at_end = true,
                      .summary_dir = o->model_dir),
        hs_hook_best_effort(sampler_hook(&p->sampler, o->eval_steps), 0),
        HS_HOOK(.ops = &exporter, .self = p, .flags = HS_HOOK_TRAIN | HS_HOOK_CHIEF_ONLY),
        o->losses ? losses_hook(&p->losses) : (hs_hook){0},
        {0},
    };
    return hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = o->model_dir, .save_checkpoint_steps = o->save_steps,
                            .no_initial_checkpoint = !p->replicas.group, .background = true, .overlap = true,
                            .save_summaries_when = HS_EVERY_STEPS(o->log_steps), .log_step_count_steps = HS_NEVER,
                            .signals = true, .group = p->replicas.group,
                            .replicas = p->replicas.group ? HS_REPLICA_OPTIONS(.identity = p->identity) : NULL,
                            .scalars = HS_NAMES("loss", "gradient_norm", "learning_rate"), .hooks = hooks),
        err);
}

/* Opens the newest checkpoint. NULL without an error: there is none. */
static hs_checkpoint_reader *open_newest(const struct program *p, hs_error *err)
{
    char *newest = hs_checkpoint_latest(NULL, p->options.model_dir, NULL, err);
    hs_checkpoint_reader *reader = newest ? hs_checkpoint_open(NULL, newest, err) : NULL;
    hs_env_free(NULL, newest);
    return reader;
}

/* The sizes of the model: those of the newest checkpoint, or of the options and their defaults. *err may say why the
 * checkpoint cannot be opened. The session then restores an older one, whose sizes the options must name. */
static hs_code choose_sizes(struct program *p, hs_checkpoint_reader *reader, hs_error *err)
{
    static const int32_t defaults[N_SIZES] = {[CONTEXT] = 128, [LAYERS] = 4, [HEADS] = 4, [WIDTH] = 256};
    int32_t saved[N_SIZES] = {0};
    bool known = reader && hs_checkpoint_read(reader, "sizes", saved, sizeof saved, err) == HS_OK;
    if (err->code && p->options.generate)
        return err->code;
    for (int i = 0; err->code && i < N_SIZES; i++)
        if (!p->options.sizes[i]) {
            hs_error_prefix(err, "the sizes of the saved model are unknown; give --context, --layers, --heads and --width");
            return err->code;
        }
    hs_error_clear(err);
    for (int i = 0; i < N_SIZES; i++) {
        int32_t given = (int32_t)p->options.sizes[i];
        if (given && known && given != saved[i])
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "--%s %d: the checkpoint in %s has %d; omit the option, or choose another --model-dir",
                                size_names[i], given, p->options.model_dir, saved[i]);
        p->sizes[i] = given ? given : known ? saved[i] : defaults[i];
    }
    return HS_OK;
}

static hs_code prepare(struct program *p, hs_checkpoint_reader *reader, hs_error *err)
{
    const struct options *o = &p->options;
    uint64_t seed = (uint64_t)o->seed;
    hs_code code = choose_sizes(p, reader, err);
    int batch = 1, threads = o->generate ? 1 : (int)o->threads;
    int first = o->generate ? 0 : replicas_share(&p->replicas, (int)o->batch_size, &batch);
    if (!code && o->batch_size < p->replicas.count)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "--batch-size %d: fewer sequences than the %d processes",
                            (int)o->batch_size, p->replicas.count);
    if (code || (code = gpt_init(&p->model, p->sizes, batch, threads, seed, err)) || o->generate)
        return code;
    p->model.first = first;
    p->model.dropout = (float)o->dropout;
    p->sampler = (struct sampler){.model = &p->model, .seed = seed};
    p->losses.path = o->losses;
    rng_seed(&p->generators.batches, seed, 2);
    rng_seed(&p->generators.dropout, seed, 3);
    size_t n = (size_t)(o->accumulate * o->batch_size * p->model.context);
    p->inputs = calloc(n, sizeof *p->inputs);
    p->targets = calloc(n, sizeof *p->targets);
    if (!p->inputs || !p->targets)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for batches of %zu tokens", n);
    code = text_load(&p->text, o->text, p->model.context, err);
    snprintf(p->identity, sizeof p->identity, "%s\n--batch-size %lld\n--accumulate %lld\n--dropout %g\n", p->text.identity,
             (long long)o->batch_size, (long long)o->accumulate, o->dropout);
    return code ? code : adamw_init(&p->adamw, &p->model, err);
}

static int train(struct program *p, hs_error *err)
{
    hs_graph *g = err->code ? NULL : make_graph(p);
    hs_session *s = g ? open_session(p, g, err) : NULL;
    while (!hs_session_should_stop(s))
        if (hs_session_run(s, "update", err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(s, err);
    hs_graph_free(g);
    int status = replicas_end(&p->replicas, &outcome);
    if (outcome.reason == HS_REASON_FAILED)
        fprintf(stderr, "gpt: %s\n", outcome.error.message);
    else if (p->replicas.rank != 0)
        return status;
    else if (outcome.interrupted)
        printf("stopped at step %lld; to continue, start the program again\n", (long long)outcome.step);
    else
        printf("validation loss %.4f at step %lld\n",
               p->validated > 0 ? (double)p->validated : validation_loss(p, 0, VALIDATION_SEQUENCES),
               (long long)outcome.step);
    return status;
}

/* Prints the text of --generate and its continuation. */
static int generate(struct program *p, hs_checkpoint_reader *reader, hs_error *err)
{
    size_t length = strlen(p->options.generate), total = length + GENERATED_BYTES;
    unsigned char *text = malloc(total + 1);
    struct rng rng;
    if (!err->code && !reader)
        hs_error_set(err, HS_NOT_FOUND, "%s has no checkpoint; train first, or choose another --model-dir",
                     p->options.model_dir);
    if (!err->code && !text)
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for %zu bytes", total);
    rng_seed(&rng, (uint64_t)p->options.seed, 4);
    if (!err->code && !sample_load(&p->model, reader, err)) {
        memcpy(text, p->options.generate, length);
        sample_text(&p->model, text, length, total, &rng, err);
    }
    if (err->code)
        fprintf(stderr, "gpt: %s\n", err->message);
    else
        fwrite(text, 1, total, stdout), putchar('\n'); /* not printf: the model may write zeros */
    free(text);
    return err->code ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct program program;
    struct program *p = &program;
    hs_error err = {0};
    int status = options_parse(&p->options, argc, argv);
    if (status != OPTIONS_OK)
        return status;
    if (openblas_set_num_threads)
        openblas_set_num_threads(1); /* the program has its own threads */
    if (p->options.replicas)
        replicas_start(&p->replicas, p->options.model_dir, &err);
    hs_checkpoint_reader *reader = NULL;
    if (!err.code) {
        reader = open_newest(p, &err);
        prepare(p, reader, &err);
    }
    if (p->options.generate)
        status = generate(p, reader, &err);
    hs_checkpoint_close(reader); /* if it stayed open, its space would not be free after it is deleted */
    if (!p->options.generate)
        status = train(p, &err);
    text_free(&p->text);
    adamw_free(&p->adamw);
    gpt_free(&p->model);
    free(p->inputs);
    free(p->targets);
    return fflush(stdout) == 0 || status ? status : 1;
}
