/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a message, reports, which follow a message with news, and the verbs: a message of the session, then its
 * content. */
#include "ranks/ranks.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

/* Words. */

static bool differ(const uint64_t words[HS__WORDS], size_t word)
{
    return words[word] & words[word + 1]; /* the complement */
}

static bool calls_differ(const uint64_t words[HS__WORDS])
{
    return differ(words, HS__KIND) || differ(words, HS__NUMBER);
}

void hs__words_complete(uint64_t words[HS__WORDS], uint64_t kind, uint64_t number, hs_code code)
{
    const bool has_kind = kind && !code;
    words[HS__KIND] = has_kind ? kind : 0;
    words[HS__NOT_KIND] = has_kind ? ~kind : 0;
    words[HS__NUMBER] = has_kind ? number : 0;
    words[HS__NOT_NUMBER] = has_kind ? ~number : 0;
    words[HS__SAYS] |= !code                     ? 0
                       : code == HS_OUT_OF_RANGE ? HS__WORD_END_OF_INPUT
                       : code == HS_STOP         ? HS__WORD_RUN_STOPPED
                       : hs__is_loss(code)       ? HS__WORD_LOST
                                                 : HS__WORD_FAILED;
}

bool hs__words_have_news(const uint64_t words[HS__WORDS], uint64_t stops)
{
    const uint64_t news = HS__WORD_FAILED | HS__WORD_LOST | HS__WORD_CLOSING | (HS__WORD_STOPS & ~stops);
    return words[HS__SAYS] & news || calls_differ(words);
}

hs_code hs__words_result(const uint64_t words[HS__WORDS], hs_code code, const hs__rank_report *report, hs_error *err)
{
    const uint64_t says = words[HS__SAYS];
    const bool same_step = !(says & (HS__WORD_FAILED | HS__WORD_LOST | HS__WORD_END_OF_INPUT | HS__WORD_RUN_STOPPED |
                                     HS__WORD_CLOSING)); /* otherwise the global steps may differ */
    if (says & (HS__WORD_FAILED | HS__WORD_LOST) || calls_differ(words))
        return hs__error_copy(err, &report->error);
    if (code == HS_OUT_OF_RANGE)
        return code;                  /* with this rank's message */
    if (says & HS__WORD_END_OF_INPUT) /* also if a rank has stopped the run, so that all have the same outcome */
        return hs_error_set(err, HS_OUT_OF_RANGE, "the input of another rank has ended");
    if (code == HS_STOP)
        return code;
    if (same_step && !(words[HS__SAYS_NOT] & HS__WORD1_HAS_INPUT))
        return hs_error_set(err, HS_OUT_OF_RANGE, "the inputs of all ranks have ended");
    return HS_OK;
}

/* Reports. */

/* Other failures count more than a loss, from which the sessions may recover. */
static int weight(hs_code code)
{
    return hs__is_clean(code) ? 0 : hs__is_loss(code) ? 1 : 2;
}

typedef struct {
    hs__rank_report merged, first; /* `first`: of the first rank that has sent a kind, */
    int32_t rank;                  /* this one */
    hs_error different;            /* a later rank, different_rank, makes another call */
    int32_t different_rank;
} merging;

/* The step of an agreement of a step: the one that is made, or was made. */
static int64_t step_of(const hs__rank_report *report)
{
    return (int64_t)report->number + (report->kind == HS__TOPIC_GATE);
}

/* True if the rank of `report` has ended or passed a step at whose gate the other one is. */
static bool misses_gate(const hs__rank_report *report, const hs__rank_report *other)
{
    return hs__is_of_step(report->kind) && other->kind == HS__TOPIC_GATE &&
           (report->kind == HS__TOPIC_GATE ? step_of(report) > step_of(other) : step_of(report) >= step_of(other));
}

/* `exact`: also what two calls may differ in. */
static void name_call(char *text, size_t size, const hs__rank_report *report, bool exact)
{
    static const char *const topics[] = {
        [HS__TOPIC_PART] = "a part of the opening or of a recovery",
        [HS__TOPIC_COMPARE] = "the comparison of the ranks",
        [HS__TOPIC_GATE] = "the gate of step",
        [HS__TOPIC_END_OF_RUN] = "the end of step",
        [HS__TOPIC_BOUNDARIES] = "the end of the last boundaries",
        [HS__TOPIC_CLOSE] = "the close",
        [HS__TOPIC_RESTORE] = "the restore of a checkpoint",
        [HS__TOPIC_LAST_ACT] = "the last act",
        [HS__TOPIC_SAVE] = "hs_saver_save",
        [HS__TOPIC_VARIABLE] = "hs_raw_session_send_variable",
        [HS__TOPIC_HOOK] = "hs_raw_session_",
    };
    static const char *const verbs[] = {"agree", "any", "from_chief", "gather"};
    static const char *const boundaries[] = {"", " in boundary (created)", " in boundary (run)", " in boundary (end)",
                                             " in boundary (stop)"};
    const uint64_t kind = report->kind;
    const hs__topic topic = hs__topic_of(kind);
    const char *verb = verbs[kind >> 8 & 3], *boundary = boundaries[(kind >> 12 & 15) % 5];
    int n = snprintf(text, size, "%s%s", topic <= HS__TOPIC_HOOK && topics[topic] ? topics[topic] : "another call",
                     topic == HS__TOPIC_HOOK ? verb : "");
    if (hs__is_of_step(kind))
        n += snprintf(text + n, size - (size_t)n, " %lld", (long long)step_of(report));
    else if (hs__is_of_caller(topic) && *report->hook)
        n += snprintf(text + n, size - (size_t)n, " of hook '%s'", report->hook);
    else if (hs__is_of_caller(topic))
        n += snprintf(text + n, size - (size_t)n, " of the program");
    if (exact)
        snprintf(text + n, size - (size_t)n, "%s (%s, %llu bytes)", boundary, verb, (unsigned long long)report->number);
}

/* Sets all->different: `report` of this rank has another call than all->first. */
static void name_difference(merging *all, const hs__rank_report *report, int32_t rank)
{
    static const char rule[] = "all ranks must make the same calls in the same order";
    const hs__rank_report *first = &all->first;
    char one[240], other[240];
    const bool misses = misses_gate(report, first);
    all->different_rank = rank;
    if (misses || misses_gate(first, report)) {
        all->different_rank = misses ? rank : all->rank;
        hs_error_set(&all->different, HS_INVALID_ARGUMENT,
                     "rank %d has not passed the gate of step %lld, at which rank %d waits; %s", (int)all->different_rank,
                     (long long)step_of(misses ? first : report), (int)(misses ? all->rank : rank), rule);
        return;
    }
    name_call(one, sizeof one, first, false);
    name_call(other, sizeof other, report, false);
    if (strcmp(one, other) == 0) {
        name_call(one, sizeof one, first, true);
        name_call(other, sizeof other, report, true);
    }
    hs_error_set(&all->different, HS_INVALID_ARGUMENT, "rank %d has called %s, and rank %d %s; %s", (int)rank, other,
                 (int)all->rank, one, rule);
}

/* A hs_gather_fn. Each rank's bytes are copied, because an engine need not align them. */
static void merge_report(void *user, int32_t rank, hs_bytes bytes)
{
    merging *all = user;
    hs__rank_report *merged = &all->merged, report;
    if (bytes.size != sizeof report) { /* the rank has another version of the library */
        if (!all->different.code)
            hs_error_set(&all->different, HS_INTERNAL, "rank %d has sent a report of %zu bytes instead of %zu", (int)rank,
                         bytes.size, sizeof report);
        all->different_rank = rank;
        return;
    }
    memcpy(&report, bytes.data, sizeof report);
    if (rank == 0)
        merged->saved_step = report.saved_step;
    if (!merged->signal)
        merged->signal = report.signal;
    if (!merged->stop_hook[0])
        memcpy(merged->stop_hook, report.stop_hook, sizeof merged->stop_hook);
    if (report.kind && !all->first.kind) {
        all->first = report;
        all->rank = rank;
    } else if (report.kind && (report.kind != all->first.kind || report.number != all->first.number) &&
               !all->different.code) {
        name_difference(all, &report, rank);
    }
    if (weight(report.error.code) <= weight(merged->error.code))
        return;
    merged->rank = rank;
    merged->error = report.error;
    memcpy(merged->failed_hook, report.failed_hook, sizeof merged->failed_hook);
}

hs_code hs__reports_exchange(const hs_group *group, hs__rank_report *report, hs_error *err)
{
    merging all = {.merged = {.rank = -1, .saved_step = -1}};
    hs_code code = hs__group_gather(group, (hs_bytes){report, sizeof *report}, 0, merge_report, &all, err);
    if (code)
        return code;
    if (hs__group_rank(group) == 0) {
        if (all.merged.rank < 0 && all.different.code) {
            all.merged.rank = all.different_rank;
            all.merged.error = all.different;
        }
        *report = all.merged;
        bool named = strncmp(report->error.message, "rank ", 5) == 0; /* agreed before, or about another rank */
        if (report->rank >= 0 && hs__group_rank_count(group) > 1 && !named)
            hs_error_prefix(&report->error, "rank %d", (int)report->rank);
    }
    return hs__group_broadcast(group, report, sizeof *report, 0, err);
}

void hs__rank_refuse(const hs_group *group, hs_error *error)
{
    hs__rank_report report = {.rank = -1, .saved_step = -1, .error = *error};
    uint64_t words[HS__WORDS] = {[HS__SAYS] = HS__WORD_FAILED, [HS__SAYS_NOT] = HS__WORD1_NOT_CLOSING};
    if (hs__group_check(group, NULL))
        return;
    if (!hs__group_allreduce_or(group, words, HS__WORDS, NULL) && !hs__reports_exchange(group, &report, NULL))
        *error = report.error;
    hs__group_report_exit(group, error);
}

/* Verbs. */

hs_code hs__ranks_any(const hs__ranks *ranks, hs__topic topic, bool mine, bool *any, hs_error *err)
{
    uint64_t word = mine ? HS__WORD_YES : 0;
    hs_code code = ranks ? ranks->begin(ranks->session, topic, HS__VERB_ANY, 0, &word, err) : HS_OK;
    *any = !code && word & HS__WORD_YES;
    return code;
}

hs_code hs__ranks_from_chief(const hs__ranks *ranks, hs__topic topic, void *data, size_t bytes, hs_error *err)
{
    uint64_t word = 0;
    hs_code code = ranks ? ranks->begin(ranks->session, topic, HS__VERB_FROM_CHIEF, bytes, &word, err) : HS_OK;
    return code || !ranks || !bytes ? code : hs__ranks_more_from_chief(ranks, data, bytes, err);
}

hs_code hs__ranks_gather(const hs__ranks *ranks, hs__topic topic, hs_bytes mine, hs_gather_fn receive, void *user,
                         hs_error *err)
{
    uint64_t word = 0;
    hs_code code = ranks ? ranks->begin(ranks->session, topic, HS__VERB_GATHER, 0, &word, err) : HS_OK;
    return code ? code : hs__ranks_more_gather(ranks, mine, receive, user, err);
}

hs_code hs__ranks_more_from_chief(const hs__ranks *ranks, void *data, size_t bytes, hs_error *err)
{
    hs_error why = {0};
    return hs__group_broadcast(&ranks->group, data, bytes, 0, &why) ? ranks->lost(ranks->session, &why, err) : HS_OK;
}

hs_code hs__ranks_more_gather(const hs__ranks *ranks, hs_bytes mine, hs_gather_fn receive, void *user, hs_error *err)
{
    hs_error why = {0};
    return hs__group_gather(ranks ? &ranks->group : NULL, mine, 0, receive, user, &why)
               ? ranks->lost(ranks->session, &why, err)
               : HS_OK;
}

/* The first line that differs from the chief's, */
typedef struct {
    int32_t rank; /* on this rank; -1: none */
    char mine[256], other[256];
} difference;

/* and where the chief looks for it. */
typedef struct {
    hs_bytes mine;
    difference found;
} comparison;

/* Copies the line at `line`, which differs at `at`: if it is long, the part around `at`. */
static void copy_line(char *to, size_t size, hs_bytes text, size_t line, size_t at)
{
    if (line >= text.size) {
        snprintf(to, size, "nothing");
        return;
    }
    const size_t half = size / 2, from = at - line > half ? at - half : line;
    const char *begin = (const char *)text.data + from, *end = memchr(begin, '\n', text.size - from);
    snprintf(to, size, "%s%.*s", from > line ? "..." : "", (int)(end ? (size_t)(end - begin) : text.size - from), begin);
}

/* A hs_gather_fn. */
static void compare(void *user, int32_t rank, hs_bytes other)
{
    comparison *c = user;
    const hs_bytes mine = c->mine;
    if (c->found.rank >= 0 || (other.size == mine.size && (!mine.size || memcmp(other.data, mine.data, mine.size) == 0)))
        return;
    size_t at = 0, line = 0;
    const char *a = mine.data, *b = other.data;
    for (; at < mine.size && at < other.size && a[at] == b[at]; at++)
        if (a[at] == '\n')
            line = at + 1;
    c->found.rank = rank;
    copy_line(c->found.mine, sizeof c->found.mine, mine, line, at);
    copy_line(c->found.other, sizeof c->found.other, other, line, at);
}

hs_code hs__ranks_compare(const hs__ranks *ranks, hs__topic topic, hs_bytes text, hs_error *err)
{
    comparison c = {.mine = text, .found.rank = -1};
    hs_code code = hs__ranks_gather(ranks, topic, text, compare, &c, err);
    if (!code)
        code = hs__ranks_from_chief(ranks, topic, &c.found, sizeof c.found, err);
    if (code || c.found.rank < 0)
        return code;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "rank %d differs from rank 0: it has %s, and rank 0 has %s",
                        (int)c.found.rank, c.found.other, c.found.mine);
}
