/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_RANKS_H
#define HS_RANKS_RANKS_H

#include "ranks/group.h"

/* clang-format off */
/* What the ranks of a group say to each other.
 *
 * A message is one bitwise-OR allreduce of seven words, and after it broadcasts or gathers if the message has content:
 *
 *   word 0         what holds on at least one rank: bits 0 to 15 are the causes of its stop, then HS__WORD_*
 *   word 1         what does not hold on at least one rank (HS__WORD1_*). A clear bit means that it holds on all ranks
 *   words 2 and 3  the kind of the message and its complement
 *   words 4 and 5  a number that is the same on all ranks, the global step or a size, and its complement
 *   word 6         the clock of rank 0, for the schedule of hooks; 0 on the others
 *
 * (word 2 & word 3) != 0, or (word 4 & word 5) != 0: some ranks make another call than the others. Then the call fails on
 * all ranks, with an error that names both. A rank that has failed, or closes its session, sends no kind: it joins the message in which the others
 * wait.
 *
 * If the words contain news (a failure, different calls, a new cause of a stop, a rank that closes), each rank sends a
 * report to the chief, which merges them and broadcasts the result. All ranks see the same words, so that all make the same
 * calls of the engine. */
/* clang-format on */

enum { HS__SAYS, HS__SAYS_NOT, HS__KIND, HS__NOT_KIND, HS__NUMBER, HS__NOT_NUMBER, HS__CLOCK, HS__WORDS };

/* Bits of word 0. */
#define HS__WORD_STOPS        ((uint64_t)0xffff)
#define HS__WORD_FAILED       ((uint64_t)1 << 16) /* the run or the call has failed */
#define HS__WORD_LOST         ((uint64_t)1 << 17) /* the backend's session is lost (HS_ABORTED, HS_UNAVAILABLE) */
#define HS__WORD_END_OF_INPUT ((uint64_t)1 << 18)
#define HS__WORD_RUN_STOPPED  ((uint64_t)1 << 19) /* the run returned HS_STOP */
#define HS__WORD_CLOSING      ((uint64_t)1 << 20)
#define HS__WORD_BOUNDARY     ((uint64_t)1 << 21) /* a hook has requested the boundary */
#define HS__WORD_ALREADY_DONE                                                                                              \
    ((uint64_t)1 << 22) /* a hook reported in after_create_session that the training is complete */
#define HS__WORD_SAVES_REFUSED ((uint64_t)1 << 23)
#define HS__WORD_YES           ((uint64_t)1 << 24) /* the answer to the question of this message */
#define HS__WORD_ENDED         ((uint64_t)1 << 25) /* after the boundaries of a stop, or of the close */
#define HS__WORD_SAVE_REQUEST  ((uint64_t)1 << 26) /* hs_session_request_save */

/* Bits of word 1. */
#define HS__WORD1_NOT_CLOSING ((uint64_t)1 << 0)
#define HS__WORD1_NOT_ENDED   ((uint64_t)1 << 1)
#define HS__WORD1_HAS_INPUT   ((uint64_t)1 << 2)

/* What a message is about: those of the session, then those of a hook or the program. */
typedef enum hs__topic {
    HS__TOPIC_PART = 1, /* of the opening or a recovery */
    HS__TOPIC_COMPARE,
    HS__TOPIC_GATE,
    HS__TOPIC_END_OF_RUN,
    HS__TOPIC_BOUNDARIES,
    HS__TOPIC_CLOSE,
    HS__TOPIC_RESTORE,
    HS__TOPIC_LAST_ACT, /* whether a hook with `last` acts */
    HS__TOPIC_SAVE,     /* hs_saver_save */
    HS__TOPIC_VARIABLE, /* hs_raw_session_send_variable */
    HS__TOPIC_HOOK      /* the other calls of raw_session.h */
} hs__topic;

typedef enum hs__verb { HS__VERB_AGREE, HS__VERB_ANY, HS__VERB_FROM_CHIEF, HS__VERB_GATHER } hs__verb;

/* The kind of a message: topic and verb; in a hook's callback also the boundary, 0 in the others, and the number of the
 * hook on all ranks, from 1 on. 0: the program's, or that of a hook of rank 0 alone. */
static inline uint64_t hs__kind(hs__topic topic, hs__verb verb, unsigned boundary, size_t hook)
{
    return (uint64_t)topic | (uint64_t)verb << 8 | (uint64_t)boundary << 12 | (uint64_t)hook << 16;
}
static inline hs__topic hs__topic_of(uint64_t kind)
{
    return (hs__topic)(kind & 0xff);
}
/* True if a callback of a hook or the program sends it, and not the session. */
static inline bool hs__is_of_caller(hs__topic topic)
{
    return topic >= HS__TOPIC_LAST_ACT;
}
/* True for the agreements of a step: then all ranks are at the same one, unless one has failed. */
static inline bool hs__is_of_step(uint64_t kind)
{
    return kind == HS__TOPIC_GATE || kind == HS__TOPIC_END_OF_RUN;
}

/* What a rank reports to the chief if a message contains news, and what the chief broadcasts. */
typedef struct hs__rank_report {
    int32_t rank;   /* whose error it is; -1: no rank has failed */
    int32_t signal; /* the first signal that requested a stop; 0: none */
    int64_t saved_step;
    uint64_t kind, number;                         /* of the message; kind 0: none */
    char stop_hook[64], failed_hook[64], hook[64]; /* `hook`: of the kind */
    hs_error error;
} hs__rank_report;

/* Before the allreduce: sets the kind and the number, and adds the bit of this rank's result to word 0. A rank that has
 * failed, and one that closes (kind 0), sends no kind. */
void hs__words_complete(uint64_t words[HS__WORDS], uint64_t kind, uint64_t number, hs_code code);
/* After it: true if the ranks exchange reports. `stops`: the causes of a stop that all ranks know. */
bool hs__words_have_news(const uint64_t words[HS__WORDS], uint64_t stops);
/* The result of the message, if that of this rank is `code`. `report`: the merged one, read if the words have news. Returns
 * the code of a rank that has failed, HS_OUT_OF_RANGE, this rank's HS_STOP, or HS_OK. */
hs_code hs__words_result(const uint64_t words[HS__WORDS], hs_code code, const hs__rank_report *report, hs_error *err);

/* Replaces the report of this rank by the merged report of all ranks: the chief's saved step; the first signal and the
 * first hook that stopped; the error of the first rank that failed, or that different calls were made. */
hs_code hs__reports_exchange(const hs_group *group, hs__rank_report *report, hs_error *err);

/* For a rank that cannot open a session: the other ranks wait for it in their opening. `error` is sent to them, and
 * receives the agreed error. */
void hs__rank_refuse(const hs_group *group, hs_error *error);

/* The ranks of a session. A message of a session carries its state, so that the session begins each message. */
typedef struct hs__ranks {
    hs_group group; /* ops NULL: the session is not in a group */
    void *session;
    /* Begins a message of the callback that is running, or of the program. `word`: HS__WORD_YES or 0; receives word 0 of
     * all ranks. Fails on all ranks if one has failed, closes or makes another call. */
    hs_code (*begin)(void *session, hs__topic topic, hs__verb verb, uint64_t number, uint64_t *word, hs_error *err);
    /* The engine has failed after the begin of a message. Returns the failure of the session. */
    hs_code (*lost)(void *session, const hs_error *why, hs_error *err);
} hs__ranks;

/* The verbs. All ranks call them, in the same order. `ranks` NULL: one rank. They fail on all ranks if one has failed,
 * closes, or makes another call. `topic` names the call in errors. */

/* Sets *any to true on all ranks if `mine` is true on one. */
hs_code hs__ranks_any(const hs__ranks *ranks, hs__topic topic, bool mine, bool *any, hs_error *err);
/* Copies `bytes` bytes at `data` from the chief to all ranks. `bytes` is the same on all. */
hs_code hs__ranks_from_chief(const hs__ranks *ranks, hs__topic topic, void *data, size_t bytes, hs_error *err);
/* Sends `mine` to the chief, which calls receive(user, rank, bytes) for each rank, in order. */
hs_code hs__ranks_gather(const hs__ranks *ranks, hs__topic topic, hs_bytes mine, hs_gather_fn receive, void *user,
                         hs_error *err);
/* Further content of a message that one of the verbs has begun. All ranks call them in the same order, before the next
 * message, also if a part of the content has failed on one rank alone. */
hs_code hs__ranks_more_from_chief(const hs__ranks *ranks, void *data, size_t bytes, hs_error *err);
hs_code hs__ranks_more_gather(const hs__ranks *ranks, hs_bytes mine, hs_gather_fn receive, void *user, hs_error *err);
/* Compares texts line by line. Fails on all ranks with the first line that differs, and the rank. */
hs_code hs__ranks_compare(const hs__ranks *ranks, hs__topic topic, hs_bytes text, hs_error *err);

#endif
