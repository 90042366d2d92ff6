/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out whether tasks answer. TensorFlow waits without limit for a task that does not, when a session is created or
 * closed. */
#include "tensorflow/cluster/cluster.h"

#include "base/c_locale.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns 0, ETIMEDOUT or another errno. */
static int await_event(int fd, short event, int64_t deadline_ms)
{
    struct pollfd wanted = {.fd = fd, .events = event};
    for (;;) {
        int64_t remaining = deadline_ms - now_ms();
        int ready = poll(&wanted, 1, remaining > 0 ? (int)remaining : 0);
        if (ready > 0)
            return 0;
        if (ready == 0)
            return ETIMEDOUT;
        if (errno != EINTR)
            return errno;
    }
}

static int await_connection(int fd, int64_t deadline_ms)
{
    int failed = await_event(fd, POLLOUT, deadline_ms), error = 0;
    socklen_t size = sizeof error;
    if (failed)
        return failed;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* Waits for data. The system accepts connections even for a stopped process. A gRPC server sends its settings first. */
static int await_data(int fd, int64_t deadline_ms)
{
    char byte;
    int failed = await_event(fd, POLLIN, deadline_ms);
    if (failed)
        return failed;
    ssize_t n = recv(fd, &byte, 1, 0);
    return n > 0 ? 0 : n == 0 ? ECONNRESET : errno;
}

static int try_address(const struct addrinfo *address, int64_t deadline_ms)
{
    int fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (fd < 0)
        return errno;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    int error = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS || error == EINTR)
        error = await_connection(fd, deadline_ms);
    if (!error)
        error = await_data(fd, deadline_ms);
    close(fd);
    return error;
}

/* Returns a copy of the host without brackets. */
static char *host_of(const hs__tf_cluster *cluster, const hs__tf_task *task, const char *port)
{
    size_t bytes = (size_t)(port - 1 - task->address);
    bool bracketed = task->address[0] == '[';
    return hs__strndup(cluster->env, task->address + bracketed, bytes - (bracketed ? 2 : 0));
}

static hs_code no_answer(const hs__tf_task *task, int error, int not_found, hs_error *err)
{
    hs__c_locale locale = hs__c_locale_begin(); /* for gai_strerror */
    if (not_found)
        hs_error_set(err, HS_UNAVAILABLE, "host not found: %s", gai_strerror(not_found));
    else
        hs_error_set_errno(err, error, "no answer");
    hs__c_locale_end(locale);
    if (err)
        err->code = HS_UNAVAILABLE;
    if (*task->job)
        hs_error_prefix(err, "cluster: /job:%s/task:%d at %s", task->job, (int)task->index, task->address);
    else
        hs_error_prefix(err, "target grpc://%s", task->address);
    return HS_UNAVAILABLE;
}

static hs_code probe_task(const hs__tf_cluster *cluster, const hs__tf_task *task, int64_t deadline_ms, hs_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *port = hs__tf_port_of((hs_string){task->address, strlen(task->address)}, err);
    struct addrinfo *found = NULL;
    if (!port)
        return HS_INVALID_ARGUMENT;
    char *host = host_of(cluster, task, port);
    if (!host)
        return hs__no_memory(err, strlen(task->address), "a name");
    int failed = getaddrinfo(host, port, &hints, &found), error = ETIMEDOUT;
    hs__free(cluster->env, host);
    if (failed)
        return no_answer(task, 0, failed, err);
    for (const struct addrinfo *at = found; at && error; at = at->ai_next)
        error = try_address(at, deadline_ms);
    freeaddrinfo(found);
    return error ? no_answer(task, error, 0, err) : HS_OK;
}

hs_code hs__tf_probe_tasks(const hs__tf_cluster *cluster, hs_error *err)
{
    const int64_t LONGEST_MS = 5000;
    int64_t deadline_ms = now_ms() + LONGEST_MS;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < cluster->n_tasks; i++)
        code = probe_task(cluster, &cluster->tasks[i], deadline_ms, err);
    return code;
}
