/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks of streams (order.h). */
#include "cuda/order.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct access {
    uintptr_t address;
    size_t bytes;
    bool writes;
    int stream;
    uint64_t number; /* of the stream's work */
    struct access *next;
} access;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static order_clock clocks[ORDER_STREAMS], host;
static bool exists[ORDER_STREAMS];
static access *accesses;

static void join(order_clock *clock, const order_clock *point)
{
    for (int i = 0; i < ORDER_STREAMS; i++)
        clock->last[i] = clock->last[i] < point->last[i] ? point->last[i] : clock->last[i];
}

static bool overlaps(const access *a, uintptr_t address, size_t bytes)
{
    return a->address < address + bytes && address < a->address + a->bytes;
}

/* A number is used again, but its clock continues. */
int order_add_stream(void)
{
    int stream = 0;
    pthread_mutex_lock(&lock);
    while (stream < ORDER_STREAMS && exists[stream])
        stream++;
    if (stream == ORDER_STREAMS)
        abort();
    exists[stream] = true;
    pthread_mutex_unlock(&lock);
    return stream;
}

void order_remove_stream(int stream)
{
    pthread_mutex_lock(&lock);
    exists[stream] = false;
    pthread_mutex_unlock(&lock);
}

order_clock order_now(int stream)
{
    pthread_mutex_lock(&lock);
    const order_clock now = clocks[stream];
    pthread_mutex_unlock(&lock);
    return now;
}

void order_wait(int stream, const order_clock *point)
{
    pthread_mutex_lock(&lock);
    join(&clocks[stream], point);
    pthread_mutex_unlock(&lock);
}

void order_host_waited(const order_clock *point)
{
    pthread_mutex_lock(&lock);
    join(&host, point);
    pthread_mutex_unlock(&lock);
}

/* Ends the program if the bytes overlap, and the earlier work does not happen before `now`. */
static void check(const access *earlier, uintptr_t address, size_t bytes, const order_clock *now, const char *report)
{
    if (!overlaps(earlier, address, bytes) || earlier->number <= now->last[earlier->stream])
        return;
    fprintf(stderr, "%s: %zu bytes at %#zx, and earlier %zu bytes at %#zx, without an event or a wait between them\n",
            report, bytes, (size_t)address, earlier->bytes, (size_t)earlier->address);
    abort();
}

void order_access(int stream, uintptr_t address, size_t bytes, bool writes)
{
    access *added = malloc(sizeof *added);
    pthread_mutex_lock(&lock);
    order_clock *now = &clocks[stream];
    join(now, &host);
    *added = (access){address, bytes, writes, stream, ++now->last[stream], NULL};
    for (access **at = &accesses, *a; (a = *at);) {
        if (a->writes || writes)
            check(a, address, bytes, now,
                  !writes     ? "memory is read before it is ready"
                  : a->writes ? "memory is written by two streams"
                              : "memory is written while it is read");
        /* all later work comes after it, or comes after the added one if it comes after this one */
        if (a->number <= host.last[a->stream] || (a->stream == stream && a->writes <= writes && a->address >= address &&
                                                  a->address + a->bytes <= address + bytes)) {
            *at = a->next;
            free(a);
        } else {
            at = &a->next;
        }
    }
    added->next = accesses;
    accesses = added;
    pthread_mutex_unlock(&lock);
}

void order_forget(uintptr_t address, size_t bytes)
{
    pthread_mutex_lock(&lock);
    for (access **at = &accesses, *a; (a = *at);)
        if (overlaps(a, address, bytes)) {
            *at = a->next;
            free(a);
        } else {
            at = &a->next;
        }
    pthread_mutex_unlock(&lock);
}

void order_free(uintptr_t address, size_t bytes)
{
    pthread_mutex_lock(&lock);
    for (const access *a = accesses; a; a = a->next)
        check(a, address, bytes, &host, "memory is freed while it is used");
    pthread_mutex_unlock(&lock);
    order_forget(address, bytes);
}
