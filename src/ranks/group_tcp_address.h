/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_GROUP_TCP_ADDRESS_H
#define HS_RANKS_GROUP_TCP_ADDRESS_H

#include <hooksess/status.h>

#include <stdbool.h>
#include <stddef.h>

/* Addresses of a group over TCP: as texts, as names that resolve to several addresses, to listen on, and to connect to.
 * Ranks send each other texts of one or several addresses, "10.0.0.7:4567 [fd00::7]:4567". */

enum {
    HS__ADDRESS_MAX = 224,   /* bytes of one "host:port", with the zero at its end */
    HS__ADDRESSES_MAX = 512, /* bytes of a text of several addresses */
    HS__PORT_MAX = 65535,
    HS__LISTEN_MAX = 8
};

/* Sockets that listen on the same port of one or several addresses. */
typedef struct hs__tcp_listener {
    int fds[HS__LISTEN_MAX];
    size_t n;
    int port;
} hs__tcp_listener;

/* Splits "host:port" or "[host]:port". HS_INVALID_ARGUMENT: another form, or too long. */
hs_code hs__tcp_split(const char *address, char host[HS__ADDRESS_MAX], int *port, hs_error *err);

/* Writes "host:port", or "[host]:port" if the host has a colon. */
void hs__tcp_join(char address[HS__ADDRESS_MAX], const char *host, int port);

/* Writes this machine's name, without characters that are not printable ASCII. */
void hs__tcp_host_name(char *name, size_t size);

/* Listens on all addresses of this host, or on all interfaces if it is NULL or not an address of this machine; or if it is
 * another name of the loopback interface than "localhost", as the name of a machine is on some systems: other machines
 * resolve it to another address. `port` 0: any. The listener is empty after a failure. */
hs_code hs__tcp_listen(const char *host, int port, hs__tcp_listener *listener, hs_error *err);

/* Listens on all addresses of the interface that a connection uses; on all interfaces if the other side is on this
 * machine. */
hs_code hs__tcp_listen_near(int connection, hs__tcp_listener *listener, hs_error *err);
void hs__tcp_stop_listening(hs__tcp_listener *listener);

/* Writes the addresses on which a listener can be reached, as numbers, because other machines may not resolve this
 * machine's name. Addresses that do not fit are omitted. */
hs_code hs__tcp_publish(const hs__tcp_listener *listener, char addresses[HS__ADDRESSES_MAX], hs_error *err);

/* Connects to one of several addresses, each of which may be a name with several addresses. Tries the next one when the
 * previous one has failed, or has not answered for 250 ms. `attempt` is the number of earlier attempts that
 * failed, also later than in this function: each begins with another address, because a stranger may listen on one.
 * HS_DEADLINE_EXCEEDED: the deadline has passed. */
hs_code hs__tcp_connect(const char *addresses, size_t attempt, int64_t deadline, int *fd, hs_error *err);

#endif
