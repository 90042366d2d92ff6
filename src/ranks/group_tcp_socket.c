/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with deadlines. */
#include "ranks/group_tcp_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int64_t hs__tcp_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int hs__tcp_poll_ms(int64_t deadline)
{
    if (deadline == INT64_MAX)
        return -1;
    int64_t ms = (deadline - hs__tcp_now() + 999999) / 1000000;
    return ms < 0 ? 0 : ms > 1000000 ? 1000000 : (int)ms;
}

void hs__tcp_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

bool hs__tcp_prepare(int fd)
{
    int on = 1, flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0)
        return true;
    int error = errno;
    close(fd);
    errno = error;
    return false;
}

hs_code hs__tcp_accept(int listener, int *fd, hs_error *err)
{
    *fd = accept(listener, NULL, NULL);
    if (*fd >= 0 && hs__tcp_prepare(*fd))
        return HS_OK;
    *fd = -1;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        return hs_error_set_errno(err, errno, "cannot accept a connection%s",
                                  errno == EMFILE ? ": raise RLIMIT_NOFILE (ulimit -n)" : "");
    return HS_OK; /* no connection waits, or it has ended already */
}

/* Waits for a socket. HS_DEADLINE_EXCEEDED: the deadline has passed. */
static hs_code wait_for(int fd, short events, int64_t deadline, hs_error *err)
{
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = events};
        int n = poll(&poll_fd, 1, hs__tcp_poll_ms(deadline));
        if (n > 0)
            return HS_OK;
        if (n < 0 && errno != EINTR)
            return hs_error_set_errno(err, errno, "poll");
        if (hs__tcp_now() >= deadline)
            return hs_error_set(err, HS_DEADLINE_EXCEEDED, "the other side did not answer");
    }
}

/* Sets HS_UNAVAILABLE: the connection has ended. os_error 0: the other side has closed it. */
static hs_code connection_ended(int os_error, hs_error *err)
{
    if (!os_error)
        return hs_error_set(err, HS_UNAVAILABLE, "the connection has ended");
    hs_error_set_errno(err, os_error, "the connection has ended");
    err->code = HS_UNAVAILABLE;
    return HS_UNAVAILABLE;
}

hs_code hs__tcp_send(int fd, const void *data, size_t bytes, int64_t deadline, hs_error *err)
{
    for (const char *at = data; bytes;) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n >= 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            hs_code code = wait_for(fd, POLLOUT, deadline, err);
            if (code)
                return code;
        } else if (errno != EINTR) {
            return connection_ended(errno, err);
        }
    }
    return HS_OK;
}

hs_code hs__tcp_receive(int fd, void *data, size_t bytes, int64_t deadline, hs_error *err)
{
    for (char *at = data; bytes;) {
        ssize_t n = recv(fd, at, bytes, 0);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            hs_code code = wait_for(fd, POLLIN, deadline, err);
            if (code)
                return code;
        } else if (n == 0 || errno != EINTR) {
            return connection_ended(n ? errno : 0, err);
        }
    }
    return HS_OK;
}

bool hs__tcp_ended(int fd)
{
    char byte;
    ssize_t n;
    do
        n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

void hs__tcp_finish(int fd)
{
    char bytes[4096];
    shutdown(fd, SHUT_WR);
    for (int i = 0; i < 1024 && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0; i++)
        continue;
}
