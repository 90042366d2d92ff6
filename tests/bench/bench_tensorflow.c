/* SPDX-License-Identifier: Apache-2.0 */
/* The time that a session adds to a run of TensorFlow. Prints a JSON line per figure:
 *
 *   bare_run_us           TF_SessionRun of what the session below runs: the train op, the loss and the step after it
 *   hooked_run_us         the same step through a monitored session with five hooks, which are idle
 *   hooked_over_bare      their ratio, round by round
 *   bare_op_us            TF_SessionRun of the train op alone
 *   python_...            Python's sessions on the same graph, in the same way
 *
 * All run the ops in the calling thread: with TensorFlow's threads, the time of a small step varies from 9 to 22 us.
 *
 * tensorflow [PYTHON]: a Python with TensorFlow. Default: the environment variable HOOKSESS_PYTHON, or the tests' own. */
#include "bench.h"

#include <hooksess/hooksess.h>
#include <hooksess/tensorflow.h>

#include <tensorflow/c/c_api.h>

#include <unistd.h>

enum { STEPS = 1000, ROUNDS = 61, HOOKS = 5 };

/* A ConfigProto: intra_op_parallelism_threads 1, inter_op_parallelism_threads -1, which is the calling thread. */
static const unsigned char config[] = {0x10, 1, 0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};

static void check(hs_code code, const char *what, const hs_error *err)
{
    if (!code)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, err->message);
    exit(1);
}

/* The bare loop. */

typedef struct {
    TF_Graph *graph;
    TF_Session *session;
    TF_Status *status;
    const TF_Operation *train;
    TF_Output fetches[2];
} bare;

static void check_status(const bare *b, const char *what)
{
    if (TF_GetCode(b->status) == TF_OK)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, TF_Message(b->status));
    exit(1);
}

static TF_Operation *find(const bare *b, const char *name)
{
    TF_Operation *op = TF_GraphOperationByName(b->graph, name);
    if (!op) {
        fprintf(stderr, "bench: '%s' is not in the graph\n", name);
        exit(1);
    }
    return op;
}

static void open_bare(bare *b, hs_bytes graph, const char *init)
{
    b->graph = TF_NewGraph();
    b->status = TF_NewStatus();
    TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
    TF_GraphImportGraphDef(b->graph, &(TF_Buffer){.data = graph.data, .length = graph.size}, options, b->status);
    TF_DeleteImportGraphDefOptions(options);
    check_status(b, "the graph");
    TF_SessionOptions *session = TF_NewSessionOptions();
    TF_SetConfig(session, config, sizeof config, b->status);
    check_status(b, "a configuration");
    b->session = TF_NewSession(b->graph, session, b->status);
    TF_DeleteSessionOptions(session);
    check_status(b, "a session");
    const TF_Operation *op = find(b, init);
    TF_SessionRun(b->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &op, 1, NULL, b->status);
    check_status(b, init);
    b->train = find(b, "train_op");
    b->fetches[0] = (TF_Output){find(b, "loss"), 0};
    b->fetches[1] = (TF_Output){find(b, "step_after"), 0};
}

static double run_bare(const bare *b, int n_fetches)
{
    TF_Tensor *values[2];
    double start = bench_now();
    for (int i = 0; i < STEPS; i++) {
        TF_SessionRun(b->session, NULL, NULL, NULL, 0, b->fetches, values, n_fetches, &b->train, 1, NULL, b->status);
        check_status(b, "train_op");
        for (int k = 0; k < n_fetches; k++)
            TF_DeleteTensor(values[k]);
    }
    return (bench_now() - start) / STEPS * 1e6;
}

static void close_bare(bare *b)
{
    TF_DeleteSession(b->session, b->status);
    TF_DeleteGraph(b->graph);
    TF_DeleteStatus(b->status);
}

/* The hooked step. */

static hs_session *open_hooked(hs_backend backend, const char *directory)
{
    hs_error err = {0};
    hs_hook hooks[] = {
        hs_stop_at_step(.last_step = INT64_MAX),
        hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_secs = 1e6),
        hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = INT64_MAX),
        hs_nan_tensor(.tensor = "loss"),
        hs_summary_saver(.every_n_steps = INT64_MAX / 2, .summary_dir = directory, .summary_ops = HS_NAMES("loss_summary")),
        {.ops = NULL}};
    hs_session *session = hs_session_open(backend, HS_SESSION_OPTIONS(.hooks = hooks), &err);
    check(session ? HS_OK : HS_UNKNOWN, "a session", &err);
    return session;
}

static double run_hooked(hs_session *session)
{
    hs_error err = {0};
    double start = bench_now();
    for (int i = 0; i < STEPS; i++)
        check(hs_session_run(session, "train_op", &err), "train_op", &err);
    return (bench_now() - start) / STEPS * 1e6;
}

/* Both, interleaved. */

static void measure(const char *directory)
{
    char path[512];
    hs_error err = {0};
    bare b = {.status = NULL};
    hs_bytes graph;
    const void *init;
    snprintf(path, sizeof path, "%s/graph.meta", directory);
    hs_backend backend = hs_tensorflow_open(path, HS_TENSORFLOW_OPTIONS(.config = {config, sizeof config}), &err);
    check(err.code, "hs_tensorflow_open", &err);
    check(hs_backend_graph_def(backend, &graph, &err), "the graph", &err);
    if (!hs_backend_collection_item(backend, HS_INIT_OP, 0, &init))
        check(HS_NOT_FOUND, "init_op", &err);
    open_bare(&b, graph, init);
    hs_session *session = open_hooked(backend, directory);
    static double alone[ROUNDS], bares[ROUNDS], hooked[ROUNDS], ratios[ROUNDS];
    run_hooked(session);
    for (int i = 0; i < ROUNDS; i++) {
        alone[i] = run_bare(&b, 0);
        if (i % 2)
            hooked[i] = run_hooked(session);
        bares[i] = run_bare(&b, 2);
        if (i % 2 == 0)
            hooked[i] = run_hooked(session);
        ratios[i] = hooked[i] / bares[i];
    }
    bench_print("bare_op_us", bench_median(alone, ROUNDS), "us");
    bench_print("bare_run_us", bench_median(bares, ROUNDS), "us");
    bench_print("hooked_run_us", bench_median(hooked, ROUNDS), "us");
    bench_print("hooked_over_bare", bench_median(ratios, ROUNDS), "ratio");
    hs_session_close(session, &err);
    hs_tensorflow_free(backend);
    close_bare(&b);
}

static void run_peer(const char *python, const char *what, const char *directory)
{
    char command[2048];
    snprintf(command, sizeof command, "'%s' '%s' %s '%s' 2>/dev/null", python, HOOKSESS_PEER_SCRIPT, what, directory);
    fflush(stdout);
    if (system(command) == 0)
        return;
    fprintf(stderr, "bench: this failed: %s\n", command);
    exit(1);
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/hooksess-bench-XXXXXX", command[128];
    const char *python = argc > 1 ? argv[1] : getenv("HOOKSESS_PYTHON");
    setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
    if (!mkdtemp(directory))
        return 1;
    if (!python)
        python = HOOKSESS_VENV_PYTHON;
    run_peer(python, "export", directory);
    measure(directory);
    run_peer(python, "measure", directory);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0;
}
