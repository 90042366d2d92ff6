/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    USAGE = 2,
    EPOCHS = 10,
    LOG_STEPS = 100,
    MOST_EPOCHS = 1000000,
    MOST_WIDTH = 1 << 16,
    MOST_BATCH = 1 << 20,
    MOST_THREADS = 1 << 10
};

static const char help[] =
    "Trains a multilayer perceptron on Fashion-MNIST. Killed at any moment and started again, it goes on; started again when\n"
    "it is finished, it only says how good the model is.\n"
    "\n"
    "  --mode MODE         train (the default), evaluate (beside a process that trains: each new checkpoint),\n"
    "                      train-and-evaluate (both in one process), predict. Evaluations go to MODEL-DIR/eval\n"
    "  --images N,N,...    which images of the test set to predict (0)\n"
    "  --throttle-secs X   from one evaluation to the next at least (0: each checkpoint)\n"
    "  --timeout-secs X    evaluate: ends when no checkpoint has come for so long (60), or after the last step\n"
    "  --data DIR          the data set (/usr/share/datasets/fashion-mnist, of Debian's dataset-fashion-mnist)\n"
    "  --model-dir DIR     checkpoints and event files (run)\n"
    "  --epochs N          how often to go through the images (10, unless --max-steps is given)\n"
    "  --max-steps N       train up to this step at most\n"
    "  --batch-size N      images a step (128)\n"
    "  --hidden N,N,...    widths of the hidden layers (256,128)\n"
    "  --optimizer NAME    sgd, momentum or adam (momentum)\n"
    "  --learning-rate X   of the first epoch; the n-th has 2/(n+1) of it (sgd 0.3, momentum 0.05, adam 0.001)\n"
    "  --seed N            makes the first weights and the order of the images (1)\n"
    "  --threads N         of the matrix products (one for each processor, at most 2)\n"
    "  --stop-after X      stops, saved, before X seconds of this start are over; started again, it goes on\n"
    "  --non-finite WHAT   where the loss is not finite: fail (the default), or rollback: goes back to the last checkpoint, at\n"
    "                      most three times, and leaves the batches out that led there\n"
    "  --save-steps N      a checkpoint every N steps, or\n"
    "  --save-secs X       every X seconds (1); 0: none, not even at the end\n"
    "  --keep N            how many checkpoints stay (5; 0: all)\n"
    "  --log-steps N       a line every N steps (100; beside a progress line, one an epoch; 0: none)\n"
    "  --summary-steps N   the loss for TensorBoard every N steps (100; 0: never)\n"
    "  --eval-steps N      the test accuracy, confusion matrix and misclassified images every N steps (one epoch's; 0: never)\n"
    "  --histogram-steps N histograms of weights and gradients every N steps (500; 0: never)\n"
    "  --replicas          each process of 'mpirun -n N trainer --replicas' learns from a part of each batch; all act as one\n"
    "  --fresh             start anew: deletes the checkpoints and event files in the model's directory\n"
    "  --no-progress       no progress line, on a terminal either\n"
    "  --metrics FILE      step and loss every --log-steps steps, as .csv or .jsonl, cut back to the checkpoint when resumed\n"
    "                      (MODEL-DIR/metrics.csv)\n"
    "  --losses FILE       a line \"STEP LOSS\" each step, the loss as a hexadecimal float\n"
    "  --help              this text\n"
    "\n"
    "On by default while it trains: SIGTERM and Ctrl-C save and stop, within 30 seconds (exit status 75: start it again; a\n"
    "second one saves nothing any more); SIGUSR1 saves at once. MODEL-DIR/control takes the lines save, stop and\n"
    "set learning_rate=X (write it elsewhere, and mv it there). MODEL-DIR/status.json says how far it is and what is durable,\n"
    "outcome.json how it ended, heartbeat.json whether it is alive; where it hangs, the log says in what. A loss that is not\n"
    "finite never gets into a checkpoint. What only shows the training (log lines, charts, metrics) may fail, on a full disk\n"
    "say, and the training goes on.\n";

/* Options that are a whole number. */
static const struct {
    const char *name;
    size_t at;
    int64_t least, most;
} numbers[] = {
    {"epochs", offsetof(struct options, epochs), 1, MOST_EPOCHS},
    {"max-steps", offsetof(struct options, max_steps), 1, INT64_MAX},
    {"batch-size", offsetof(struct options, batch_size), 1, MOST_BATCH},
    {"seed", offsetof(struct options, seed), 0, INT64_MAX},
    {"threads", offsetof(struct options, threads), 1, MOST_THREADS},
    {"save-steps", offsetof(struct options, save_steps), 0, INT64_MAX},
    {"keep", offsetof(struct options, keep), 0, INT32_MAX},
    {"log-steps", offsetof(struct options, log_steps), 0, INT64_MAX},
    {"summary-steps", offsetof(struct options, summary_steps), 0, INT64_MAX},
    {"eval-steps", offsetof(struct options, eval_steps), 0, INT64_MAX},
    {"histogram-steps", offsetof(struct options, histogram_steps), 0, INT64_MAX},
};

enum { N_NUMBERS = sizeof numbers / sizeof *numbers };
enum {
    DATA = N_NUMBERS,
    MODEL_DIR,
    HIDDEN,
    OPTIMIZER,
    LEARNING_RATE,
    SAVE_SECS,
    FRESH,
    NO_PROGRESS,
    REPLICAS,
    LOSSES,
    HELP,
    MODE,
    IMAGES,
    THROTTLE_SECS,
    TIMEOUT_SECS,
    STOP_AFTER,
    NON_FINITE,
    METRICS
};

/* Those that are not in `numbers`. */
static const struct option others[] = {
    {"data", required_argument, NULL, DATA},
    {"model-dir", required_argument, NULL, MODEL_DIR},
    {"hidden", required_argument, NULL, HIDDEN},
    {"optimizer", required_argument, NULL, OPTIMIZER},
    {"learning-rate", required_argument, NULL, LEARNING_RATE},
    {"save-secs", required_argument, NULL, SAVE_SECS},
    {"fresh", no_argument, NULL, FRESH},
    {"no-progress", no_argument, NULL, NO_PROGRESS},
    {"replicas", no_argument, NULL, REPLICAS},
    {"losses", required_argument, NULL, LOSSES},
    {"help", no_argument, NULL, HELP},
    {"mode", required_argument, NULL, MODE},
    {"images", required_argument, NULL, IMAGES},
    {"throttle-secs", required_argument, NULL, THROTTLE_SECS},
    {"timeout-secs", required_argument, NULL, TIMEOUT_SECS},
    {"stop-after", required_argument, NULL, STOP_AFTER},
    {"non-finite", required_argument, NULL, NON_FINITE},
    {"metrics", required_argument, NULL, METRICS},
};

enum { N_OTHERS = sizeof others / sizeof *others };

static bool parse_number(const char *text, int64_t least, int64_t most, int64_t *to)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < least || value > most)
        return false;
    *to = value;
    return true;
}

static bool parse_positive(const char *text, bool or_zero, double *to)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value <= 1e9) || !(value > 0 || (or_zero && value == 0)))
        return false;
    *to = value;
    return true;
}

static bool parse_hidden(const char *text, struct options *options)
{
    for (options->n_hidden = 0; options->n_hidden < MOST_HIDDEN;) {
        char one[16];
        int64_t width;
        size_t length = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), text);
        if (!parse_number(one, 1, MOST_WIDTH, &width))
            return false;
        options->hidden[options->n_hidden++] = (int)width;
        if (!text[length])
            return true;
        text += length + 1;
    }
    return false;
}

static bool parse_mode(const char *text, enum mode *mode)
{
    static const char *const names[] = {"train", "evaluate", "predict", "train-and-evaluate"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) {
            *mode = (enum mode)i;
            return true;
        }
    return false;
}

static bool take_number(struct options *options, int option, const char *text)
{
    int64_t value;
    if (!parse_number(text, numbers[option].least, numbers[option].most, &value))
        return false;
    memcpy((char *)options + numbers[option].at, &value, sizeof value);
    return true;
}

static bool take(struct options *options, int option, const char *text)
{
    switch (option) {
    case DATA:
        options->data = text;
        return *text;
    case MODEL_DIR:
        options->model_dir = text;
        return *text;
    case LOSSES:
        options->losses = text;
        return *text;
    case MODE:
        return parse_mode(text, &options->mode);
    case IMAGES:
        options->images = text;
        return *text;
    case THROTTLE_SECS:
        return parse_positive(text, true, &options->throttle_secs);
    case TIMEOUT_SECS:
        return parse_positive(text, false, &options->timeout_secs);
    case STOP_AFTER:
        return parse_positive(text, false, &options->stop_after_secs);
    case NON_FINITE:
        options->rollback = strcmp(text, "rollback") == 0;
        return options->rollback || strcmp(text, "fail") == 0;
    case METRICS:
        options->metrics = text;
        return *text;
    case HIDDEN:
        return parse_hidden(text, options);
    case OPTIMIZER:
        return (options->optimizer = optimizer_kind_of(text));
    case LEARNING_RATE:
        return parse_positive(text, false, &options->learning_rate);
    case SAVE_SECS:
        return parse_positive(text, true, &options->save_secs);
    case FRESH:
        return options->fresh = true;
    case NO_PROGRESS:
        options->progress = false;
        return true;
    case REPLICAS:
        return options->replicas = true;
    default:
        return take_number(options, option, text);
    }
}

/* After a line that says what is wrong. */
static int usage(const char *program)
{
    fprintf(stderr, "Try '%s --help'.\n", program);
    return USAGE;
}

static int64_t processors(int64_t most)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n < most ? n : most;
}

static void set_defaults(struct options *options)
{
    *options = (struct options){
        .images = "0",
        .timeout_secs = 60,
        .data = "/usr/share/datasets/fashion-mnist",
        .model_dir = "run",
        .hidden = {256, 128},
        .n_hidden = 2,
        .optimizer = optimizer_kind_of("momentum"),
        .progress = true,
        .batch_size = 128,
        .seed = 1,
        .threads = processors(2),
        .keep = 5,
        .save_steps = NOT_GIVEN,
        .save_secs = NOT_GIVEN,
        .log_steps = NOT_GIVEN,
        .summary_steps = 100,
        .eval_steps = NOT_GIVEN,
        .histogram_steps = 500,
    };
}

/* What follows from what was given. */
static int settle(struct options *options, const char *program)
{
    if (options->save_steps >= 0 && options->save_secs >= 0) {
        fprintf(stderr, "%s: --save-steps and --save-secs cannot both be given\n", program);
        return usage(program);
    }
    if (options->replicas && options->mode != MODE_TRAIN) {
        fprintf(stderr, "%s: --replicas is for --mode train\n", program);
        return usage(program);
    }
    if (options->save_steps < 0 && options->save_secs < 0)
        options->save_secs = 1;
    if (options->learning_rate == 0)
        options->learning_rate = options->optimizer->rate;
    if (!options->epochs && !options->max_steps)
        options->epochs = EPOCHS;
    return GO_ON;
}

int options_parse(struct options *options, int argc, char **argv)
{
    struct option all[N_NUMBERS + N_OTHERS + 1] = {{NULL, 0, NULL, 0}};
    for (int i = 0; i < N_NUMBERS; i++)
        all[i] = (struct option){numbers[i].name, required_argument, NULL, i};
    memcpy(all + N_NUMBERS, others, sizeof others);
    set_defaults(options);
    options->argv = argv;
    int option, at = 0;
    while ((option = getopt_long(argc, argv, "", all, &at)) != -1) {
        if (option == '?')
            return usage(argv[0]); /* getopt_long has said it */
        if (option == HELP)
            return fputs(help, stdout) < 0 || fflush(stdout);
        if (!take(options, option, optarg)) {
            fprintf(stderr, "%s: --%s '%s': not a value that it takes\n", argv[0], all[at].name, optarg);
            return usage(argv[0]);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "%s: '%s': only options are expected\n", argv[0], argv[optind]);
        return usage(argv[0]);
    }
    return settle(options, argv[0]);
}

void options_fit(struct options *options, size_t n_images, bool terminal)
{
    int64_t n = (int64_t)n_images, epoch = (n + options->batch_size - 1) / options->batch_size;
    options->last_step = options->epochs * epoch;
    if (!options->epochs || (options->max_steps && options->max_steps < options->last_step))
        options->last_step = options->max_steps;
    options->progress = options->progress && terminal;
    if (options->log_steps < 0)
        options->log_steps = options->progress ? epoch : LOG_STEPS;
    if (options->eval_steps < 0)
        options->eval_steps = options->mode == MODE_TRAIN ? epoch : 0; /* else there is a chart of its own */
}
