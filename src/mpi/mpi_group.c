/* SPDX-License-Identifier: Apache-2.0 */
/* A group over MPI (mpi.h): its collective calls, made of point-to-point messages.
 *
 * The collective operations of MPI cannot be cancelled. Messages can: a rank that waits for one also queries the failure
 * detector and the clock. An allreduce of a few words takes as long as MPI_Allreduce.
 *
 * Two messages from one rank to another arrive in the order in which they were sent, and all ranks make the same calls in
 * the same order. So the messages of all calls have the same tag. */
#include <mpi.h>

#include <hooksess/group_tcp.h>
#include <hooksess/mpi.h>

#include <math.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 1 << 20, /* of a broadcast or a gather: one message */
    TESTS = 1024,          /* of an incomplete message until the clock and the detector are queried */
    REQUESTS_MAX = 32,     /* messages at a time: to the children of a rank in a binomial tree */
    WORDS_MAX = 8,
    DETECTOR_SECS = 10,
    TAG_CALL = 0,
    TAG_END = 1, /* of the barrier at the end. Another rank may still wait in a call */
};

#define WARN_NS INT64_C(5000000000)

struct hs_mpi_group {
    hs_env env;
    hs_group_ops ops;
    hs_group group;
    MPI_Comm comm;
    pid_t process; /* that made it. A forked child cannot use MPI */
    int rank, rank_count;
    int64_t limit_ns;       /* of one call. 0: no limit */
    int64_t detector_ns;    /* after which a rank without a heartbeat has failed */
    int64_t grace_ns;       /* from a failure until a rank does not wait for the others at the end. 0: it always waits */
    hs_group_tcp *detector; /* NULL: none */
    bool failed;            /* a call has failed. MPI may still use `chunk` and `words` for its messages */
    uint64_t words[2][WORDS_MAX];
    unsigned char *chunk; /* CHUNK_BYTES */
};

/* The messages of which a rank waits at a time, and the call that waits. */
typedef struct {
    hs_mpi_group *group;
    const char *call;
    int tag;
    bool waits_for_begin; /* the rank that is waited for has not begun the call. Else it may itself wait for another one */
    int64_t begin_ns;     /* of the wait. 0: not known yet */
    int64_t warn_ns;      /* of the next line in the log: after 5 s, then each time the wait has doubled */
    int n, peers[REQUESTS_MAX];
    MPI_Request requests[REQUESTS_MAX];
} messages;

/* The functions of the detector. */

static void report_exit(void *self, const hs_error *reason)
{
    const hs_group *tcp = hs_group_tcp_get(((hs_mpi_group *)self)->detector);
    tcp->ops->report_exit(tcp->self, reason);
}

static hs_code query_failed_rank(void *self, int32_t *rank, hs_error *err)
{
    const hs_group *tcp = hs_group_tcp_get(((hs_mpi_group *)self)->detector);
    return tcp->ops->query_failed_rank(tcp->self, rank, err);
}

static void set_abandon(void *self, hs_abandon_fn abandon, void *user)
{
    const hs_group *tcp = hs_group_tcp_get(((hs_mpi_group *)self)->detector);
    tcp->ops->set_abandon(tcp->self, abandon, user);
}

static void report_step(void *self, hs_step_place place, int64_t step, double limit_secs)
{
    const hs_group *tcp = hs_group_tcp_get(((hs_mpi_group *)self)->detector);
    tcp->ops->report_step(tcp->self, place, step, limit_secs);
}

/* Messages. */

static hs_code set_mpi_error(int mpi_code, const char *what, hs_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(mpi_code, text, &length);
    return hs_error_set(err, HS_UNAVAILABLE, "%s: %s", what, text);
}

/* Begins a call. After a failure no call is possible, because messages of the failed one could be taken for those of the
 * next. */
static hs_code begin(messages *m, hs_mpi_group *group, const char *call, hs_error *err)
{
    *m = (messages){.group = group, .call = call};
    hs_code code = group->detector ? hs_group_tcp_begin_call(group->detector, call, err) : HS_OK;
    if (!code && group->failed)
        code = hs_error_set(err, HS_UNAVAILABLE, "%s: an earlier call of the group has failed", call);
    group->failed |= code != HS_OK;
    return code;
}

static hs_code end(const messages *m, hs_code code)
{
    hs_group_tcp_end_call(m->group->detector);
    return code;
}

static hs_code fail(messages *m, hs_code code)
{
    m->group->failed = true;
    for (int i = 0; i < m->n; i++)
        if (m->requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&m->requests[i]);
            MPI_Request_free(&m->requests[i]);
        }
    m->n = 0;
    return code;
}

static hs_code send_bytes(messages *m, const void *data, size_t bytes, int to, hs_error *err)
{
    m->peers[m->n] = to;
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, to, m->tag, m->group->comm, &m->requests[m->n]);
    if (code)
        return fail(m, set_mpi_error(code, "MPI_Isend", err));
    m->n++;
    return HS_OK;
}

static hs_code receive_bytes(messages *m, void *data, size_t bytes, int from, hs_error *err)
{
    m->peers[m->n] = from;
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, from, m->tag, m->group->comm, &m->requests[m->n]);
    if (code)
        return fail(m, set_mpi_error(code, "MPI_Irecv", err));
    m->n++;
    return HS_OK;
}

/* Returns the first rank whose message is incomplete. */
static int missing_rank(const messages *m)
{
    int done = 1, i = 0;
    while (i < m->n && !MPI_Request_get_status(m->requests[i], &done, MPI_STATUS_IGNORE) && done)
        i++;
    return m->peers[i < m->n ? i : 0];
}

/* Queries the detector. In the barrier at the end it would report the exits of other ranks as failures, so it is asked only
 * after the grace time. */
static hs_code check_detector(const messages *m, int64_t waited, hs_error *err)
{
    const hs_mpi_group *group = m->group;
    int32_t rank;
    if (!group->detector)
        return HS_OK;
    if (m->tag == TAG_CALL)
        return hs_group_tcp_check_call(group->detector, m->call, err);
    return group->grace_ns && waited >= group->grace_ns ? query_failed_rank(m->group, &rank, err) : HS_OK;
}

/* Called from time to time while messages are incomplete. Returns HS_OK to continue to wait. */
static hs_code check_wait(messages *m, hs_error *err)
{
    const hs_mpi_group *group = m->group;
    const int64_t now = hs_env_monotonic_ns(&group->env);
    if (!m->begin_ns) {
        m->begin_ns = now;
        m->warn_ns = now + WARN_NS;
    }
    const int64_t waited = now - m->begin_ns;
    hs_code code = check_detector(m, waited, err);
    if (code)
        return code;
    /* a rank that knows which one is missing is the first to give up */
    if (group->limit_ns && waited >= group->limit_ns + (m->waits_for_begin ? 0 : group->detector_ns)) {
        const int rank = missing_rank(m);
        code = hs_error_set(err, HS_UNAVAILABLE, "%s: rank %d has not joined within %g s", m->call, rank,
                            (double)group->limit_ns / 1e9);
        if (!group->detector || m->tag != TAG_CALL)
            return code;
        const hs_error reason = *err;
        return hs_group_tcp_fail_call(group->detector, rank, reason.message, err);
    }
    if (now >= m->warn_ns) {
        hs_log(&group->env, HS_LOG_WARNING, "rank %d waits in %s since %.0f s for rank %d", group->rank, m->call,
               (double)waited / 1e9, missing_rank(m));
        m->warn_ns = now + waited;
    }
    return HS_OK;
}

static hs_code set_mixed_calls(messages *m, int from, hs_error *err)
{
    return fail(m, hs_error_set(err, HS_INTERNAL, "%s: rank %d has made another call; all ranks must make the same calls",
                                m->call, from));
}

/* A message that is longer than expected is an error of MPI. */
static hs_code set_failed_message(messages *m, int mpi_code, const MPI_Status *statuses, hs_error *err)
{
    for (int i = 0; i < m->n && mpi_code == MPI_ERR_IN_STATUS; i++) {
        int error_class, code = statuses[i].MPI_ERROR;
        if (code == MPI_SUCCESS || code == MPI_ERR_PENDING)
            continue;
        MPI_Error_class(code, &error_class);
        if (error_class == MPI_ERR_TRUNCATE)
            return set_mixed_calls(m, m->peers[i], err);
        mpi_code = code;
    }
    return fail(m, set_mpi_error(mpi_code, m->call, err));
}

/* Waits until all messages are complete. first_bytes: NULL, or receives the size of the first message, a received one. */
static hs_code wait_for_all(messages *m, size_t *first_bytes, hs_error *err)
{
    MPI_Status statuses[REQUESTS_MAX];
    for (unsigned tests = 1;; tests++) {
        int done, count, code = MPI_Testall(m->n, m->requests, &done, statuses);
        if (code)
            return set_failed_message(m, code, statuses, err);
        if (!done && tests % TESTS == 0 && check_wait(m, err))
            return fail(m, err->code);
        if (!done)
            continue;
        if (first_bytes) {
            MPI_Get_count(&statuses[0], MPI_BYTE, &count);
            *first_bytes = (size_t)count;
        }
        m->n = 0;
        return HS_OK;
    }
}

/* Waits until all messages are complete, of which the first one is a received one of this size. */
static hs_code wait_for_bytes(messages *m, size_t bytes, hs_error *err)
{
    size_t received;
    const int from = m->peers[0];
    hs_code code = wait_for_all(m, &received, err);
    return code || received == bytes ? code : set_mixed_calls(m, from, err);
}

/* Replaces group->words[0] by the OR over all ranks. Dissemination: in round k each rank sends its words 2^k ranks further.
 * After the last round it has received, directly or through others, the words of all ranks; of some of them twice, which
 * does not change their OR. */
static hs_code exchange_words(messages *m, size_t n, hs_error *err)
{
    hs_mpi_group *group = m->group;
    const size_t bytes = n * sizeof group->words[0][0];
    hs_code code = HS_OK;
    for (int64_t distance = 1; !code && distance < group->rank_count; distance *= 2) {
        int to = (int)((group->rank + distance) % group->rank_count);
        int from = (int)((group->rank + group->rank_count - distance) % group->rank_count);
        m->waits_for_begin = distance == 1;
        if ((code = receive_bytes(m, group->words[1], bytes, from, err)) ||
            (code = send_bytes(m, group->words[0], bytes, to, err)) || (code = wait_for_bytes(m, bytes, err)))
            break;
        for (size_t i = 0; i < n; i++)
            group->words[0][i] |= group->words[1][i];
    }
    return code;
}

static hs_code allreduce_or(void *self, uint64_t *words, size_t n, hs_error *err)
{
    hs_mpi_group *group = self;
    messages m;
    hs_code code = begin(&m, group, "allreduce_or", err);
    if (n)
        memcpy(group->words[0], words, n * sizeof *words);
    if (!code)
        code = exchange_words(&m, n, err);
    if (!code && n)
        memcpy(words, group->words[0], n * sizeof *words);
    return end(&m, code);
}

/* Receives `chunk` from the rank above in a binomial tree, and sends it to the ranks below. `position` of a rank in the
 * tree: 0 is the root; without its lowest bit it is the position above. */
static hs_code pass_chunk(messages *m, size_t bytes, int root, int64_t position, hs_error *err)
{
    const hs_mpi_group *group = m->group;
    int64_t bit = 1;
    hs_code code;
    while (bit < group->rank_count && !(position & bit))
        bit *= 2;
    if (position &&
        ((code = receive_bytes(m, group->chunk, bytes, (int)((position - bit + root) % group->rank_count), err)) ||
         (code = wait_for_bytes(m, bytes, err))))
        return code;
    while ((bit /= 2) > 0)
        if (position + bit < group->rank_count &&
            (code = send_bytes(m, group->chunk, bytes, (int)((position + bit + root) % group->rank_count), err)))
            return code;
    return wait_for_all(m, NULL, err);
}

static hs_code broadcast(void *self, void *data, size_t bytes, int32_t root, hs_error *err)
{
    hs_mpi_group *group = self;
    messages m;
    int64_t position = ((int64_t)group->rank + group->rank_count - root) % group->rank_count;
    hs_code code = begin(&m, group, "broadcast", err);
    for (size_t at = 0, n; !code && at < bytes; at += n) {
        n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        if (position == 0)
            memcpy(group->chunk, (unsigned char *)data + at, n);
        code = pass_chunk(&m, n, root, position, err);
        if (!code && position != 0)
            memcpy((unsigned char *)data + at, group->chunk, n);
    }
    return end(&m, code);
}

/* The parts of a gather: the first message begins with the size of all bytes. */

static hs_code send_part(messages *m, hs_bytes mine, int root, hs_error *err)
{
    unsigned char *chunk = m->group->chunk;
    const uint64_t size = mine.size;
    size_t head = sizeof size, at = 0;
    memcpy(chunk, &size, head);
    do {
        size_t n = mine.size - at < CHUNK_BYTES - head ? mine.size - at : CHUNK_BYTES - head;
        if (n)
            memcpy(chunk + head, (const unsigned char *)mine.data + at, n);
        hs_code code = send_bytes(m, chunk, head + n, root, err);
        if (code || (code = wait_for_all(m, NULL, err)))
            return code;
        at += n;
        head = 0;
    } while (at < mine.size);
    return HS_OK;
}

/* Receives a part. If it is larger than one message, *copy is memory of the caller. */
static hs_code receive_part(messages *m, int from, hs_bytes *part, void **copy, hs_error *err)
{
    unsigned char *chunk = m->group->chunk, *data;
    uint64_t size;
    size_t n, at;
    hs_code code = receive_bytes(m, chunk, CHUNK_BYTES, from, err);
    if (code || (code = wait_for_all(m, &n, err)))
        return code;
    if (n < sizeof size)
        return set_mixed_calls(m, from, err);
    memcpy(&size, chunk, sizeof size);
    at = n - sizeof size;
    *part = (hs_bytes){chunk + sizeof size, at};
    if (at == size)
        return HS_OK;
    if (at > size)
        return set_mixed_calls(m, from, err);
    if (!(data = *copy = hs_env_alloc(&m->group->env, size)))
        return fail(m, hs_error_set(err, HS_RESOURCE_EXHAUSTED, "gather: no memory for %llu bytes of rank %d",
                                    (unsigned long long)size, from));
    *part = (hs_bytes){data, size};
    memcpy(data, chunk + sizeof size, at);
    for (; at < size; at += n) {
        if ((code = receive_bytes(m, chunk, CHUNK_BYTES, from, err)) || (code = wait_for_all(m, &n, err)))
            return code;
        if (n == 0 || n > size - at)
            return set_mixed_calls(m, from, err);
        memcpy(data + at, chunk, n);
    }
    return HS_OK;
}

static hs_code gather(void *self, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user, hs_error *err)
{
    hs_mpi_group *group = self;
    messages m;
    hs_code code = begin(&m, group, "gather", err);
    if (!code && group->rank != root)
        code = send_part(&m, mine, root, err);
    for (int32_t rank = 0; !code && group->rank == root && rank < group->rank_count; rank++) {
        hs_bytes part = mine;
        void *copy = NULL;
        m.waits_for_begin = true;
        if (rank != root)
            code = receive_part(&m, rank, &part, &copy, err);
        if (!code)
            receive(user, rank, part);
        hs_env_free(&group->env, copy);
    }
    return end(&m, code);
}

static int32_t get_rank(void *self)
{
    return ((hs_mpi_group *)self)->rank;
}

static int32_t get_rank_count(void *self)
{
    return ((hs_mpi_group *)self)->rank_count;
}

static const hs_group_ops group_ops = HS_INIT(hs_group_ops, .name = "mpi", .rank = get_rank, .rank_count = get_rank_count,
                                              .allreduce_or = allreduce_or, .broadcast = broadcast, .gather = gather);

/* Makes all ranks return an error if one does. */
static hs_code agree_on_creation(MPI_Comm comm, hs_code code, hs_error *err)
{
    int ok = code == HS_OK, mpi_code = MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_INT, MPI_LAND, comm);
    return code       ? code
           : mpi_code ? set_mpi_error(mpi_code, "MPI_Allreduce", err)
           : ok       ? HS_OK
                      : hs_error_set(err, HS_UNAVAILABLE, "another rank could not create its MPI group");
}

/* Checks a number of seconds. Replaces 0 by the default. */
static hs_code check_secs(const char *name, double *secs, double default_secs, bool never_allowed, hs_error *err)
{
    if (!(*secs >= 0 && *secs <= 1e9) && !(never_allowed && *secs == HS_NEVER))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_mpi_options.%s is %g, but must be 0 to 1e9%s", name, *secs,
                            never_allowed ? " or HS_NEVER" : "");
    if (*secs == 0)
        *secs = default_secs;
    return HS_OK;
}

/* 0: never. */
static int64_t to_ns(double secs)
{
    return secs == HS_NEVER ? 0 : (int64_t)ceil(secs * 1e9);
}

/* Makes a complete copy of an env, with the defaults of libhooksess. */
static hs_code complete_env(const hs_env *given, hs_env *env, hs_error *err)
{
    const hs_env *system = hs_env_default();
    *env = *system;
    hs_code code = given ? HS_STRUCT_TAKE(hs_env, files, env, given, err) : HS_OK;
    if (code)
        return code;
    const int memory = !!env->allocator.alloc + !!env->allocator.realloc + !!env->allocator.free;
    const int clock = !!env->clock.monotonic_ns + !!env->clock.realtime_ns + !!env->clock.sleep_ns;
    if (memory % 3 != 0 || clock % 3 != 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_env.%s: only some of its functions are set; set all or none",
                            memory % 3 ? "allocator" : "clock");
    if (!memory)
        env->allocator = system->allocator;
    if (!clock)
        env->clock = system->clock;
    if (!env->logger.write)
        env->logger = system->logger;
    if (!env->files.ops)
        env->files = system->files;
    env->size = sizeof *env;
    return HS_OK;
}

/* Copies the options and sets their defaults. `complete->env` is then `env`. */
static hs_code complete_options(const hs_mpi_options *options, hs_mpi_options *complete, hs_env *env, hs_error *err)
{
    *complete = (hs_mpi_options)HS_INIT(hs_mpi_options);
    hs_code code = options ? HS_STRUCT_TAKE(hs_mpi_options, env, complete, options, err) : HS_OK;
    if (code || (code = check_secs("collective_secs", &complete->collective_secs, 600, true, err)) ||
        (code = check_secs("detector_secs", &complete->detector_secs, DETECTOR_SECS, true, err)) ||
        (code = check_secs("failure_grace_secs", &complete->failure_grace_secs, 10, true, err)) ||
        (code = complete_env(complete->env, env, err)))
        return code;
    complete->env = env;
    return HS_OK;
}

/* Checks what must be the same on all ranks. */
static hs_code check_state(MPI_Comm comm, hs_error *err)
{
    int initialized = 0, finalized = 0, inter = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "hs_mpi_group_new: MPI is %s",
                            finalized ? "finalized" : "not initialized");
    int code = comm == MPI_COMM_NULL ? MPI_SUCCESS : MPI_Comm_test_inter(comm, &inter);
    if (code)
        return set_mpi_error(code, "MPI_Comm_test_inter", err);
    if (comm == MPI_COMM_NULL || inter)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_mpi_group_new: the communicator is %s",
                            inter ? "an intercommunicator" : "MPI_COMM_NULL");
    return HS_OK;
}

static hs_code exchange(void *user, void *data, size_t bytes, hs_error *err)
{
    return broadcast(user, data, bytes, 0, err);
}

/* Starts the detector, and agrees on the result. */
static hs_code start_detector(hs_mpi_group *group, const hs_mpi_options *options, hs_error *err)
{
    hs_error other;
    hs_group_tcp *detector =
        hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(.rank = group->rank, .rank_count = group->rank_count, .exchange = exchange,
                                              .exchange_user = group, .detector_secs = options->detector_secs,
                                              .failure_grace_secs = options->failure_grace_secs, .env = options->env),
                         err);
    uint64_t failed = !detector;
    hs_code code = allreduce_or(group, &failed, 1, detector ? err : &other);
    if (!detector)
        code = err->code;
    else if (!code && failed)
        code = hs_error_set(err, HS_UNAVAILABLE, "another rank could not start its failure detector");
    if (code) {
        hs_group_tcp_free(detector);
        return code;
    }
    group->detector = detector;
    group->ops.report_exit = report_exit;
    group->ops.query_failed_rank = query_failed_rank;
    group->ops.set_abandon = set_abandon;
    group->ops.report_step = report_step;
    return HS_OK;
}

/* `comm` belongs to the group, which may be NULL. */
static void free_group(hs_mpi_group *group, MPI_Comm comm)
{
    hs_env env = group ? group->env : *hs_env_default();
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    if (group)
        hs_env_free(&env, group->chunk);
    hs_env_free(&env, group);
}

/* Allocates the group and sets its members. NULL: out of memory. */
static hs_mpi_group *allocate(MPI_Comm comm, const hs_mpi_options *options)
{
    const hs_env env = *options->env;
    hs_mpi_group *group = hs_env_alloc(&env, sizeof *group);
    unsigned char *chunk = group ? hs_env_alloc(&env, CHUNK_BYTES) : NULL;
    if (!chunk) {
        hs_env_free(&env, group);
        return NULL;
    }
    *group = (hs_mpi_group){.env = env, .ops = group_ops, .comm = comm, .process = getpid(), .chunk = chunk};
    group->group = (hs_group){&group->ops, group};
    group->limit_ns = to_ns(options->collective_secs);
    group->detector_ns = to_ns(options->detector_secs == HS_NEVER ? DETECTOR_SECS : options->detector_secs);
    group->grace_ns = to_ns(options->failure_grace_secs);
    MPI_Comm_rank(comm, &group->rank);
    MPI_Comm_size(comm, &group->rank_count);
    return group;
}

static hs_mpi_group *create(MPI_Comm comm, const hs_mpi_options *options, hs_error *err)
{
    hs_mpi_options complete;
    hs_env env;
    MPI_Comm own = MPI_COMM_NULL;
    hs_error_clear(err);
    if (check_state(comm, err))
        return NULL;
    int mpi_code = MPI_Comm_dup(comm, &own);
    if (mpi_code) {
        set_mpi_error(mpi_code, "MPI_Comm_dup", err);
        return NULL;
    }
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    hs_mpi_group *group = NULL;
    hs_code code = complete_options(options, &complete, &env, err);
    if (!code && !(group = allocate(own, &complete)))
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "hs_mpi_group_new: no memory for %d bytes", CHUNK_BYTES);
    if ((code = agree_on_creation(own, code, err))) {
        free_group(group, own);
        return NULL;
    }
    if (complete.detector_secs != HS_NEVER && start_detector(group, &complete, err)) {
        hs_mpi_group_free(group);
        return NULL;
    }
    return group;
}

hs_mpi_group *hs_mpi_group_new(MPI_Comm comm, const hs_mpi_options *options, hs_error *err)
{
    hs_error error;
    hs_mpi_group *group = create(comm, options, err ? err : &error);
    if (!group && !err)
        hs_log(hs_env_default(), HS_LOG_ERROR, "%s", error.message);
    return group;
}

const hs_group *hs_mpi_group_get(const hs_mpi_group *group)
{
    static const hs_group unusable = {NULL, NULL};
    return group ? &group->group : &unusable;
}

void hs_mpi_group_free(hs_mpi_group *group)
{
    if (!group || group->process != getpid())
        return;
    hs_group_tcp_free(group->detector);
    /* after a failure MPI may still write to the memory of the group, and the failed rank does not free its communicator */
    if (!group->failed)
        free_group(group, group->comm);
}

int hs_mpi_group_finalize(hs_mpi_group *group, const hs_outcome *outcome)
{
    if (group && group->process != getpid())
        return hs_outcome_exit_code(outcome);
    /* does nothing if a session has reported its end */
    if (group && group->detector && outcome && outcome->reason == HS_REASON_FAILED)
        report_exit(group, &outcome->error);
    bool failed = group && group->failed;
    if (group && !failed) { /* waits until all ranks have called this function */
        hs_error err;
        messages m = {.group = group, .call = "hs_mpi_group_finalize", .tag = TAG_END};
        failed = exchange_words(&m, 0, &err) != HS_OK;
        if (failed)
            hs_log(&group->env, HS_LOG_WARNING, "hs_mpi_group_finalize: MPI_Finalize is not called: %s", err.message);
    }
    hs_mpi_group_free(group);
    if (!failed)
        MPI_Finalize();
    return hs_outcome_exit_code(outcome);
}
