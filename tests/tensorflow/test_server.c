/* SPDX-License-Identifier: Apache-2.0 */
/* Servers in this process, sessions on them and on other servers, and targets that do not answer. */
#include "tensorflow/tasks.h"

#include <hooksess/tensorflow_server.h>

#include <math.h>
#include <signal.h>
#include <unistd.h>

static hs_tensorflow_server *start(const char *text, const char *job, int64_t index, hs_error *err)
{
    return hs_tensorflow_server_start(HS_TENSORFLOW_SERVER_OPTIONS(.cluster = text, .job = job, .task = index), err);
}

static void bad_clusters_are_refused(void **state)
{
    static const struct {
        const char *cluster, *job;
        int64_t task;
        const char *says;
    } bad[] = {
        {NULL, NULL, 0, "cluster is missing"},
        {"", NULL, 0, "cluster is missing"},
        {"localhost:1", NULL, 0, "cluster: 'localhost:1' is not a job"},
        {"=localhost:1", NULL, 0, "cluster: '=localhost:1' is not a job"},
        {"1ps=localhost:1", NULL, 0, "cluster: '1ps=localhost:1' is not a job"},
        {"ps=a:1;;worker=b:2", "ps", 0, "cluster: '' is not a job"},
        {"ps=", NULL, 0, "job 'ps', task 0: '' is not an address"},
        {"ps=a:1,", NULL, 0, "job 'ps', task 1: '' is not an address"},
        {"ps=a", NULL, 0, "job 'ps', task 0: 'a' is not an address"},
        {"ps=a:", NULL, 0, "'a:' is not an address"},
        {"ps=:1", NULL, 0, "':1' is not an address"},
        {"ps=a:65536", NULL, 0, "'a:65536' is not an address"},
        {"ps=a:99999999999999999999", NULL, 0, "is not an address"},
        {"ps=a:x", NULL, 0, "'a:x' is not an address"},
        {"ps=a b:1", NULL, 0, "'a b:1' is not an address"},
        {"ps=::1:1", NULL, 0, "'::1:1' is not an address"},
        {"ps=grpc://a:1", NULL, 0, "'grpc://a:1' is not an address"},
        {"ps=a:1;ps=b:1", NULL, 0, "cluster: job 'ps' is given twice"},
        {"ps=a:1;worker=b:1,a:1", "ps", 0, "'a:1' is given twice"},
        {"ps=a:1;worker=b:1", NULL, 0, "job is missing"},
        {"ps=a:1;worker=b:1", "chief", 0, "no job 'chief'"},
        {"ps=a:1;worker=b:1", "worker", 1, "no task 1"},
        {"ps=a:1;worker=b:1", "worker", -1, "no task -1"},
        {"ps=a:0;worker=[::1]:1", "worker", 0, "port 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hs_error err = {0};
        assert_null(start(bad[i].cluster, bad[i].job, bad[i].task, &err));
        assert_says(&err, HS_INVALID_ARGUMENT, bad[i].says);
    }
}

static hs_bytes read_bytes(const char *name, char *room, size_t size)
{
    FILE *file = fopen(graph_path(name), "rb");
    assert_non_null(file);
    size_t bytes = fread(room, 1, size, file);
    fclose(file);
    return (hs_bytes){room, bytes};
}

static void refused(hs_tensorflow_server_options options, hs_code code, const char *text)
{
    hs_error err = {0};
    assert_null(hs_tensorflow_server_start(&options, &err));
    assert_says(&err, code, text);
}

/* TensorFlow would end the process. */
static void bad_definitions_are_refused(void **state)
{
    static const char job[] = "\x0a\x10\x0a\x0e\x0a\x03"
                              "a b"
                              "\x12\x07\x08\x00\x12\x03"
                              "a:1"
                              "\x12\x03"
                              "a b";
    static const char no_name[] = "\x0a\x0d\x0a\x0b\x0a\x00\x12\x07\x08\x00\x12\x03"
                                  "a:1";
#define MINUS_ONE "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    static const char number[] = "\x0a\x17\x0a\x15\x0a\x01\x61\x12\x10\x08" MINUS_ONE "\x12\x03"
                                 "a:1"
                                 "\x12\x01\x61\x18" MINUS_ONE;
#undef MINUS_ONE
    (void)state;
    refused((hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options, .server_def = {job, sizeof job - 1}),
            HS_INVALID_ARGUMENT, "'a b' is not a valid name of a job");
    refused(
        (hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options, .server_def = {no_name, sizeof no_name - 1}),
        HS_INVALID_ARGUMENT, "'' is not a valid name of a job");
    refused((hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options, .server_def = {number, sizeof number - 1}),
            HS_INVALID_ARGUMENT, "server_def: job 'a' has task -1");
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    char room[1024];
    hs_error err = {0};
    const hs_bytes noise = {"\xff\xff\xff", 3};
    assert_null(hs_tensorflow_server_start(NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "NULL");
    refused((hs_tensorflow_server_options){.size = 0}, HS_INVALID_ARGUMENT, "HS_INIT(hs_tensorflow_server_options");
    refused((hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options, .config = {NULL, 2}), HS_INVALID_ARGUMENT,
            "data of server_def or config is NULL");
    refused((hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options, .server_def = {NULL, 2}),
            HS_INVALID_ARGUMENT, "data of server_def or config is NULL");
    refused((hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options, .server_def = noise), HS_INVALID_ARGUMENT,
            "server_def is not a serialized ServerDef");
    refused((hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options, .server_def = noise, .job = "ps"),
            HS_INVALID_ARGUMENT, "hs_tensorflow_server_options: server_def excludes cluster, job, task and config");
    refused((hs_tensorflow_server_options)HS_INIT(
                hs_tensorflow_server_options, .server_def = read_bytes("server_def_of_missing_task", room, sizeof room)),
            HS_INVALID_ARGUMENT, "task 3 of job 'alone'");
    refused((hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options,
                                                  .server_def = read_bytes("server_def_of_nowhere", room, sizeof room)),
            HS_INVALID_ARGUMENT, "'somewhere' is not an address");
    refused(
        (hs_tensorflow_server_options)HS_INIT(hs_tensorflow_server_options, .cluster = "ps=localhost:0", .config = noise),
        HS_INVALID_ARGUMENT, "");
    assert_null(hs_tensorflow_server_target(NULL));
    assert_fails(hs_tensorflow_server_join(NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    hs_error_clear(&err);
    assert_fails(hs_tensorflow_server_join(NULL, &err), HS_FAILED_PRECONDITION, &err, "server is NULL");
    hs_tensorflow_server_stop(NULL);
    hs_tensorflow_server_free(NULL);
}

static hs_code step(hs_session *session, hs_error *err)
{
    batch b;
    fill_batch(&b, 0);
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("loss", "train_op"), .feeds = b.feeds);
    return hs_session_run_args(session, &args, NULL, err);
}

static hs_backend open_on(const char *graph, const hs_tensorflow_server *server, const char *target)
{
    hs_error err = {0};
    hs_backend backend = hs_tensorflow_open(
        graph_path(graph), HS_TENSORFLOW_OPTIONS(.server = server, .target = target, .timeout_secs = 5), &err);
    assert_ok(err.code, &err);
    return backend;
}

static void trains_two_steps(hs_backend backend)
{
    hs_error err = {0};
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    assert_ok(step(session, &err), &err);
    assert_ok(step(session, &err), &err);
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.step, 2);
    hs_tensorflow_free(backend);
}

static void check_server(hs_tensorflow_server *server)
{
    hs_error err = {0};
    const char *target = hs_tensorflow_server_target(server);
    assert_non_null(strstr(target, "grpc://"));
    assert_string_not_equal(strrchr(target, ':'), ":0");
    trains_two_steps(open_on("resource.meta", server, NULL));
    trains_two_steps(open_on("ref.meta", NULL, target));
    trains_two_steps(open_on("resource.meta", server, "local"));
    hs_tensorflow_server_stop(server);
    assert_ok(hs_tensorflow_server_join(server, &err), &err);
    hs_tensorflow_server_free(server);
}

static void a_server_serves_its_own_process(void **state)
{
    (void)state;
    char room[1024];
    hs_error err = {0};
    hs_tensorflow_server *server = start("alone=localhost:0", NULL, 0, &err);
    assert_ok(err.code, &err);
    check_server(server);
    const hs_tensorflow_server_options options =
        HS_INIT(hs_tensorflow_server_options, .server_def = read_bytes("server_def", room, sizeof room));
    assert_clears(&err, server = hs_tensorflow_server_start(&options, &err));
    check_server(server);
}

static void a_taken_port_is_named(void **state)
{
    (void)state;
    hs_error err = {0};
    char text[64];
    hs_tensorflow_server *server = start("alone=127.0.0.1:0", NULL, 0, &err);
    assert_ok(err.code, &err);
    snprintf(text, sizeof text, "alone=%s", strstr(hs_tensorflow_server_target(server), "//") + 2);
    assert_null(start(text, NULL, 0, &err));
    assert_says(&err, HS_UNKNOWN, "check that the port is free");
    assert_contains(err.message, "task 0 of job 'alone'");
    hs_tensorflow_server_free(server);
}

static void a_dead_target_is_unavailable(void **state)
{
    (void)state;
    hs_error err = {0};
    char target[64];
    snprintf(target, sizeof target, "grpc://127.0.0.1:%d", free_port());
    hs_backend backend = open_on("resource.meta", NULL, NULL);
    assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.target = target), &err));
    assert_says(&err, HS_UNAVAILABLE, target);
    assert_contains(err.message, "no answer");
    const hs_recovery twice = HS_INIT(hs_recovery, .max_attempts = 2, .backoff_secs = 0.01);
    const hs_training_options options = HS_INIT(hs_training_options, .target = target, .recovery = &twice);
    assert_null(hs_training_session_open(backend, &options, &err));
    assert_says(&err, HS_UNAVAILABLE, "no progress after 2 recoveries");
    assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.target = "grpc://no-such-host.invalid:1"), &err));
    assert_says(&err, HS_UNAVAILABLE, "host not found");
    const char *const bad[] = {"grpc://", "grpc://localhost", "grpc://localhost:http", "grpc://a/b:1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.target = bad[i]), &err));
        assert_says(&err, HS_INVALID_ARGUMENT, bad[i]);
    }
    hs_tensorflow_free(backend);
}

static void bad_timeouts_and_configurations_are_refused(void **state)
{
    (void)state;
    const double bad[] = {-2, 1e10, (double)NAN};
    hs_error err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hs_tensorflow_free(hs_tensorflow_open(graph_path("ref.meta"), HS_TENSORFLOW_OPTIONS(.timeout_secs = bad[i]), &err));
        assert_says(&err, HS_INVALID_ARGUMENT, "timeout_secs");
    }
    hs_backend backend = open_on("ref.meta", NULL, NULL);
    assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.config = {"\xff\xff", 2}), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "config is not a serialized ConfigProto");
    hs_tensorflow_free(backend);
}

/* Starts a cluster: this process is the chief, a child is the parameter server, and the other worker does not exist. */
static hs_tensorflow_server *start_with_parameters(cluster *c)
{
    hs_error err = {0};
    hs_tensorflow_server *server = NULL;
    *c = (cluster){.graph = "", .directory = make_directory()};
    for (int i = 0; !server && i < 20; i++) {
        snprintf(c->cluster, sizeof c->cluster, "ps=127.0.0.1:%d;worker=127.0.0.1:%d,127.0.0.1:%d", free_port(),
                 free_port(), free_port());
        server = start(c->cluster, "worker", 0, &err);
    }
    assert_ok(err.code, &err);
    task_start(c, PARAMETERS);
    return server;
}

static void needs(hs_backend backend, const char *config, const char *who)
{
    hs_error err = {0};
    hs_session *session = hs_session_open(backend, HS_SESSION_OPTIONS(.config = {config, strlen(config)}), &err);
    if (who)
        assert_says(&err, HS_UNAVAILABLE, who);
    else
        assert_ok(err.code, &err);
    hs_session_close(session, NULL);
}

/* Serialized ConfigProtos with device_filters. */
static void only_tasks_that_match_the_filters_are_needed(void **state)
{
    (void)state;
    cluster c;
    hs_tensorflow_server *server = start_with_parameters(&c);
    hs_backend backend = open_on("cluster_resource.meta", server, NULL);
    needs(backend, "", NULL);
    needs(backend, "\x22\x07/job:ps\x22\x12/job:worker/task:0", NULL);
    needs(backend, "\x22\x07/job:ps\x22\x1c/job:worker/replica:0/task:0", NULL);
    needs(backend, "\x22\x07/job:ps\x22\x0b/job:worker", "/job:worker/task:1");
    needs(backend, "\x22\x07/task:0\x22\x07/task:1", "/job:worker/task:1");
    hs_tensorflow_free(backend);
    hs_tensorflow_server_free(server);
    cluster_end(&c);
}

/* Without a parameter server, the variables may be on any worker. */
static void without_parameter_servers_all_are_needed(void **state)
{
    (void)state;
    hs_error err = {0};
    char text[128];
    hs_tensorflow_server *server = NULL;
    for (int i = 0; !server && i < 20; i++) {
        snprintf(text, sizeof text, "worker=127.0.0.1:%d,127.0.0.1:%d", free_port(), free_port());
        server = start(text, NULL, 0, &err);
    }
    assert_ok(err.code, &err);
    hs_backend backend = open_on("resource.meta", server, NULL);
    needs(backend, "", "/job:worker/task:1");
    hs_tensorflow_free(backend);
    hs_tensorflow_server_free(server);
}

/* It accepts connections, but sends nothing. Neither opening nor closing waits for it. */
static void a_parameter_server_that_is_silent_is_not_waited_for(void **state)
{
    (void)state;
    cluster c;
    hs_error err = {0};
    void *session, *none;
    hs_tensorflow_server *server = start_with_parameters(&c);
    hs_backend backend = open_on("cluster_resource.meta", server, NULL);
    assert_ok(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
    task_silence(&c, PARAMETERS);
    assert_fails(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &none, &err), HS_UNAVAILABLE, &err,
                 "/job:ps/task:0");
    assert_contains(err.message, "no answer");
    assert_ok(backend.ops->close(session, &err), &err);
    kill(c.tasks[PARAMETERS].pid, SIGCONT);
    needs(backend, "", NULL);
    hs_tensorflow_free(backend);
    hs_tensorflow_server_free(server);
    cluster_end(&c);
}

/* The target answers, but itself waits for a worker that does not exist. */
static void a_cluster_that_makes_no_session_is_not_waited_for(void **state)
{
    (void)state;
    cluster c;
    hs_error err = {0};
    char target[64];
    hs_tensorflow_server *server = start_with_parameters(&c);
    snprintf(target, sizeof target, "grpc://%.*s", (int)strcspn(c.cluster + 3, ";"), c.cluster + 3);
    hs_backend backend = open_on("resource.meta", NULL, target);
    assert_null(hs_session_open(backend, NULL, &err));
    assert_says(&err, HS_UNAVAILABLE, "the cluster did not open a session within 5 s");
    hs_tensorflow_free(backend);
    hs_tensorflow_server_free(server);
    cluster_end(&c);
}

/* With a timeout. Closing does not read the step, as that would wait forever. */
static void a_run_that_waits_for_a_silent_task_ends(void **state)
{
    (void)state;
    cluster c;
    hs_error err = {0};
    hs_tensorflow_server *server = start_with_parameters(&c);
    hs_backend backend = open_on("cluster_resource.meta", server, NULL);
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    assert_ok(step(session, &err), &err);
    task_silence(&c, PARAMETERS);
    assert_fails(step(session, &err), HS_UNAVAILABLE, &err, "the run timed out: cluster: /job:ps/task:0");
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.error.code, HS_UNAVAILABLE);
    kill(c.tasks[PARAMETERS].pid, SIGCONT);
    hs_tensorflow_free(backend);
    hs_tensorflow_server_free(server);
    cluster_end(&c);
}

/* The session is abandoned: neither closing it nor the end of the process waits for the parameter server. */
static void a_session_without_its_parameter_server_is_closed(void **state)
{
    (void)state;
    cluster c;
    hs_error err = {0};
    hs_tensorflow_server *server = start_with_parameters(&c);
    hs_backend backend = open_on("cluster_resource.meta", server, NULL);
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    assert_ok(step(session, &err), &err);
    task_kill(&c, PARAMETERS);
    assert_fails(step(session, &err), HS_UNAVAILABLE, &err, "");
    hs_session_close(session, &err);
    assert_null(hs_session_open(backend, NULL, &err));
    assert_says(&err, HS_UNAVAILABLE, "/job:ps/task:0");
    hs_tensorflow_free(backend);
    hs_tensorflow_server_free(server);
    cluster_end(&c);
}

/* The target is another process: without a timeout, a run waits until it is back. */
static void a_target_that_dies_ends_the_run(void **state)
{
    (void)state;
    cluster c = {.graph = "", .directory = make_directory()};
    hs_error err = {0};
    char target[64];
    int port = free_port();
    snprintf(c.cluster, sizeof c.cluster, "ps=127.0.0.1:%d", port);
    snprintf(target, sizeof target, "grpc://127.0.0.1:%d", port);
    task_start(&c, PARAMETERS);
    hs_backend backend = open_on("resource.meta", NULL, target);
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    assert_ok(step(session, &err), &err);
    task_kill(&c, PARAMETERS);
    assert_fails(step(session, &err), HS_UNAVAILABLE, &err, "the run timed out: target grpc://");
    hs_session_close(session, &err);
    task_start(&c, PARAMETERS);
    trains_two_steps(backend);
    cluster_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_clusters_are_refused),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(bad_definitions_are_refused),
        cmocka_unit_test(a_server_serves_its_own_process),
        cmocka_unit_test(a_taken_port_is_named),
        cmocka_unit_test(a_dead_target_is_unavailable),
        cmocka_unit_test(bad_timeouts_and_configurations_are_refused),
        cmocka_unit_test(a_target_that_dies_ends_the_run),
        cmocka_unit_test(only_tasks_that_match_the_filters_are_needed),
        cmocka_unit_test(without_parameter_servers_all_are_needed),
        cmocka_unit_test(a_parameter_server_that_is_silent_is_not_waited_for),
        cmocka_unit_test(a_cluster_that_makes_no_session_is_not_waited_for),
        cmocka_unit_test(a_run_that_waits_for_a_silent_task_ends),
        cmocka_unit_test(a_session_without_its_parameter_server_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
