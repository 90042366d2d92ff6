/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __linux__
#define _GNU_SOURCE /* getifaddrs, IFF_ flags */
#endif
/* Addresses as texts; sets of addresses, from names or from the interfaces of this machine; and on them the three verbs:
 * listen (hs__tcp_listen, hs__tcp_listen_near), publish (hs__tcp_publish) and connect (hs__tcp_connect). */
#include "ranks/group_tcp_address.h"

#include "base/c_locale.h"
#include "ranks/group_tcp_socket.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SET_MAX = 16, PORT_ATTEMPTS = 16 };

#define STAGGER_NS ((int64_t)250 * 1000000)

typedef struct address_set {
    struct sockaddr_storage items[SET_MAX];
    size_t n;
} address_set;

/* Texts. */

hs_code hs__tcp_split(const char *address, char host[HS__ADDRESS_MAX], int *port, hs_error *err)
{
    const char *colon = strrchr(address, ':'), *first = address;
    size_t length = colon ? (size_t)(colon - address) : 0;
    if (length >= 2 && address[0] == '[' && colon[-1] == ']') {
        first++;
        length -= 2;
    } else if (memchr(address, ':', length)) {
        length = 0;
    }
    const size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    *port = digits && digits <= 5 && !colon[1 + digits] ? (int)strtol(colon + 1, NULL, 10) : HS__PORT_MAX + 1;
    if (!length || length >= HS__ADDRESS_MAX - 8 || *port > HS__PORT_MAX)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "address '%s' is not of the form host:port", address);
    memcpy(host, first, length);
    host[length] = '\0';
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

/* Sets of addresses. */

static socklen_t length_of(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static in_port_t *port_of(struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)address)->sin6_port
                                          : &((struct sockaddr_in *)address)->sin_port;
}

static bool is_same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    return a->sa_family == AF_INET ? ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
                                         ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr
                                   : IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                                                        &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr);
}

/* Adds an address of IPv4 or IPv6, with this port, unless the set contains it. */
static void add(address_set *set, const struct sockaddr *address, int port)
{
    if (set->n == SET_MAX || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
        return;
    struct sockaddr_storage *item = &set->items[set->n];
    memset(item, 0, sizeof *item);
    memcpy(item, address, address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    *port_of(item) = htons((uint16_t)port);
    for (size_t i = 0; i < set->n; i++)
        if (is_same_host((struct sockaddr *)&set->items[i], address) && *port_of(&set->items[i]) == *port_of(item))
            return;
    set->n++;
}

/* Adds the addresses of a name. */
static hs_code resolve(const char *host, int port, address_set *set, hs_error *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    int result = getaddrinfo(host, NULL, &hints, &list);
    if (result) {
        hs__c_locale locale = hs__c_locale_begin(); /* for gai_strerror */
        hs_code code = hs_error_set(err, HS_UNAVAILABLE, "cannot resolve host '%s': %s", host, gai_strerror(result));
        hs__c_locale_end(locale);
        return code;
    }
    for (const struct addrinfo *at = list; at; at = at->ai_next)
        add(set, at->ai_addr, port);
    freeaddrinfo(list);
    return HS_OK;
}

static bool has_loopback(const address_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct sockaddr_in *v4 = (const void *)&set->items[i];
        const struct sockaddr_in6 *v6 = (const void *)&set->items[i];
        if (set->items[i].ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
                                               : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
            return true;
    }
    return false;
}

static bool is_wildcard(const struct sockaddr *address)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;
    return address->sa_family == AF_INET ? v4->sin_addr.s_addr == htonl(INADDR_ANY)
                                         : IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

/* True for an address that other machines can connect to. A link-local address of IPv6 is valid with the name of an
 * interface only, which differs between machines. */
static bool is_reachable(const struct ifaddrs *at)
{
    const struct sockaddr_in6 *v6 = (const void *)at->ifa_addr;
    if (!at->ifa_addr || (at->ifa_flags & (IFF_UP | IFF_RUNNING | IFF_LOOPBACK)) != (IFF_UP | IFF_RUNNING))
        return false;
    return at->ifa_addr->sa_family == AF_INET ||
           (at->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr));
}

/* Adds the addresses of the interface with the address `of`; of all interfaces if it is NULL. Without an interface, nothing
 * is added. */
static hs_code add_interfaces(address_set *set, const struct sockaddr *of, hs_error *err)
{
    struct ifaddrs *list;
    const char *name = NULL;
    if (getifaddrs(&list) != 0)
        return hs_error_set_errno(err, errno, "getifaddrs");
    for (const struct ifaddrs *at = list; of && at && !name; at = at->ifa_next)
        if (at->ifa_addr && is_same_host(at->ifa_addr, of))
            name = at->ifa_name;
    for (const struct ifaddrs *at = list; at && (name || !of); at = at->ifa_next)
        if (is_reachable(at) && (!name || strcmp(at->ifa_name, name) == 0))
            add(set, at->ifa_addr, 0);
    freeifaddrs(list);
    return HS_OK;
}

/* Listening. */

static int bind_and_listen(const struct sockaddr_storage *address)
{
    int on = 1, off = 0, fd = socket(address->ss_family, SOCK_STREAM, 0);
    if (fd < 0 || !hs__tcp_prepare(fd))
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ss_family == AF_INET6) /* all interfaces: IPv4, too */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (const struct sockaddr *)address, length_of(address)) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

void hs__tcp_stop_listening(hs__tcp_listener *listener)
{
    while (listener->n)
        hs__tcp_close(&listener->fds[--listener->n]);
}

/* Listens on all addresses of the set, except addresses of other machines. Returns an errno. */
static int listen_on_port(const address_set *set, hs__tcp_listener *listener)
{
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    int error = EADDRNOTAVAIL;
    for (size_t i = 0; i < set->n && listener->n < HS__LISTEN_MAX; i++) {
        struct sockaddr_storage address = set->items[i];
        if (listener->n)
            *port_of(&address) = htons((uint16_t)listener->port);
        int fd = bind_and_listen(&address);
        if (fd < 0 && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT))
            continue;
        if (fd < 0 || getsockname(fd, (struct sockaddr *)&bound, &length) != 0) {
            error = errno;
            hs__tcp_close(&fd);
            hs__tcp_stop_listening(listener);
            return error;
        }
        listener->port = ntohs(*port_of(&bound));
        listener->fds[listener->n++] = fd;
    }
    return listener->n ? 0 : error;
}

/* The same. If the port may be any, another process may have it on the second address: then tries other ports. */
static int listen_on(const address_set *set, int port, hs__tcp_listener *listener)
{
    int error = listen_on_port(set, listener);
    for (int i = 1; !port && error == EADDRINUSE && i < PORT_ATTEMPTS; i++)
        error = listen_on_port(set, listener);
    return error;
}

/* Listens on all interfaces. */
static int listen_on_all(int port, hs__tcp_listener *listener)
{
    const struct sockaddr_in6 any_v6 = {.sin6_family = AF_INET6};
    const struct sockaddr_in any_v4 = {.sin_family = AF_INET};
    address_set v6 = {.n = 0}, v4 = {.n = 0};
    add(&v6, (const struct sockaddr *)&any_v6, port);
    add(&v4, (const struct sockaddr *)&any_v4, port);
    int error = listen_on_port(&v6, listener);
    return error == EADDRNOTAVAIL ? listen_on_port(&v4, listener) : error;
}

hs_code hs__tcp_listen(const char *host, int port, hs__tcp_listener *listener, hs_error *err)
{
    address_set set = {.n = 0};
    char address[HS__ADDRESS_MAX];
    *listener = (hs__tcp_listener){.n = 0};
    hs_code code = host ? resolve(host, port, &set, err) : HS_OK;
    if (code)
        return code;
    const bool is_loopback_itself =
        host && (strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0);
    int error = !has_loopback(&set) || is_loopback_itself ? listen_on(&set, port, listener) : EADDRNOTAVAIL;
    if (error == EADDRNOTAVAIL) /* also of an empty set */
        error = listen_on_all(port, listener);
    hs__tcp_join(address, host ? host : "*", port);
    return error ? hs_error_set_errno(err, error, "cannot listen on %s", address) : HS_OK;
}

hs_code hs__tcp_listen_near(int connection, hs__tcp_listener *listener, hs_error *err)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    address_set set = {.n = 0};
    *listener = (hs__tcp_listener){.n = 0};
    if (getsockname(connection, (struct sockaddr *)&own, &length) != 0)
        return hs_error_set_errno(err, errno, "getsockname");
    hs_code code = add_interfaces(&set, (struct sockaddr *)&own, err);
    if (code)
        return code;
    /* of the loopback interface nothing is added */
    int error = set.n ? listen_on(&set, 0, listener) : listen_on_all(0, listener);
    return error ? hs_error_set_errno(err, error, "cannot listen for connections of other ranks") : HS_OK;
}

hs_code hs__tcp_publish(const hs__tcp_listener *listener, char addresses[HS__ADDRESSES_MAX], hs_error *err)
{
    address_set set = {.n = 0};
    *addresses = '\0';
    for (size_t i = 0; i < listener->n; i++) {
        struct sockaddr_storage bound;
        socklen_t length = sizeof bound;
        if (getsockname(listener->fds[i], (struct sockaddr *)&bound, &length) != 0)
            return hs_error_set_errno(err, errno, "getsockname");
        hs_code code = HS_OK;
        if (!is_wildcard((struct sockaddr *)&bound))
            add(&set, (struct sockaddr *)&bound, listener->port);
        else
            code = add_interfaces(&set, NULL, err);
        if (code)
            return code;
    }
    for (size_t i = 0; i < set.n; i++) {
        const struct sockaddr_storage *item = &set.items[i];
        char host[NI_MAXHOST], text[HS__ADDRESS_MAX];
        const size_t used = strlen(addresses);
        if (getnameinfo((const struct sockaddr *)item, length_of(item), host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
            continue;
        hs__tcp_join(text, host, listener->port);
        if (used + 1 + strlen(text) < HS__ADDRESSES_MAX)
            snprintf(addresses + used, HS__ADDRESSES_MAX - used, "%s%s", used ? " " : "", text);
    }
    if (!set.n) /* without a network, all ranks are on this machine */
        hs__tcp_join(addresses, "127.0.0.1", listener->port);
    return HS_OK;
}

/* Connecting. */

/* Resolves each address of a text. Fails if none resolves. */
static hs_code resolve_all(const char *addresses, address_set *set, hs_error *err)
{
    hs_code code = HS_OK;
    for (const char *at = addresses; *at;) {
        char address[HS__ADDRESS_MAX], host[HS__ADDRESS_MAX];
        int port;
        int length = (int)strcspn(at, " ");
        snprintf(address, sizeof address, "%.*s", length, at);
        if (!(code = hs__tcp_split(address, host, &port, err)))
            code = resolve(host, port, set, err);
        at += length;
        at += strspn(at, " ");
    }
    return set->n ? HS_OK : code ? code : hs_error_set(err, HS_UNAVAILABLE, "no address");
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

/* Begins to connect. Returns -1 after a failure. */
static int begin_to_connect(const struct sockaddr_storage *address, hs_error *err)
{
    int fd = socket(address->ss_family, SOCK_STREAM, 0);
    if (fd < 0 || !hs__tcp_prepare(fd)) {
        hs_error_set_errno(err, errno, "socket");
        return -1;
    }
    if (connect(fd, (const struct sockaddr *)address, length_of(address)) != 0 && errno != EINPROGRESS && errno != EINTR) {
        hs_error_set_errno(err, errno, "connect");
        hs__tcp_close(&fd);
    }
    return fd;
}

/* True if the connection is open. Else closes it. */
static bool is_connected(int *fd, hs_error *err)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(*fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        error = errno;
    else if (!error && is_self(*fd))
        error = ECONNREFUSED;
    if (!error)
        return true;
    hs_error_set_errno(err, error, "connect");
    hs__tcp_close(fd);
    return false;
}

/* Connects to the first address that answers. Begins with the address `first`. */
static hs_code connect_to_any(const address_set *set, size_t first, int64_t deadline, int *connected, hs_error *err)
{
    struct pollfd fds[SET_MAX];
    size_t begun = 0, open = 0; /* connections that were begun, and that are not decided */
    int64_t next = 0;           /* when the next one begins, unless those before have failed */
    hs_code code = HS_OK;
    while (!code && *connected < 0) {
        const int64_t now = hs__tcp_now();
        if (begun < set->n && (!open || now >= next)) {
            const int fd = begin_to_connect(&set->items[(first + begun) % set->n], err);
            fds[begun++] = (struct pollfd){.fd = fd, .events = POLLOUT};
            open += fd >= 0;
            next = now + STAGGER_NS;
            continue;
        }
        if (!open) {
            code = err->code;
            break;
        }
        if (now >= deadline) {
            code = hs_error_set(err, HS_DEADLINE_EXCEEDED, "the other side did not answer");
            break;
        }
        const int64_t until = begun < set->n && next < deadline ? next : deadline;
        const int ready = poll(fds, (nfds_t)begun, hs__tcp_poll_ms(until));
        if (ready < 0 && errno != EINTR)
            code = hs_error_set_errno(err, errno, "poll");
        for (size_t i = 0; ready > 0 && i < begun && *connected < 0; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            open--;
            if (is_connected(&fds[i].fd, err)) {
                *connected = fds[i].fd;
                fds[i].fd = -1;
            }
        }
    }
    for (size_t i = 0; i < begun; i++)
        hs__tcp_close(&fds[i].fd);
    return code;
}

hs_code hs__tcp_connect(const char *addresses, size_t attempt, int64_t deadline, int *fd, hs_error *err)
{
    address_set set = {.n = 0};
    *fd = -1;
    hs_code code = resolve_all(addresses, &set, err);
    if (!code && (code = connect_to_any(&set, attempt, deadline, fd, err)))
        hs_error_prefix(err, "%s", addresses);
    return code;
}
