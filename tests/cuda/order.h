/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TEST_CUDA_ORDER_H
#define HS_TEST_CUDA_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds work of streams that nothing orders. For fake_driver.c, which calls these functions when a program enqueues work.
 * So a report does not depend on times: of two accesses to the same memory, one of them a write, the later one must come
 * after the earlier one by the order of a stream, by events, or because the host has waited before it enqueued the later
 * one. Otherwise the program ends with a message. */

enum { ORDER_STREAMS = 64 }; /* that exist at the same time */

/* The last work of each stream that happens before a point. */
typedef struct order_clock {
    uint64_t last[ORDER_STREAMS];
} order_clock;

/* Returns a stream's number. */
int order_add_stream(void);
void order_remove_stream(int stream);
/* Returns the point after the work of a stream so far. */
order_clock order_now(int stream);
/* The later work of a stream comes after the point. */
void order_wait(int stream, const order_clock *point);
/* The later work of all streams comes after the point. */
void order_host_waited(const order_clock *point);
/* Work of a stream uses memory. */
void order_access(int stream, uintptr_t address, size_t bytes, bool writes);
/* Memory is allocated or freed by a call that waits, if necessary. */
void order_forget(uintptr_t address, size_t bytes);
/* The host frees memory, and has waited before. */
void order_free(uintptr_t address, size_t bytes);

#endif
