/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_METRICS_H
#define HS_SESSION_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct hs_session;

/* A value that a hook or the program has published about the model. */
typedef struct hs__metric {
    char *name;
    double value;
    int64_t step;
    int64_t restores; /* hs_raw_session.restores at that time; older values are invalid */
} hs__metric;

typedef struct hs__metrics {
    hs__metric *items;
    size_t n, capacity;
} hs__metrics;

void hs__metrics_free(struct hs_session *session);

#endif
