/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the command line. */
#include "options.h"

#include "threads.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Trains a transformer with the architecture of GPT-2 on the bytes of a text. If it is killed, start it again: it resumes\n"
    "from the last checkpoint, and computes the same losses as if it had not been killed.\n"
    "\n"
    "  --text FILE         the text, UTF-8 (required, unless --generate is given)\n"
    "  --generate TEXT     continues TEXT with the newest checkpoint in MODEL-DIR; trains nothing\n"
    "  --model-dir DIR     checkpoints, event files, and at the end model.safetensors (run)\n"
    "  --max-steps N       last step (5000)\n"
    "  --batch-size N      sequences of a batch (8)\n"
    "  --accumulate N      batches per step, whose gradients are averaged (1)\n"
    "  --context N         bytes of a sequence (128). This option and the next three are saved: a resumed run need not\n"
    "                      give them\n"
    "  --layers N          blocks (4)\n"
    "  --heads N           heads of attention in a block (4)\n"
    "  --width N           numbers of an embedding, a multiple of the heads (256)\n"
    "  --dropout X         probability of dropout (0)\n"
    "  --learning-rate X   highest rate (0.001). It rises in the first 100 steps, at most a tenth of all, then falls to a\n"
    "                      tenth as a cosine\n"
    "  --seed N            of the first parameters, the order of the text, dropout and samples (1)\n"
    "  --threads N         the number of processors; 1 with --replicas. Another number rounds sums differently\n"
    "  --save-steps N      steps between checkpoints (500)\n"
    "  --log-steps N       steps between log lines and points of charts (50)\n"
    "  --eval-steps N      steps between validations and samples (250)\n"
    "  --losses FILE       a line \"STEP LOSS\" for each step, the loss as a hexadecimal float\n"
    "  --replicas          'mpirun -n N gpt --replicas' trains one model in N processes; each computes a part of each batch\n"
    "  --help              this text\n"
    "\n"
    "SIGTERM and Ctrl-C save and stop with exit status 75: start the program again to resume. SIGUSR1 saves immediately. If\n"
    "the loss is not finite, the training returns to the last checkpoint and skips the batches since then, at most three\n"
    "times. MODEL-DIR/control takes the lines save, stop and set learning_rate=X.\n";

const char *const size_names[N_SIZES] = {"context", "layers", "heads", "width"};

enum { NUMBER, POSITIVE, TEXT, FLAG };

static const struct {
    const char *name;
    int kind; /* NUMBER: from least to most. POSITIVE: below most */
    size_t at;
    int64_t least, most;
} list[] = {
    {"context", NUMBER, offsetof(struct options, sizes[CONTEXT]), 2, 1 << 14},
    {"layers", NUMBER, offsetof(struct options, sizes[LAYERS]), 1, MAX_LAYERS},
    {"heads", NUMBER, offsetof(struct options, sizes[HEADS]), 1, 1 << 10},
    {"width", NUMBER, offsetof(struct options, sizes[WIDTH]), 1, 1 << 14},
    {"max-steps", NUMBER, offsetof(struct options, max_steps), 1, INT32_MAX},
    {"batch-size", NUMBER, offsetof(struct options, batch_size), 1, 1 << 12},
    {"accumulate", NUMBER, offsetof(struct options, accumulate), 1, 1 << 12},
    {"seed", NUMBER, offsetof(struct options, seed), 0, INT64_MAX},
    {"threads", NUMBER, offsetof(struct options, threads), 1, MAX_THREADS},
    {"save-steps", NUMBER, offsetof(struct options, save_steps), 1, INT32_MAX},
    {"log-steps", NUMBER, offsetof(struct options, log_steps), 1, INT32_MAX},
    {"eval-steps", NUMBER, offsetof(struct options, eval_steps), 1, INT32_MAX},
    {"dropout", POSITIVE, offsetof(struct options, dropout), 0, 1},
    {"learning-rate", POSITIVE, offsetof(struct options, learning_rate), 0, 1000},
    {"text", TEXT, offsetof(struct options, text), 0, 0},
    {"model-dir", TEXT, offsetof(struct options, model_dir), 0, 0},
    {"losses", TEXT, offsetof(struct options, losses), 0, 0},
    {"generate", TEXT, offsetof(struct options, generate), 0, 0},
    {"replicas", FLAG, offsetof(struct options, replicas), 0, 0},
};

enum { N_LIST = sizeof list / sizeof *list, HELP = N_LIST };

/* Stores the value of an option. Returns false if it is invalid. */
static bool set_option(struct options *options, int i, const char *text)
{
    char *end, *to = (char *)options + list[i].at;
    errno = 0;
    if (list[i].kind == NUMBER) {
        int64_t number = strtoll(text, &end, 10);
        memcpy(to, &number, sizeof number);
        return end > text && !*end && !errno && number >= list[i].least && number <= list[i].most;
    }
    if (list[i].kind == POSITIVE) {
        double number = strtod(text, &end);
        memcpy(to, &number, sizeof number);
        return end > text && !*end && number >= 0 && (float)number < (float)list[i].most;
    }
    if (list[i].kind == FLAG)
        return *(bool *)to = true;
    memcpy(to, &text, sizeof text);
    return *text;
}

int options_parse(struct options *options, int argc, char **argv)
{
    struct option all[N_LIST + 2] = {[HELP] = {"help", no_argument, NULL, HELP}};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    *options = (struct options){.model_dir = "run",
                                .max_steps = 5000,
                                .batch_size = 8,
                                .accumulate = 1,
                                .seed = 1,
                                .save_steps = 500,
                                .log_steps = 50,
                                .eval_steps = 250,
                                .learning_rate = 0.001};
    for (int i = 0; i < N_LIST; i++)
        all[i] = (struct option){list[i].name, list[i].kind == FLAG ? no_argument : required_argument, NULL, i};
    int option;
    while ((option = getopt_long(argc, argv, "", all, NULL)) != -1) {
        if (option == HELP)
            return fputs(help, stdout) < 0 || fflush(stdout);
        if (option == '?')
            break; /* getopt_long has reported it */
        if (!set_option(options, option, optarg)) {
            fprintf(stderr, "%s: --%s '%s': invalid value\n", argv[0], list[option].name, optarg);
            break;
        }
    }
    if (!options->threads)
        options->threads = options->replicas || processors < 1 ? 1 : processors < MAX_THREADS ? processors : MAX_THREADS;
    if (option == -1 && optind < argc)
        fprintf(stderr, "%s: '%s': only options are expected\n", argv[0], argv[optind]);
    else if (option == -1 && !options->text && !options->generate)
        fprintf(stderr, "%s: --text is missing\n", argv[0]);
    else if (option == -1)
        return OPTIONS_OK;
    fprintf(stderr, "Try '%s --help'.\n", argv[0]);
    return 2;
}
