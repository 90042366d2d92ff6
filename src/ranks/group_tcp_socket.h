/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_GROUP_TCP_SOCKET_H
#define HS_RANKS_GROUP_TCP_SOCKET_H

#include <hooksess/status.h>

#include <stdbool.h>

/* Sockets of a group over TCP. All are non-blocking, closed on exec, and without Nagle's delay. Deadlines are times of
 * hs__tcp_now(). */

/* The system's monotonic clock, in nanoseconds. */
int64_t hs__tcp_now(void);

/* Returns the milliseconds until a deadline, for poll(): at least 0, rounded up. INT64_MAX: -1. */
int hs__tcp_poll_ms(int64_t deadline);

/* Makes a new socket non-blocking and so on. Returns false, and closes it, if that fails. */
bool hs__tcp_prepare(int fd);

/* Accepts a connection. Sets *fd to -1 if no connection waits. Fails if the process has too many open files or no memory.
 */
hs_code hs__tcp_accept(int listener, int *fd, hs_error *err);

/* Send and receive exactly `bytes`, until the deadline. HS_UNAVAILABLE: the connection has ended.
 * HS_DEADLINE_EXCEEDED: the deadline has passed. */
hs_code hs__tcp_send(int fd, const void *data, size_t bytes, int64_t deadline, hs_error *err);
hs_code hs__tcp_receive(int fd, void *data, size_t bytes, int64_t deadline, hs_error *err);

/* True if the other side has closed the connection, and all that it had sent is received. */
bool hs__tcp_ended(int fd);

/* Ends a connection so that the other side receives all that was sent: if received data were not read here, the system
 * would discard it. Does not wait. Then close it. */
void hs__tcp_finish(int fd);

/* Closes *fd, unless it is -1, and sets it to -1. */
void hs__tcp_close(int *fd);

#endif
