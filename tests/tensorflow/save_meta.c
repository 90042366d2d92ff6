/* SPDX-License-Identifier: Apache-2.0 */
/* save_meta GRAPH DIRECTORY STEPS [graph-saves] [graph-restores] [shards] [background]: trains a graph of
 * export_checkpoints.py up to a step, from the newest checkpoint in the directory, with a saver of that kind. Prints
 * nothing on success. */
#include "tensorflow/graphs.h"

static const unsigned char two_cpus[] = "\x0a\x07\x0a\x03"
                                        "CPU\x10\x02"; /* a ConfigProto with device_count {"CPU": 2} */

static void no_log(void *user, hs_log_level level, const char *text)
{
    (void)user;
    test_check_line(text);
    if (level >= HS_LOG_ERROR)
        fprintf(stderr, "%s\n", text);
}

static bool has(char **words, const char *word)
{
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* Adds an op, as a hook may, to a new collection and to an existing one. */
static hs_code add_nodes(hs_backend tf, hs_error *err)
{
    const hs_tensorflow_op_def identity = HS_INIT(hs_tensorflow_op_def, .type = "Identity", .name = "added/scalar",
                                                  .inputs = HS_NAMES("scalar/Read/ReadVariableOp:0"));
    hs_error none = {0};
    if (hs_tensorflow_add_op(tf, &identity, &none) != HS_OK)
        return HS_OK; /* a graph of ref variables */
    hs_code code = tf.ops->add_to_collection(tf.self, "added", "added/scalar", NULL, err);
    return code ? code : tf.ops->add_to_collection(tf.self, "losses", "added/scalar", NULL, err);
}

static hs_session *open_session(hs_backend tf, char **words, hs_scaffold *scaffold, hs_error *err)
{
    hs_hook hooks[] = {hs_stop_at_step(.last_step = strtoll(words[2], NULL, 10)),
                       hs_checkpoint_saver(.checkpoint_dir = words[1], .every_n_steps = 2, .scaffold = scaffold,
                                           .background = has(words, "background")),
                       {.ops = NULL}};
    return hs_training_session_open(tf,
                                    HS_TRAINING_OPTIONS(.hooks = hooks, .checkpoint_dir = words[1], .scaffold = scaffold,
                                                        .save_checkpoint_secs = HS_NEVER, .log_step_count_steps = HS_NEVER),
                                    err);
}

int main(int n, char **words)
{
    if (n < 4)
        return 2;
    hs_error err = {0};
    words++;
    hs_env env = HS_INIT(hs_env, .logger = {no_log, NULL});
    hs_tensorflow_options options =
        HS_INIT(hs_tensorflow_options, .env = &env, .graph_saves = has(words, "graph-saves"),
                .graph_restores = has(words, "graph-restores"), .config = {two_cpus, sizeof two_cpus - 1});
    hs_backend tf = hs_tensorflow_open(words[0], &options, &err);
    hs_saver *saver = NULL;
    if (!err.code && has(words, "shards"))
        saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env, .shards = 3), &err);
    if (!err.code)
        add_nodes(tf, &err);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver), NULL);
    hs_session *session = open_session(tf, words, scaffold, &err);
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train_op", &err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(session, &err);
    if (hs_outcome_exit_code(&outcome))
        fprintf(stderr, "%s\n", outcome.error.message);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
    hs_tensorflow_free(tf);
    return hs_outcome_exit_code(&outcome);
}
