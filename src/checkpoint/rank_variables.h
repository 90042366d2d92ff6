/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_RANK_VARIABLES_H
#define HS_CHECKPOINT_RANK_VARIABLES_H

#include "backends/raw_session.h"
#include "checkpoint/selection.h"
#include "formats/bundle.h"
#include "ranks/ranks.h"

/* The shared variables of a group's ranks, neither local nor parts of larger ones. Their values must be
 * equal on all ranks. The ranks compare checksums (CRC-32C), which rank 0 gathers.
 *
 * A shared variable has a number, its position among them. It is the same on all ranks, because they have compared their
 * graphs. The index in the backend may differ, because local variables may. */

/* Describes the first shared variable from *index on, which it sets. False: there are no more. */
bool hs__next_shared(const hs_raw_session *session, size_t *index, hs_variable *out);

/* The checksums of a comparison. */
typedef struct hs__rank_sums {
    const hs_env *env;
    const hs__ranks *ranks;       /* NULL: the checksums are gathered, or there is nothing to compare */
    struct hs__rank_parts *parts; /* of a save: gathers them. NULL: another message does */
    hs__topic topic;
    int32_t rank_count;
    size_t n;         /* shared variables */
    uint32_t *mine;   /* by number; 0: it has no memory, or is not compared */
    uint32_t *all;    /* at rank 0: of all ranks. NULL: on the other ranks */
    bool *differs;    /* by number; at rank 0, after the comparison */
    hs__buffer names; /* at rank 0, for a save: by number, names in the checkpoint, each with its NUL; "": not compared */
    hs_error error;   /* of this rank; at rank 0, after the gathering, that of the first rank that has failed, */
    int32_t failed_rank; /* this one */
} hs__rank_sums;

/* What rank 0 has found. */
typedef struct hs__divergence {
    hs_error error; /* names the variable and the ranks; or the failure of a rank. HS_OK: all values are equal */
    int32_t rank;   /* that has failed, or the first in the minority */
    bool several;   /* ranks in the minority */
    int64_t number; /* of the first variable that differs */
    int64_t n;      /* variables that differ; 0: a rank has failed */
    char ranks[200];
} hs__divergence;

/* Call hs__rank_sums_free in any case. A failure, such as no memory, is sums->error: this rank must still take part. `env`
 * must live until then: those of a background save live longer than the session. */
void hs__rank_sums_init(hs__rank_sums *sums, const hs_env *env, const hs_raw_session *session, hs__topic topic);
void hs__rank_sums_free(hs__rank_sums *sums);
/* Computes the checksums of this rank. `selects`: NULL: all shared variables are compared. */
void hs__rank_sums_compute(hs__rank_sums *sums, const hs_raw_session *session,
                           bool (*selects)(const hs_variable *variable));
/* Makes the message with the checksums of this rank, or its error. Free it in any case; if it has failed, send nothing. */
void hs__rank_sums_message(const hs__rank_sums *sums, hs__buffer *message);
/* Collective, once: sends the checksums to rank 0. Does nothing if ranks is NULL. */
hs_code hs__rank_sums_gather(hs__rank_sums *sums, hs_error *err);

/* Collective: gathers and compares them, and sends *found to all ranks. The correct values are those of most ranks; in a
 * tie, and with `chief_is_right`, those of rank 0. `remedy`: the end of the error. Fails as a message of the ranks. */
hs_code hs__rank_sums_compare(hs__rank_sums *sums, const hs_raw_session *session, bool chief_is_right, const char *remedy,
                              hs__divergence *found, hs_error *err);

/* For a save, at rank 0: sets the names that the selected variables have in the checkpoint. NULL: none is compared. */
void hs__rank_sums_name(hs__rank_sums *sums, const hs_raw_session *session, const hs__selection *selection);
/* Compares the written tensors with the gathered checksums. Fails with the error of the divergence. Any thread. */
hs_code hs__rank_sums_check(hs__rank_sums *sums, const hs__bundle_writer *written, hs_error *err);

#endif
