/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_task CLUSTER JOB TASK GRAPH DIRECTORY STEPS: a task of a cluster, controlled by its standard input. "ps" serves
 * until the end of the input, or until SIGTERM. "worker" makes a step for each byte of input, and all remaining steps after
 * its end; the chief (task 0) also saves checkpoints. Each event is a line on standard output: "up", "waits", "open STEP",
 * "lost", "step STEP", "end REASON STEP". Exit status 3: the server did not start, as the port is in use. */
#include "tensorflow/graphs.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { PORT_IS_TAKEN = 3, LONGEST_SECS = 240 };

static hs_tensorflow_server *server;

static void say(const char *what, int64_t step)
{
    printf("%s %lld\n", what, (long long)step);
    fflush(stdout);
}

static void print_events(void *user, hs_log_level level, const char *text)
{
    (void)user;
    test_check_line(text);
    if (level >= HS_LOG_WARNING && strstr(text, "session lost"))
        say("lost", 0);
    if (level >= HS_LOG_WARNING && strstr(text, "session not opened; retrying"))
        say("waits", 0);
    if (level >= HS_LOG_WARNING)
        fprintf(stderr, "%d: %s\n", (int)getpid(), text);
}

static void stop_serving(int signal)
{
    (void)signal;
    hs_tensorflow_server_stop(server);
}

static void *await_end_of_input(void *unused)
{
    char byte;
    (void)unused;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    hs_tensorflow_server_stop(server);
    return NULL;
}

static int serve(void)
{
    hs_error err = {0};
    pthread_t thread;
    signal(SIGTERM, stop_serving);
    if (pthread_create(&thread, NULL, await_end_of_input, NULL) != 0)
        return 1;
    pthread_detach(thread);
    hs_code code = hs_tensorflow_server_join(server, &err);
    say("end", (int64_t)code);
    return 0;
}

static void train(hs_session *session, hs_error *err)
{
    char byte;
    bool waits = true;
    while (!hs_session_should_stop(session)) {
        batch b;
        waits = waits && read(STDIN_FILENO, &byte, 1) > 0;
        fill_batch(&b, hs_session_global_step(session, NULL));
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("loss", "train_op"), .feeds = b.feeds);
        if (hs_session_run_args(session, &args, NULL, err) != HS_OK)
            return;
        say("step", hs_session_global_step(session, NULL));
    }
}

static int work(char **arguments, bool is_worker)
{
    hs_error err = {0};
    const hs_env env = HS_INIT(hs_env, .logger = {print_events, NULL});
    const hs_recovery recovery = HS_INIT(hs_recovery, .max_attempts = 100, .backoff_secs = 0.1);
    hs_backend tf = hs_tensorflow_open(arguments[4], HS_TENSORFLOW_OPTIONS(.env = &env, .server = server), &err);
    hs_hook stop = hs_stop_at_step(.last_step = strtoll(arguments[6], NULL, 10));
    hs_session *session = hs_training_session_open(
        tf,
        HS_TRAINING_OPTIONS(.hooks = HS_HOOKS(stop), .checkpoint_dir = arguments[5], .save_checkpoint_steps = 5,
                            .is_worker = is_worker, .recovery = &recovery, .max_wait_secs = LONGEST_SECS,
                            .recovery_wait_secs = 0.1),
        &err);
    if (session) {
        say("open", hs_session_global_step(session, NULL));
        train(session, &err);
    }
    hs_outcome outcome = hs_session_close(session, &err);
    hs_tensorflow_free(tf);
    if (err.code)
        fprintf(stderr, "%d: %s: %s\n", (int)getpid(), hs_code_name(err.code), err.message);
    printf("end %s %lld\n", hs_reason_name(outcome.reason), (long long)outcome.step);
    fflush(stdout);
    return hs_outcome_exit_code(&outcome);
}

int main(int n, char **arguments)
{
    hs_error err = {0};
    if (n != 7)
        return 2;
    alarm(LONGEST_SECS);
    bool serves = strcmp(arguments[2], "ps") == 0;
    int64_t task = strtoll(arguments[3], NULL, 10);
    server = hs_tensorflow_server_start(
        HS_TENSORFLOW_SERVER_OPTIONS(.cluster = arguments[1], .job = arguments[2], .task = task), &err);
    if (!server) {
        fprintf(stderr, "%d: %s: %s\n", (int)getpid(), hs_code_name(err.code), err.message);
        return PORT_IS_TAKEN;
    }
    say("up", task);
    if (serves)
        return serve(); /* does not free the server: await_end_of_input may still use it */
    int status = work(arguments, task > 0);
    hs_tensorflow_server_free(server);
    return status;
}
