/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets with deadlines. */
#include "replicas/group_tcp_socket.h"

#include "base/c_locale.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
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

hs_code hs__tcp_split(const char *address, char host[HS__ADDRESS_MAX], char port[8], hs_error *err)
{
    const char *colon = strrchr(address, ':'), *first = address;
    size_t length = colon ? (size_t)(colon - address) : 0;
    if (length >= 2 && address[0] == '[' && colon[-1] == ']') {
        first++;
        length -= 2;
    } else if (memchr(address, ':', length)) {
        length = 0;
    }
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    if (!length || length >= HS__ADDRESS_MAX - 8 || !digits || digits > 5 || colon[1 + digits])
        return hs_error_set(err, HS_INVALID_ARGUMENT, "address '%s' is not of the form host:port", address);
    memcpy(host, first, length);
    host[length] = '\0';
    memcpy(port, colon + 1, digits + 1);
    return HS_OK;
}

void hs__tcp_join(char address[HS__ADDRESS_MAX], const char *host, int port)
{
    const bool colon = strchr(host, ':') != NULL;
    snprintf(address, HS__ADDRESS_MAX, "%s%.200s%s:%d", colon ? "[" : "", host, colon ? "]" : "", port);
}

void hs__tcp_host_name(char *name, size_t size)
{
    if (gethostname(name, size) != 0)
        snprintf(name, size, "unknown");
    name[size - 1] = '\0';
    for (char *at = name; *at; at++)
        if (*at <= ' ' || *at > '~')
            *at = '?';
}

/* Makes a new socket non-blocking and so on. Returns false, and closes it, if that fails. */
static bool prepare(int fd)
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

/* gai_strerror in English. */
static const char *resolver_error(int result)
{
    hs__c_locale locale = hs__c_locale_begin();
    const char *text = gai_strerror(result);
    hs__c_locale_end(locale);
    return text;
}

/* Resolves a name. */
static hs_code resolve(const char *host, const char *port, bool passive, struct addrinfo **list, hs_error *err)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0)};
    int result = getaddrinfo(host, port, &hints, list);
    if (result == 0)
        return HS_OK;
    return hs_error_set(err, HS_UNAVAILABLE, "cannot resolve host '%s': %s", host ? host : "*", resolver_error(result));
}

static int bind_and_listen(const struct addrinfo *address)
{
    int on = 1, off = 0, fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (fd < 0 || !prepare(fd))
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

/* Listens on the first address of this family that can be bound. Sets errno if there is none. */
static int listen_on(const struct addrinfo *list, int family)
{
    for (; list; list = list->ai_next) {
        int fd = list->ai_family == family ? bind_and_listen(list) : -1;
        if (fd >= 0)
            return fd;
    }
    return -1;
}

bool hs__tcp_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static bool has_loopback_address(const struct addrinfo *list)
{
    for (; list; list = list->ai_next) {
        const struct sockaddr_in *v4 = (const void *)list->ai_addr;
        const struct sockaddr_in6 *v6 = (const void *)list->ai_addr;
        if (list->ai_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
                                       : list->ai_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
            return true;
    }
    return false;
}

hs_code hs__tcp_listen(const char *host, const char *wanted_port, int *listener, int *port, hs_error *err)
{
    struct addrinfo *list;
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    hs_code code = resolve(host, wanted_port, true, &list, err);
    *listener = -1;
    if (code)
        return code;
    if (host && !hs__tcp_is_loopback(host) && has_loopback_address(list)) {
        freeaddrinfo(list);
        return hs__tcp_listen(NULL, wanted_port, listener, port, err);
    }
    errno = EADDRNOTAVAIL;
    /* IPv6 first: without a host, it accepts IPv4, too */
    if ((*listener = listen_on(list, AF_INET6)) < 0)
        *listener = listen_on(list, AF_INET);
    int error = errno;
    freeaddrinfo(list);
    if (*listener < 0 && host && error == EADDRNOTAVAIL)
        return hs__tcp_listen(NULL, wanted_port, listener, port, err);
    if (*listener < 0)
        return hs_error_set_errno(err, error, "cannot listen on %s:%s", host ? host : "*", wanted_port);
    if (getsockname(*listener, (struct sockaddr *)&bound, &length) != 0) {
        error = errno;
        hs__tcp_close(listener);
        return hs_error_set_errno(err, error, "getsockname");
    }
    *port = port_of(&bound);
    return HS_OK;
}

hs_code hs__tcp_accept(int listener, int *fd, hs_error *err)
{
    *fd = accept(listener, NULL, NULL);
    if (*fd >= 0 && prepare(*fd))
        return HS_OK;
    *fd = -1;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        return hs_error_set_errno(err, errno, "cannot accept a connection%s",
                                  errno == EMFILE ? ": raise RLIMIT_NOFILE (ulimit -n)" : "");
    return HS_OK; /* none, or one that has ended already */
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

/* True if a socket is connected to itself. On the loopback interface this may happen if no process listens: the system may
 * choose the port that is connected to. */
static bool is_self(int fd)
{
    struct sockaddr_storage own, other;
    socklen_t own_length = sizeof own, other_length = sizeof other;
    return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_length) == 0 && own_length == other_length &&
           memcmp(&own, &other, own_length) == 0;
}

/* Connects to one address. */
static hs_code connect_to(const struct addrinfo *address, int64_t deadline, int *fd, hs_error *err)
{
    int error = 0;
    socklen_t length = sizeof error;
    *fd = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (*fd < 0 || !prepare(*fd)) {
        *fd = -1;
        return hs_error_set_errno(err, errno, "socket");
    }
    hs_code code = HS_OK;
    if (connect(*fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS && errno != EINTR)
        code = hs_error_set_errno(err, errno, "connect");
    else if (!(code = wait_for(*fd, POLLOUT, deadline, err)) &&
             (getsockopt(*fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error))
        code = hs_error_set_errno(err, error ? error : errno, "connect");
    else if (!code && is_self(*fd))
        code = hs_error_set_errno(err, ECONNREFUSED, "connect");
    if (code)
        hs__tcp_close(fd);
    return code;
}

hs_code hs__tcp_connect(const char *address, int64_t deadline, int *fd, hs_error *err)
{
    char host[HS__ADDRESS_MAX], port[8], own_name[HS__ADDRESS_MAX];
    struct addrinfo *list;
    *fd = -1;
    hs_code code = hs__tcp_split(address, host, port, err);
    if (code)
        return code;
    if ((code = resolve(host, port, false, &list, err))) {
        hs__tcp_host_name(own_name, sizeof own_name);
        hs_error unused;
        if (strcmp(host, own_name) != 0 || resolve(NULL, port, false, &list, &unused))
            return code;
    }
    for (const struct addrinfo *at = list; at && *fd < 0; at = at->ai_next)
        code = connect_to(at, deadline, fd, err);
    freeaddrinfo(list);
    if (code)
        hs_error_prefix(err, "%s", address);
    return code;
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

hs_code hs__tcp_own_host(int fd, char host[HS__ADDRESS_MAX], hs_error *err)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &length) != 0)
        return hs_error_set_errno(err, errno, "getsockname");
    int result = getnameinfo((struct sockaddr *)&own, length, host, HS__ADDRESS_MAX - 8, NULL, 0, NI_NUMERICHOST);
    if (result)
        return hs_error_set(err, HS_INTERNAL, "getnameinfo: %s", resolver_error(result));
    static const char mapped[] = "::ffff:"; /* an IPv4 address on a socket for both */
    if (strncmp(host, mapped, sizeof mapped - 1) == 0 && strchr(host, '.'))
        memmove(host, host + sizeof mapped - 1, strlen(host + sizeof mapped - 1) + 1);
    return HS_OK;
}
