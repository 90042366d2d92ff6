/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_REPLICAS_GROUP_TCP_SOCKET_H
#define HS_REPLICAS_GROUP_TCP_SOCKET_H

#include <hooksess/status.h>

#include <stdbool.h>

/* Sockets of a group over TCP. All are non-blocking, closed on exec, and without Nagle's delay. Deadlines are times of
 * hs__tcp_now(). */

enum { HS__ADDRESS_MAX = 224 }; /* bytes of "host:port", with the zero at its end */

/* The system's monotonic clock, in nanoseconds. */
int64_t hs__tcp_now(void);

/* Returns the milliseconds until a deadline, for poll(): at least 0, rounded up. INT64_MAX: -1. */
int hs__tcp_poll_ms(int64_t deadline);

/* Splits "host:port" or "[host]:port". HS_INVALID_ARGUMENT: another form, or too long. */
hs_code hs__tcp_split(const char *address, char host[HS__ADDRESS_MAX], char port[8], hs_error *err);

/* Writes "host:port", or "[host]:port" if the host has a colon. */
void hs__tcp_join(char address[HS__ADDRESS_MAX], const char *host, int port);

/* Writes this machine's name, without characters that are not printable ASCII. */
void hs__tcp_host_name(char *name, size_t size);

/* True for "localhost" and the addresses of the loopback interface. */
bool hs__tcp_is_loopback(const char *host);

/* Listens on the interface of this host, or on all if it is NULL or not an address of this machine; or if it is another
 * name of the loopback interface, as the name of a machine is on some systems: other machines resolve it to another
 * address. Sets *listener and *port. `wanted_port` "0": any. */
hs_code hs__tcp_listen(const char *host, const char *wanted_port, int *listener, int *port, hs_error *err);

/* Accepts a connection. Sets *fd to -1 if there is none. Fails if the process has too many open files or no memory. */
hs_code hs__tcp_accept(int listener, int *fd, hs_error *err);

/* Connects, until the deadline. If the name does not resolve, but is that of this machine, connects to the loopback
 * interface. */
hs_code hs__tcp_connect(const char *address, int64_t deadline, int *fd, hs_error *err);

/* Send and receive exactly `bytes`, until the deadline. HS_UNAVAILABLE: the connection has ended.
 * HS_DEADLINE_EXCEEDED: the deadline has passed. */
hs_code hs__tcp_send(int fd, const void *data, size_t bytes, int64_t deadline, hs_error *err);
hs_code hs__tcp_receive(int fd, void *data, size_t bytes, int64_t deadline, hs_error *err);

/* True if the other side has closed the connection, and all that it had sent is received. */
bool hs__tcp_ended(int fd);

/* Writes the numeric address of this machine on a connection. */
hs_code hs__tcp_own_host(int fd, char host[HS__ADDRESS_MAX], hs_error *err);

/* Ends a connection so that the other side receives all that was sent: if received data were not read here, the system
 * would discard it. Does not wait. Then close it. */
void hs__tcp_finish(int fd);

/* Closes *fd, unless it is -1, and sets it to -1. */
void hs__tcp_close(int *fd);

#endif
