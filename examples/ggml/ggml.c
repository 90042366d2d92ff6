/* SPDX-License-Identifier: Apache-2.0 */
/* ggml DATA RUN [EPOCHS]: a perceptron on MNIST or Fashion-MNIST, trained with ggml. DATA has the four files of the data
 * set, RUN gets checkpoints, charts and the weights. Kill it at any time: the next start continues, bit for bit. */
#include <hooksess/ggml.h>
#include <hooksess/hooksess.h>

#include <ggml-cpu.h>
#include <gguf.h>
#include <math.h>
#include <stdlib.h>

enum { PIXELS = 784, HIDDEN = 500, CLASSES = 10, BATCH = 100, THREADS = 1, PARAMETERS = 4 };

struct data {
    int32_t n; /* a multiple of BATCH is used */
    uint8_t *images, *labels;
};

struct model {
    struct ggml_context *state, *compute;
    struct ggml_tensor *images, *labels, *adamw, *logits, *loss;
    struct ggml_cgraph *train, *forward;
    ggml_backend_t backend;
};

struct test {
    struct model *model;
    struct data data;
};

static uint8_t *read_items(const char *directory, const char *name, int32_t header, int32_t item, int32_t *n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) || (*n = (int32_t)(ftell(file) - header) / item) < BATCH ||
        fseek(file, header, SEEK_SET)) {
        fprintf(stderr, "ggml: cannot read '%s'\n", path);
        exit(1);
    }
    uint8_t *items = malloc((size_t)*n * (size_t)item);
    if (!items || fread(items, (size_t)item, (size_t)*n, file) != (size_t)*n)
        exit(1);
    fclose(file);
    return items;
}

static struct data read_data(const char *directory, const char *images, const char *labels)
{
    struct data data;
    data.labels = read_items(directory, labels, 8, 1, &data.n);
    data.images = read_items(directory, images, 16, PIXELS, &data.n);
    return data;
}

static uint32_t random_below(uint64_t *random, uint32_t n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*random >> 32) * n >> 32);
}

/* Copies BATCH samples to the inputs of the graphs. `order` NULL: the order of the files. */
static void set_batch(const struct model *m, const struct data *data, const int32_t *order, int64_t batch)
{
    static float images[BATCH * PIXELS], labels[BATCH * CLASSES];
    memset(labels, 0, sizeof labels);
    for (int64_t i = 0; i < BATCH; i++) {
        const int64_t sample = order ? order[batch * BATCH + i] : batch * BATCH + i;
        for (int64_t k = 0; k < PIXELS; k++)
            images[i * PIXELS + k] = (float)data->images[sample * PIXELS + k] / 255;
        labels[i * CLASSES + data->labels[sample]] = 1;
    }
    ggml_backend_tensor_set(m->images, images, 0, sizeof images);
    ggml_backend_tensor_set(m->labels, labels, 0, sizeof labels);
}

static struct ggml_tensor *new_parameter(struct model *m, const char *name, int64_t columns, int64_t rows)
{
    struct ggml_tensor *parameter = ggml_new_tensor_2d(m->state, GGML_TYPE_F32, columns, rows);
    ggml_set_name(parameter, name);
    ggml_set_param(parameter);
    return parameter;
}

static struct ggml_tensor *new_input(struct model *m, int64_t columns, int64_t rows)
{
    struct ggml_tensor *input = ggml_new_tensor_2d(m->state, GGML_TYPE_F32, columns, rows);
    ggml_set_input(input);
    return input;
}

static void set_random(struct ggml_tensor *parameter, uint64_t *random)
{
    const int64_t n = ggml_nelements(parameter);
    float *values = calloc((size_t)n, sizeof *values);
    if (!values)
        exit(1);
    const float limit = 1 / sqrtf((float)parameter->ne[0]);
    for (int64_t i = 0; ggml_n_dims(parameter) > 1 && i < n; i++) /* a bias is 0 */
        values[i] = limit * ((float)random_below(random, 1 << 24) * 0x1p-23f - 1);
    ggml_backend_tensor_set(parameter, values, 0, ggml_nbytes(parameter));
    free(values);
}

/* The graph of a training step: forward, backward, and an AdamW step for each parameter, whose moments are tensors of
 * `state`. */
static void build(struct model *m, uint64_t *random)
{
    const struct ggml_init_params no_alloc = {.mem_size = 4 << 20, .no_alloc = true};
    m->state = ggml_init(no_alloc), m->compute = ggml_init(no_alloc);
    m->backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(m->backend, THREADS);

    struct ggml_tensor *parameters[PARAMETERS] = {
        new_parameter(m, "fc1.weight", PIXELS, HIDDEN), new_parameter(m, "fc1.bias", HIDDEN, 1),
        new_parameter(m, "fc2.weight", HIDDEN, CLASSES), new_parameter(m, "fc2.bias", CLASSES, 1)};
    m->images = new_input(m, PIXELS, BATCH);
    m->labels = new_input(m, CLASSES, BATCH);
    m->adamw = new_input(m, 7, 1);
    struct ggml_tensor *hidden =
        ggml_relu(m->compute, ggml_add(m->compute, ggml_mul_mat(m->compute, parameters[0], m->images), parameters[1]));
    m->logits = ggml_add(m->compute, ggml_mul_mat(m->compute, parameters[2], hidden), parameters[3]);
    m->loss = ggml_cross_entropy_loss(m->compute, m->logits, m->labels);
    ggml_set_loss(m->loss);

    m->forward = ggml_new_graph(m->compute);
    ggml_build_forward_expand(m->forward, m->logits);
    m->train = ggml_new_graph_custom(m->compute, GGML_DEFAULT_GRAPH_SIZE, /*grads =*/true);
    ggml_build_forward_expand(m->train, m->loss);
    ggml_build_backward_expand(m->compute, m->train, NULL);
    for (int i = 0; i < PARAMETERS; i++) {
        struct ggml_tensor *mean = ggml_dup_tensor(m->state, parameters[i]),
                           *square = ggml_dup_tensor(m->state, parameters[i]);
        ggml_format_name(mean, "adamw/mean/%s", parameters[i]->name);
        ggml_format_name(square, "adamw/square/%s", parameters[i]->name);
        ggml_build_forward_expand(m->train, ggml_opt_step_adamw(m->compute, parameters[i],
                                                                ggml_graph_get_grad(m->train, parameters[i]), mean, square,
                                                                m->adamw));
    }
    if (!ggml_backend_alloc_ctx_tensors(m->state, m->backend) || !ggml_backend_alloc_ctx_tensors(m->compute, m->backend))
        exit(1);
    ggml_graph_reset(m->train); /* the gradient of the loss: 1; moments: 0 */
    for (int i = 0; i < PARAMETERS; i++)
        set_random(parameters[i], random);
}

static void train(struct model *m, float learning_rate, int64_t step)
{
    const float beta1 = 0.9F, beta2 = 0.999F;
    const float adamw[7] = {learning_rate,
                            beta1,
                            beta2,
                            1e-8F,
                            /* weight decay */ 1e-4F,
                            1 / (1 - powf(beta1, (float)step)),
                            1 / (1 - powf(beta2, (float)step))};
    ggml_backend_tensor_set(m->adamw, adamw, 0, sizeof adamw);
    ggml_backend_graph_compute(m->backend, m->train);
}

/* An op: the accuracy on the test images. */
static hs_code evaluate(void *user, hs_op *op, hs_error *err)
{
    const struct test *test = user;
    const struct model *m = test->model;
    float logits[BATCH * CLASSES];
    int32_t right = 0, batches = test->data.n / BATCH;
    (void)err;
    for (int32_t batch = 0; batch < batches; batch++) {
        set_batch(m, &test->data, NULL, batch);
        ggml_backend_graph_compute(m->backend, m->forward);
        ggml_backend_tensor_get(m->logits, logits, 0, sizeof logits);
        for (int i = 0; i < BATCH; i++) {
            int best = 0;
            for (int k = 1; k < CLASSES; k++)
                best = logits[i * CLASSES + k] > logits[i * CLASSES + best] ? k : best;
            right += best == test->data.labels[batch * BATCH + i];
        }
    }
    *(float *)hs_op_output(op, 0)->data = (float)right / (float)(batches * BATCH);
    return HS_OK;
}

static bool write_weights(const struct model *m, const char *path)
{
    static const char *const names[PARAMETERS] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    struct gguf_context *gguf = gguf_init_empty();
    gguf_set_val_str(gguf, "general.architecture", "mnist-fc"); /* which ggml's mnist-eval reads */
    for (int i = 0; i < PARAMETERS; i++)
        gguf_add_tensor(gguf, ggml_get_tensor(m->state, names[i]));
    const bool is_written = gguf_write_to_file(gguf, path, false);
    gguf_free(gguf);
    return is_written;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: ggml DATA RUN [EPOCHS]\n");
        return 2;
    }
    const struct data data = read_data(argv[1], "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
    const int64_t epochs = argc > 3 ? atoll(argv[3]) : 5, batches = data.n / BATCH;
    uint64_t random = 1; /* the generator of the first weights and of the shuffles */
    int64_t step = 0;
    float learning_rate = 0;
    int32_t *order = malloc((size_t)data.n * sizeof *order);
    char weights[4096];
    snprintf(weights, sizeof weights, "%s/mnist-fc.gguf", argv[2]);
    struct model model;
    build(&model, &random);
    struct test test = {&model, read_data(argv[1], "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")};
    for (int32_t i = 0; order && i < data.n; i++)
        order[i] = i;

    hs_graph *g = hs_graph_new(NULL);
    hs_ggml_variables(g, model.state);
    hs_ggml_value(g, "loss", model.loss);
    hs_graph_variable(g, "order", HS_INT32, HS_SHAPE(data.n), order);
    hs_graph_bytes(g, "random", &random, sizeof random);
    hs_graph_global_step(g, NULL, &step);
    hs_graph_value(g, "learning_rate", HS_FLOAT, HS_SCALAR, &learning_rate);
    hs_graph_op(g, .name = "accuracy", .run = evaluate, .user = &test, .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}));
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = argv[2], .save_checkpoint_steps = 100, .signals = true,
                            .scalars = HS_NAMES("loss", "learning_rate"),
                            .hooks = HS_HOOKS(hs_stop_at_step(.last_step = epochs * batches),
                                              hs_schedule(.value = "learning_rate", .warmup_steps = 100,
                                                          .decay = HS_DECAY_COSINE, .from = 1e-3, .to = 1e-5,
                                                          .decay_steps = epochs * batches - 100),
                                              hs_nan_tensor(.tensor = "loss"),
                                              hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 100),
                                              hs_evaluation(.metrics = HS_NAMES("accuracy"), .every_n_steps = batches,
                                                            .summary_dir = argv[2]))),
        NULL);
    while (hs_step_begin(s)) {
        if (step % batches == 0)
            for (uint32_t i = (uint32_t)data.n - 1; i > 0; i--) {
                const uint32_t other = random_below(&random, i + 1);
                const int32_t kept = order[i];
                order[i] = order[other], order[other] = kept;
            }
        set_batch(&model, &data, order, step % batches);
        train(&model, learning_rate, step + 1);
        hs_step_end(s);
    }
    const hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    int code = hs_outcome_exit_code(&outcome);
    if (code == 0) {
        if (write_weights(&model, weights))
            printf("weights: %s\n", weights);
        else
            code = 1;
    }
    return code;
}
