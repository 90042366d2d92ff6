/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USAGE = 2, MAX_BATCH = 1 << 20, MAX_THREADS = 127, STEPS = 100 };

static const char help[] =
    "Trains a graph that TensorFlow has exported. If killed and started again, it continues from its last checkpoint.\n"
    "\n"
    "  --meta-graph FILE   (required) a MetaGraphDef or a GraphDef, binary or text\n"
    "  --train-op NAME     the op that makes a step (train_op)\n"
    "  --loss NAME         the loss to log; training fails if it is not finite (loss); '': none\n"
    "  --feed NAME=WHAT    feeds a placeholder. images: float32 [pictures, pixels], 0 to 1; labels: int64 [pictures].\n"
    "                      Can be repeated. Without --feed the graph must read its data itself\n"
    "  --data DIR          the data set for --feed (/usr/share/datasets/fashion-mnist, of Debian's dataset-fashion-mnist)\n"
    "  --batch-size N      pictures per step (128)\n"
    "  --seed N            seed for the order of the pictures (1)\n"
    "  --threads N         TensorFlow's threads within an op, and between ops (TensorFlow's default)\n"
    "  --model-dir DIR     checkpoints and event files (run)\n"
    "  --max-steps N       stop at this step (no limit: until the input ends, or until a signal)\n"
    "  --save-steps N      save a checkpoint every N steps (100); 0: never, not even at the end\n"
    "  --log-steps N       log a line every N steps (100; 0: never)\n"
    "  --summary-steps N   write the graph's summaries for TensorBoard every N steps (100; 0: never)\n"
    "  --losses FILE       write a line \"STEP LOSS\" for each step, the loss as a hexadecimal float; not on workers\n"
    "  --target TARGET     server that runs the graph, grpc://host:port (in this process)\n"
    "  --cluster JOBS      the servers of a cluster: \"ps=host:port;chief=host:port;worker=host:port,host:port\"\n"
    "  --task JOB:N        the role of this process in the cluster. ps serves until it is killed. chief (worker:0 in a\n"
    "                      cluster without chief) initializes, saves and writes the charts. The others wait until it has\n"
    "                      initialized, then train concurrently\n"
    "  --help              this text\n"
    "\n"
    "SIGTERM and Ctrl-C save and stop (exit status 75: start it again); SIGUSR1 saves immediately.\n";

/* Options with an integer value. */
static const struct {
    const char *name;
    size_t at;
    int64_t least, most;
} numbers[] = {
    {"batch-size", offsetof(struct options, batch_size), 1, MAX_BATCH},
    {"seed", offsetof(struct options, seed), 0, INT64_MAX},
    {"threads", offsetof(struct options, threads), 1, MAX_THREADS},
    {"max-steps", offsetof(struct options, max_steps), 1, INT64_MAX},
    {"save-steps", offsetof(struct options, save_steps), 0, INT64_MAX},
    {"log-steps", offsetof(struct options, log_steps), 0, INT64_MAX},
    {"summary-steps", offsetof(struct options, summary_steps), 0, INT64_MAX},
};

/* Options with a text value, which must not be empty. */
static const struct {
    const char *name;
    size_t at;
} texts[] = {
    {"meta-graph", offsetof(struct options, meta_graph)}, {"train-op", offsetof(struct options, train_op)},
    {"model-dir", offsetof(struct options, model_dir)},   {"data", offsetof(struct options, data)},
    {"losses", offsetof(struct options, losses)},         {"target", offsetof(struct options, target)},
    {"cluster", offsetof(struct options, cluster)},
};

enum {
    N_NUMBERS = sizeof numbers / sizeof *numbers,
    N_TEXTS = sizeof texts / sizeof *texts,
    FIRST_TEXT = N_NUMBERS,
    LOSS = FIRST_TEXT + N_TEXTS,
    FEED,
    TASK,
    HELP,
    N_OPTIONS
};

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

/* Parses "NAME=images" or "NAME=labels". Replaces the = in `text` by a NUL: the name stays in `text`. */
static bool parse_feed(struct options *options, char *text)
{
    char *equals = strrchr(text, '=');
    if (!equals || equals == text || options->n_feeds == MAX_FEEDS)
        return false;
    bool images = strcmp(equals + 1, "images") == 0;
    if (!images && strcmp(equals + 1, "labels") != 0)
        return false;
    *equals = '\0';
    options->feeds[options->n_feeds++] = (struct feed_spec){text, images ? FEED_IMAGES : FEED_LABELS};
    return true;
}

/* Parses "JOB:N", for example "worker:1". */
static bool parse_task(struct options *options, const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || colon - text >= MAX_JOB || !parse_number(colon + 1, 0, INT32_MAX, &options->task))
        return false;
    snprintf(options->job, sizeof options->job, "%.*s", (int)(colon - text), text);
    return true;
}

/* Stores the value of an option. Returns false if it is invalid. */
static bool set_option(struct options *options, int option, char *text)
{
    if (option < N_NUMBERS) {
        int64_t value;
        if (!parse_number(text, numbers[option].least, numbers[option].most, &value))
            return false;
        memcpy((char *)options + numbers[option].at, &value, sizeof value);
        return true;
    }
    if (option < LOSS) {
        const char *value = text;
        memcpy((char *)options + texts[option - FIRST_TEXT].at, &value, sizeof value);
        return *text;
    }
    if (option == LOSS) {
        options->loss = *text ? text : NULL;
        return true;
    }
    return option == FEED ? parse_feed(options, text) : parse_task(options, text);
}

static void list_options(struct option all[N_OPTIONS + 1])
{
    static const char *const others[] = {"loss", "feed", "task"};
    for (int i = 0; i < N_NUMBERS; i++)
        all[i] = (struct option){numbers[i].name, required_argument, NULL, i};
    for (int i = 0; i < N_TEXTS; i++)
        all[FIRST_TEXT + i] = (struct option){texts[i].name, required_argument, NULL, FIRST_TEXT + i};
    for (int i = LOSS; i < HELP; i++)
        all[i] = (struct option){others[i - LOSS], required_argument, NULL, i};
    all[HELP] = (struct option){"help", no_argument, NULL, HELP};
    all[N_OPTIONS] = (struct option){NULL, 0, NULL, 0};
}

/* Prints `wrong`, unless NULL, and a hint. Returns the exit status. */
static int usage(const char *program, const char *wrong)
{
    if (wrong)
        fprintf(stderr, "%s: %s\n", program, wrong);
    fprintf(stderr, "Try '%s --help'.\n", program);
    return USAGE;
}

int options_parse(struct options *options, int argc, char **argv)
{
    struct option all[N_OPTIONS + 1];
    int option;
    list_options(all);
    *options = (struct options){.train_op = "train_op",
                                .loss = "loss",
                                .model_dir = "run",
                                .data = "/usr/share/datasets/fashion-mnist",
                                .batch_size = 128,
                                .seed = 1,
                                .save_steps = STEPS,
                                .log_steps = STEPS,
                                .summary_steps = STEPS};
    while ((option = getopt_long(argc, argv, "", all, NULL)) != -1) {
        if (option == '?')
            return usage(argv[0], NULL); /* getopt_long has printed the message */
        if (option == HELP)
            return fputs(help, stdout) < 0 || fflush(stdout);
        if (!set_option(options, option, optarg)) {
            fprintf(stderr, "%s: --%s '%s': invalid value\n", argv[0], all[option].name, optarg);
            return usage(argv[0], NULL);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "%s: '%s': not an option\n", argv[0], argv[optind]);
        return usage(argv[0], NULL);
    }
    if (!options->meta_graph)
        return usage(argv[0], "--meta-graph is missing: it names the graph to train");
    if (options->cluster && !*options->job)
        return usage(argv[0], "--cluster needs --task: it names the role of this process");
    if (options->cluster && options->target)
        return usage(argv[0], "--cluster starts a server in this process, --target uses another server: give one of them");
    if (*options->job && !options->cluster && !options->target)
        return usage(argv[0], "--task needs a cluster: list its servers with --cluster, or name its server with --target");
    if (strcmp(options->job, "ps") == 0 && !options->cluster)
        return usage(argv[0], "--task ps serves the other tasks: list them with --cluster");
    if (options->losses && !options->loss)
        return usage(argv[0], "--losses needs a --loss");
    return OPTIONS_OK;
}
