/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the command line: `numbers` and `others` list the options, set_option stores the value of one. */
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
    SAVE_SECS_DEFAULT = 10,
    METRICS_STEPS = 100,
    MAX_EPOCHS = 1000000,
    MAX_WIDTH = 1 << 16,
    MAX_BATCH = 1 << 20,
    MAX_THREADS = 1 << 10
};

static const char help[] =
    "Trains a multilayer perceptron on Fashion-MNIST. If it is killed, start it again: it resumes from the last checkpoint. If\n"
    "the training is complete, it only prints the test accuracy.\n"
    "\n"
    "  --mode MODE         train (the default), evaluate (each new checkpoint, while another process trains),\n"
    "                      train-and-evaluate (both in one process), predict. Evaluations are written to MODEL-DIR/eval\n"
    "  --images N,N,...    predict: numbers of test images (0)\n"
    "  --throttle-secs X   least time from one evaluation to the next (0: each checkpoint)\n"
    "  --timeout-secs X    evaluate: stops if no new checkpoint appears for X seconds (60), or after the last step\n"
    "  --data DIR          the data set (/usr/share/datasets/fashion-mnist, of Debian's dataset-fashion-mnist)\n"
    "  --model-dir DIR     checkpoints and event files (run)\n"
    "  --epochs N          passes over the training images (10, unless --max-steps is given)\n"
    "  --max-steps N       last step\n"
    "  --batch-size N      images per step (128)\n"
    "  --hidden N,N,...    widths of the hidden layers (256,128)\n"
    "  --optimizer NAME    sgd, momentum or adam (momentum)\n"
    "  --learning-rate X   of the first epoch; the n-th has 2/(n+1) of it (sgd 0.3, momentum 0.05, adam 0.001)\n"
    "  --seed N            of the initial weights and of the order of the images (1)\n"
    "  --threads N         threads of the matrix products (the number of processors, at most 2)\n"
    "  --stop-after X      saves and stops within X seconds; if started again, it resumes\n"
    "  --non-finite WHAT   if the loss is not finite: fail (the default), or rollback: restores the last checkpoint, at most\n"
    "                      three times, and skips the batches since then\n"
    "  --save-steps N      saves a checkpoint every N steps, or\n"
    "  --save-secs X       every X seconds (10); 0: never, not even at the end\n"
    "  --keep N            number of checkpoints to keep (5; 0: all)\n"
    "  --log-steps N       a line with the loss every N steps, in the log (each epoch) and in --metrics (100; 0: never)\n"
    "  --summary-steps N   the loss for TensorBoard every N steps, and of the last step (100; 0: never)\n"
    "  --eval-steps N      the test accuracy, confusion matrix and misclassified images every N steps (each epoch), and of\n"
    "                      the last step; 0: never\n"
    "  --histogram-steps N histograms of weights and gradients every N steps (500; 0: never)\n"
    "  --replicas          'mpirun -n N trainer --replicas' trains one model in N processes; each computes a part of a batch\n"
    "  --fresh             deletes the checkpoints and event files in MODEL-DIR first\n"
    "  --no-progress       no progress line on a terminal\n"
    "  --metrics FILE      step and loss, as .csv or .jsonl; a resume removes the lines after its\n"
    "                      checkpoint (MODEL-DIR/metrics.csv)\n"
    "  --losses FILE       a line \"STEP LOSS\" for each step, the loss as a hexadecimal float\n"
    "  --help              this text\n"
    "\n"
    "SIGTERM and Ctrl-C save and stop within 30 seconds with exit status 75: start the trainer again to resume. A second\n"
    "signal stops without saving. SIGUSR1 saves immediately. MODEL-DIR/control takes the lines save, stop and\n"
    "set learning_rate=X: write another file and rename it to that. MODEL-DIR/status.json has the progress and the newest\n"
    "checkpoint, outcome.json the result, heartbeat.json whether the process is alive. If a step hangs, the log names the\n"
    "cause. A step whose loss is not finite is never saved. If log lines, charts or metrics cannot be written, for\n"
    "example because the disk is full, training continues.\n";

/* Options with an integer. */
static const struct {
    const char *name;
    size_t at;
    int64_t least, most;
} numbers[] = {
    {"epochs", offsetof(struct options, epochs), 1, MAX_EPOCHS},
    {"max-steps", offsetof(struct options, max_steps), 1, INT64_MAX},
    {"batch-size", offsetof(struct options, batch_size), 1, MAX_BATCH},
    {"seed", offsetof(struct options, seed), 0, INT64_MAX},
    {"threads", offsetof(struct options, threads), 1, MAX_THREADS},
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

/* All other options. */
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
    for (options->n_hidden = 0; options->n_hidden < MAX_HIDDEN;) {
        char one[16];
        int64_t width;
        size_t length = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), text);
        if (!parse_number(one, 1, MAX_WIDTH, &width))
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

/* Stores the value of an option. Returns false if it is invalid. */
static bool set_option(struct options *options, int option, const char *text)
{
    int64_t number;
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
        if (!parse_number(text, numbers[option].least, numbers[option].most, &number))
            return false;
        memcpy((char *)options + numbers[option].at, &number, sizeof number);
        return true;
    }
}

/* Ends the report of an invalid option. Returns the exit code. */
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
            return usage(argv[0]); /* getopt_long has reported it */
        if (option == HELP)
            return fputs(help, stdout) < 0 || fflush(stdout);
        if (!set_option(options, option, optarg)) {
            fprintf(stderr, "%s: --%s '%s': invalid value\n", argv[0], all[at].name, optarg);
            return usage(argv[0]);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "%s: '%s': only options are expected\n", argv[0], argv[optind]);
        return usage(argv[0]);
    }
    if (options->save_steps >= 0 && options->save_secs >= 0) {
        fprintf(stderr, "%s: --save-steps and --save-secs cannot both be given\n", argv[0]);
        return usage(argv[0]);
    }
    if (options->replicas && options->mode != MODE_TRAIN) {
        fprintf(stderr, "%s: --replicas requires --mode train\n", argv[0]);
        return usage(argv[0]);
    }
    if (options->save_steps < 0 && options->save_secs < 0)
        options->save_secs = SAVE_SECS_DEFAULT;
    if (options->learning_rate == 0)
        options->learning_rate = options->optimizer->rate;
    if (!options->epochs && !options->max_steps)
        options->epochs = EPOCHS;
    return OPTIONS_OK;
}

void options_fit(struct options *options, size_t n_images, bool terminal)
{
    int64_t n = (int64_t)n_images, epoch = (n + options->batch_size - 1) / options->batch_size;
    int64_t last = options->epochs * epoch;
    if (!options->epochs || (options->max_steps && options->max_steps < last))
        last = options->max_steps;
    options->epoch_steps = epoch;
    options->last_step[0] = last;
    options->last_step[1] = -1;
    options->progress = options->progress && terminal;
    options->metrics_steps = options->log_steps < 0 ? METRICS_STEPS : options->log_steps;
    if (options->log_steps < 0)
        options->log_steps = epoch;
    if (options->eval_steps < 0)
        options->eval_steps = options->mode == MODE_TRAIN ? epoch : 0; /* the other modes write evaluations separately */
}
