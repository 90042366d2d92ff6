/* SPDX-License-Identifier: Apache-2.0 */
/* Programs for test_mpi.py, each run by mpirun:
 *
 *   mpi_ranks calls                          the functions of the group, with all sizes and roots
 *   mpi_ranks absent                         rank 1 does not join a call
 *   mpi_ranks mixed CALL                     all ranks but 0 broadcast, and rank 0 makes another call
 *   mpi_ranks refuse                         rank 1 fails before the first call
 *   mpi_ranks train DIRECTORY STEPS LIMIT [EVENT RANK STEP]
 *
 * `train` learns as the ranks of ranks.h do. LIMIT is that of calls, heartbeats and stuck processes, in seconds. At STEP,
 * EVENT happens on RANK, which creates the file DIRECTORY.event-RANK. Rank 0 prints "STEP LOSS" lines. Each rank writes to
 * DIRECTORY.rank-R how it ended. */
#include <hooksess/hooksess.h>
#include <hooksess/mpi.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The engine alone. */

enum { CHUNK = 1 << 20 };
static const size_t sizes[] = {0, 1, 7, 1000, CHUNK - 9, CHUNK - 8, CHUNK - 7, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void check(bool good, const char *what, const hs_error *err)
{
    if (good)
        return;
    fprintf(stderr, "mpi_ranks: %s: %s\n", what, err->message);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A successful call clears the error. */
#define CLEARS(call)                                                                                                       \
    do {                                                                                                                   \
        hs_error_set(&err, HS_INTERNAL, "stale");                                                                          \
        call;                                                                                                              \
        check(!err.code && !err.message[0], #call, &err);                                                                  \
    } while (0)

static unsigned char byte_of(size_t i, int32_t rank, size_t size)
{
    return (unsigned char)(i * 7 + i / 251 + (size_t)rank * 31 + size);
}

typedef struct {
    int32_t next;
    size_t size; /* of rank 0; that of rank r is r larger */
    bool good;
} parts;

static void receive_part(void *user, int32_t rank, hs_bytes bytes)
{
    parts *p = user;
    const unsigned char *data = bytes.data;
    p->good &= rank == p->next++ && bytes.size == p->size + (size_t)rank;
    for (size_t i = 0; p->good && i < bytes.size; i++)
        p->good = data[i] == byte_of(i, rank, bytes.size);
}

static void call_all(const hs_group *group)
{
    const hs_group_ops *ops = group->ops;
    int32_t rank = ops->rank(group->self), n = ops->rank_count(group->self);
    unsigned char *data = malloc(sizes[N_SIZES - 1] + (size_t)n);
    hs_error err = {0};
    check(data != NULL, "malloc", &err);
    const hs_env no_size = {0}, no_free = HS_INIT(hs_env, .allocator = {.alloc = hs_env_default()->allocator.alloc}),
                 logs = HS_INIT(hs_env, .logger = hs_env_default()->logger);
    const hs_mpi_options invalid[] = {HS_INIT(hs_mpi_options, .detector_secs = HS_NEVER, .env = &no_size),
                                      HS_INIT(hs_mpi_options, .detector_secs = HS_NEVER, .env = &no_free),
                                      HS_INIT(hs_mpi_options, .collective_secs = -3),
                                      HS_INIT(hs_mpi_options, .detector_secs = -2),
                                      HS_INIT(hs_mpi_options, .detector_secs = HS_NEVER, .failure_grace_secs = -2)};
    hs_mpi_group_free(NULL);
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        check(!hs_mpi_group_new(MPI_COMM_WORLD, &invalid[i], &err) && err.code == HS_INVALID_ARGUMENT, "an option", &err);
    hs_mpi_group *other = hs_mpi_group_new(MPI_COMM_WORLD, HS_MPI_OPTIONS(.detector_secs = HS_NEVER, .env = &logs), &err);
    check(other != NULL, "an env without memory", &err);
    hs_mpi_group_free(other);
    check(!hs_mpi_group_new(MPI_COMM_NULL, NULL, &err) && err.code == HS_INVALID_ARGUMENT, "no communicator", &err);
    check(hs_mpi_group_get(NULL)->ops == NULL, "no group", &err);
    hs_error_clear(&err);
    for (size_t words = 0; words <= 8; words++) {
        uint64_t word[8];
        for (size_t i = 0; i < 8; i++)
            word[i] = (uint64_t)1 << (rank + (int)(8 * (i % 7)));
        check(!ops->allreduce_or(group->self, words ? word : NULL, words, &err), "allreduce_or", &err);
        for (size_t i = 0; i < 8; i++)
            check(word[i] == (i < words ? (((uint64_t)1 << n) - 1) : (uint64_t)1 << rank) << (8 * (i % 7)), "OR", &err);
    }
    for (int32_t root = 0; root < n; root++)
        for (int k = 0; k < N_SIZES; k++) {
            for (size_t i = 0; i < sizes[k]; i++)
                data[i] = byte_of(i, rank, sizes[k]);
            check(!ops->broadcast(group->self, data, sizes[k], root, &err), "broadcast", &err);
            for (size_t i = 0; i < sizes[k]; i++)
                check(data[i] == byte_of(i, root, sizes[k]), "bytes of a broadcast", &err);
            parts p = {0, sizes[k], true};
            size_t mine = sizes[k] + (size_t)rank;
            for (size_t i = 0; i < mine; i++)
                data[i] = byte_of(i, rank, mine);
            check(!ops->gather(group->self, (hs_bytes){data, mine}, root, rank == root ? receive_part : NULL, &p, &err),
                  "gather", &err);
            check(p.good && p.next == (rank == root ? n : 0), "parts of a gather", &err);
        }
    free(data);
}

/* Each rank forks a child that ends as a program does. The group can still be called. */
static void fork_children(hs_mpi_group *group)
{
    const hs_outcome outcome = {.reason = HS_REASON_CLOSED};
    const hs_error err = {0};
    int status;
    pid_t child = fork();
    if (!child) {
        alarm(50);
        hs_mpi_group_free(group);
        _exit(hs_mpi_group_finalize(group, &outcome));
    }
    check(waitpid(child, &status, 0) == child && status == 0, "a forked child", &err);
    call_all(hs_mpi_group_get(group));
}

static void call_without_rank_1(const hs_group *group)
{
    const hs_group_ops *ops = group->ops;
    hs_error err = {0};
    uint64_t word = 1;
    if (ops->rank(group->self) != 1)
        for (int call = 0; call < 2; call++)
            check(ops->allreduce_or(group->self, &word, 1, &err) == HS_UNAVAILABLE, "a call without rank 1", &err);
    MPI_Barrier(MPI_COMM_WORLD);
    if (ops->rank(group->self) == 0)
        puts("the limit ended the calls");
}

static void ignore_part(void *user, int32_t rank, hs_bytes bytes)
{
    (void)user, (void)rank, (void)bytes;
}

/* Rank 1 receives a message of rank 0 that is shorter or longer than its call needs. */
static void mix_calls(const hs_group *group, const char *call)
{
    const hs_group_ops *ops = group->ops;
    const bool is_long = strcmp(call, "long") == 0;
    unsigned char bytes[64] = {0};
    uint64_t words[8] = {0};
    hs_error err = {0};
    hs_code code;
    if (ops->rank(group->self) != 0)
        code = ops->broadcast(group->self, bytes, is_long ? 7 : 64, 0, &err);
    else if (strcmp(call, "gather") == 0)
        code = ops->gather(group->self, (hs_bytes){bytes, 1}, 1, ignore_part, NULL, &err);
    else
        code = ops->allreduce_or(group->self, words, 4, &err);
    if (ops->rank(group->self) == 1)
        check(code == HS_INTERNAL && strstr(err.message, "rank 0 has made another call"), "mixed calls", &err);
    MPI_Barrier(MPI_COMM_WORLD);
    if (ops->rank(group->self) == 0)
        puts("the ranks made different calls");
}

/* Returns the outcome of rank 1. The others learn its error. */
static hs_outcome refuse_rank_1(const hs_group *group)
{
    const hs_group_ops *ops = group->ops;
    hs_error err = {0};
    uint64_t word = 1;
    if (ops->rank(group->self) == 1)
        hs_error_set(&err, HS_NOT_FOUND, "the data is missing");
    else
        check(ops->allreduce_or(group->self, &word, 1, &err) == HS_UNAVAILABLE &&
                  strstr(err.message, "the data is missing"),
              "a call without rank 1", &err);
    if (ops->rank(group->self) == 0)
        puts("the error of rank 1 ended the calls");
    return hs_outcome_from_error(&err);
}

/* Training. */

enum { PARAMETERS = 3 };

typedef struct {
    double parameters[PARAMETERS], sums[PARAMETERS + 1], loss; /* the last sum is the loss */
    int64_t position, step;
    int32_t rank, ranks;
    hs_session *session;
    const char *directory, *event;
    int32_t event_rank;
    int64_t event_step;
    bool was_lost;
} program;

static void record_event(const program *p)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.event-%d", p->directory, (int)p->rank);
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

static bool happens(const program *p, const char *event)
{
    const bool now = strcmp(p->event, event) == 0 && p->rank == p->event_rank && p->step == p->event_step;
    if (now)
        record_event(p);
    return now;
}

static void fill_disk(const char *directory)
{
    char path[4096], zeros[4096] = {0};
    snprintf(path, sizeof path, "%s/filler", directory);
    FILE *file = fopen(path, "w");
    while (file && fwrite(zeros, 1, sizeof zeros, file) == sizeof zeros && fflush(file) == 0)
        continue;
    if (file)
        fclose(file);
}

/* What happens in a step before the gate. */
static hs_code before_gate(program *p, hs_error *err)
{
    if (happens(p, "kill"))
        raise(SIGKILL);
    if (happens(p, "freeze"))
        raise(SIGSTOP);
    while (happens(p, "stall"))
        pause();
    if (happens(p, "stop"))
        raise(SIGTERM);
    if (happens(p, "end"))
        hs_session_end_input(p->session);
    if (happens(p, "fail"))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the op has failed");
    if (happens(p, "full"))
        fill_disk(p->directory);
    if (happens(p, "lost") && !p->was_lost) {
        p->was_lost = true;
        return hs_error_set(err, HS_UNAVAILABLE, "the device is lost");
    }
    return HS_OK;
}

static hs_code update(program *p, hs_error *err)
{
    if (happens(p, "late"))
        return hs_error_set(err, HS_INTERNAL, "failed behind the gate");
    while (happens(p, "late-stall"))
        pause();
    if (happens(p, "late-kill"))
        raise(SIGKILL);
    if (happens(p, "late-freeze"))
        raise(SIGSTOP);
    MPI_Allreduce(MPI_IN_PLACE, p->sums, PARAMETERS + 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < PARAMETERS; i++)
        p->parameters[i] -= 0.001 * p->sums[i] / p->ranks;
    p->loss = happens(p, "nan") ? (double)NAN : p->sums[PARAMETERS] / p->ranks;
    p->position += p->ranks;
    if (p->rank == 0)
        printf("%lld %a\n", (long long)p->step + 1, p->loss);
    return HS_OK;
}

static hs_code train(void *user, hs_op *op, hs_error *err)
{
    program *p = user;
    hs_code code = before_gate(p, err);
    if (code)
        return code;
    double x = (double)((p->position + p->rank) % 7) - 3, error = -2 * x - 1;
    for (int i = 0; i < PARAMETERS; i++)
        error += p->parameters[i] * pow(x, i);
    for (int i = 0; i < PARAMETERS; i++)
        p->sums[i] = error * pow(x, i);
    p->sums[PARAMETERS] = error * error;
    return (code = hs_op_pass_gate(op, err)) ? code : update(p, err);
}

static void write_end(const program *p, const hs_outcome *outcome)
{
    char path[4096], complete[4096]; /* mpirun may kill this process meanwhile */
    snprintf(path, sizeof path, "%s.incomplete-%d", p->directory, (int)p->rank);
    snprintf(complete, sizeof complete, "%s.rank-%d", p->directory, (int)p->rank);
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "%d %s %lld %lld %d %d %lld %a %a %a %s\n", hs_outcome_exit_code(outcome),
            hs_code_name(outcome->error.code), (long long)outcome->step, (long long)outcome->last_saved_step,
            (int)outcome->cause_rank, (int)outcome->signal, (long long)p->position, p->parameters[0], p->parameters[1],
            p->parameters[2], outcome->error.message);
    if (fclose(file) == 0)
        rename(path, complete);
}

static hs_outcome run(program *p, const hs_group *group, int64_t steps, double limit)
{
    hs_error err = {0};
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "parameters", HS_DOUBLE, HS_SHAPE(PARAMETERS), p->parameters);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &p->loss);
    hs_graph_bytes(g, "position", &p->position, sizeof p->position);
    hs_graph_global_step(g, NULL, &p->step);
    hs_graph_op(g, .name = "train", .run = train, .user = p, .writes = HS_NAMES("parameters", "loss"), .collective = true,
                .advances_step = true);
    const bool chief_stops = strcmp(p->event, "chief-stops") == 0;
    const hs_hook stop = hs_stop_at_step(.last_step = steps), none = {.ops = NULL};
    p->session = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.checkpoint_dir = p->directory, .save_checkpoint_steps = 20, .signals = true, .group = group,
                            .replicas =
                                HS_REPLICA_OPTIONS(.step_secs = strcmp(p->event, "late-stall") ? HS_LEARNED : limit),
                            .hooks = HS_HOOKS(hs_nan_tensor(.tensor = "loss"), chief_stops ? none : stop),
                            .chief_only_hooks = chief_stops ? HS_HOOKS(stop) : NULL),
        NULL);
    while (!hs_session_should_stop(p->session) && !happens(p, "break"))
        if (hs_session_run(p->session, "train", &err))
            break;
    hs_outcome outcome = hs_session_close(p->session, NULL);
    hs_graph_free(g);
    return outcome;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    MPI_Init(&argc, &argv);
    const bool trains = strcmp(argv[1], "train") == 0 && argc >= 5;
    const bool waits = strcmp(argv[1], "absent") == 0 || strcmp(argv[1], "mixed") == 0;
    const double limit = trains ? strtod(argv[4], NULL) : waits ? 3 : 0;
    const hs_mpi_options options =
        HS_INIT(hs_mpi_options, .collective_secs = limit, .detector_secs = limit, .failure_grace_secs = limit);
    hs_error err;
    hs_mpi_group *group;
    CLEARS(group = hs_mpi_group_new(MPI_COMM_WORLD, &options, &err));
    const hs_group *g = hs_mpi_group_get(group);
    program p = {.rank = g->ops->rank(g->self),
                 .ranks = g->ops->rank_count(g->self),
                 .directory = argc > 2 ? argv[2] : "",
                 .event = argc > 5 ? argv[5] : ""};
    hs_outcome outcome = {.reason = HS_REASON_CLOSED};
    p.event_rank = argc > 6 ? atoi(argv[6]) : 0;
    p.event_step = argc > 7 ? atoi(argv[7]) : 0;
    if (trains) {
        outcome = run(&p, g, atoll(argv[3]), limit);
        write_end(&p, &outcome);
    } else if (strcmp(argv[1], "calls") == 0) {
        call_all(g);
        fork_children(group);
    } else if (strcmp(argv[1], "mixed") == 0 && argc >= 3) {
        mix_calls(g, argv[2]);
    } else if (strcmp(argv[1], "refuse") == 0) {
        outcome = refuse_rank_1(g);
    } else {
        call_without_rank_1(g);
    }
    if (strcmp(p.event, "end-freeze") == 0 && p.rank == p.event_rank && !hs_outcome_exit_code(&outcome)) {
        record_event(&p);
        raise(SIGSTOP);
    }
    return hs_mpi_group_finalize(group, &outcome);
}
