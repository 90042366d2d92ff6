/* SPDX-License-Identifier: Apache-2.0 */
/* Agreements of the ranks of a group (agreement.h): exchange makes one; the functions after it are the occasions for which
 * the session makes them; then come the messages of hooks and the program (raw_session.h), and what the opening and the
 * recovery send from the chief to the other ranks. */
#include "session/session.h"

#include "base/error.h"
#include "base/crc32c.h"
#include "checkpoint/directory.h"
#include "session/status_files.h"
#include "threads/coordinator.h"

#include <stdio.h>
#include <string.h>

/* Bits of word 0 after which the ranks' global steps may differ. */
#define UNEQUAL_STEPS (HS__WORD_FAILED | HS__WORD_LOST | HS__WORD_END_OF_INPUT | HS__WORD_RUN_STOPPED | HS__WORD_CLOSING)

hs_code hs__agreement_copy_options(hs__agreement *agreement, const hs_session_options *options, hs_error *err)
{
    agreement->cause_rank = -1;
    atomic_init(&agreement->last_step, -1);
    atomic_init(&agreement->last_saved_step, -1);
    agreement->options = (hs_replica_options)HS_INIT(hs_replica_options, .agree_every_n_steps = 1);
    if (!options->group)
        return options->replicas
                   ? hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_options.replicas is set without a group")
                   : HS_OK;
    hs_code code = hs__group_check(options->group, err);
    if (code || (options->replicas && (code = HS_STRUCT_TAKE(hs_replica_options, agree_every_n_steps, &agreement->options,
                                                             options->replicas, err))))
        return code;
    agreement->ranks = (hs__ranks){
        .group = *options->group, .rank = hs__group_rank(options->group), .count = hs__group_rank_count(options->group)};
    if (agreement->options.agree_every_n_steps == 0)
        agreement->options.agree_every_n_steps = 1;
    if (agreement->options.agree_every_n_steps < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_replica_options.agree_every_n_steps is %lld; it must be at least 0",
                            (long long)agreement->options.agree_every_n_steps);
    if (agreement->options.end_of_input < HS_END_WITH_FIRST_RANK || agreement->options.end_of_input > HS_END_WITH_LAST_RANK)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_replica_options.end_of_input is %d, not an hs_end_of_input",
                            (int)agreement->options.end_of_input);
    if (options->is_worker)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_session_options: each of group and is_worker is set; give at most one of the two");
    return HS_OK;
}

/* Messages. */

static bool is_failure(hs_code code)
{
    return !hs__is_clean(code);
}

static void fill_report(const struct hs_session *session, uint64_t kind, hs_code code, const hs_error *error,
                        hs__rank_report *report)
{
    memset(report, 0, sizeof *report);
    report->kind = kind;
    if (hs__is_of_caller(hs__topic_of(kind)) && session->callee)
        snprintf(report->hook, sizeof report->hook, "%s", session->callee->cold->ops.name);
    report->signal = hs__signals_first(session);
    report->saved_step = session->raw.saved_step;
    memcpy(report->stop_hook, session->stop_hook, sizeof report->stop_hook);
    if (!is_failure(code))
        return;
    memcpy(report->failed_hook, session->failed_hook, sizeof report->failed_hook);
    if (error)
        report->error = *error;
    hs__normalize_error(code, "a rank of the group", &report->error);
    report->error.code = code;
}

static void adopt_report(struct hs_session *session, const hs__rank_report *report)
{
    hs__agreement *agreement = &session->agreement;
    memcpy(session->stop_hook, report->stop_hook, sizeof session->stop_hook);
    if (report->rank >= 0) {
        memcpy(session->failed_hook, report->failed_hook, sizeof session->failed_hook);
        agreement->cause_rank = report->rank;
    }
    if (report->signal)
        hs__signals_adopt(session, report->signal);
    if (!hs__is_chief(session) && report->saved_step > session->raw.saved_step)
        hs_raw_session_record_save(&session->raw, report->saved_step);
}

static uint64_t code_bits(hs_code code)
{
    return !code                     ? 0
           : code == HS_OUT_OF_RANGE ? HS__WORD_END_OF_INPUT
           : code == HS_STOP         ? HS__WORD_RUN_STOPPED
           : hs__is_loss(code)       ? HS__WORD_LOST
                                     : HS__WORD_FAILED;
}

/* The agreements of a step: then all ranks are at the same one, unless one has failed. */
static bool is_of_step(uint64_t kind)
{
    return kind == HS__TOPIC_GATE || kind == HS__TOPIC_END_OF_RUN;
}

static void fill_words(struct hs_session *session, uint64_t kind, uint64_t number, uint64_t word, hs_code code,
                       uint64_t words[HS__WORDS])
{
    const unsigned agreed = word & HS__WORD_CLOSING ? HS__STOP_AGREED | HS__STOP_STEP : HS__STOP_AGREED;
    const unsigned requests = atomic_load_explicit(&session->save_requests, memory_order_relaxed);
    const bool at_step = is_of_step(kind), is_verb = hs__topic_of(kind) >= HS__TOPIC_RESTORE;
    words[HS__SAYS] = word | code_bits(code) | (hs__own_stop_causes(session) & agreed) |
                      /* a rank that has restored does not adopt the refusal of one that has not yet */
                      (session->raw.saves_refused.code && !is_verb ? HS__WORD_SAVES_REFUSED : 0) |
                      (requests != session->agreement.sent_requests ? HS__WORD_SAVE_REQUEST : 0);
    words[HS__SAYS_NOT] = (word & HS__WORD_CLOSING ? 0 : HS__WORD1_NOT_CLOSING) |
                          (word & HS__WORD_ENDED ? 0 : HS__WORD1_NOT_ENDED) |
                          (session->agreement.input_ended && at_step ? 0 : HS__WORD1_HAS_INPUT);
    words[HS__CLOCK] = hs__is_chief(session) ? (uint64_t)session->schedule.now_ns : 0;
    words[HS__KIND] = words[HS__NOT_KIND] = words[HS__NUMBER] = words[HS__NOT_NUMBER] = 0;
    if (kind && !code) /* a rank that has failed, or closes, joins the message of the others */
        hs__words_set(words, kind, number);
    session->agreement.sent_requests = requests;
}

/* Returns the step of the newest checkpoint. -1: none. Any thread. */
static int64_t newest_step(const struct hs_session *session)
{
    const char *directory = session->creation.checkpoint_dir;
    char *newest = directory ? hs_checkpoint_latest(&session->env, directory, NULL, NULL) : NULL;
    int64_t step = newest ? hs__step_in(newest) : -1;
    hs_env_free(&session->env, newest);
    return step;
}

/* The hs_abandon_fn of a session. The session's thread still uses most of the session. */
static int abandon(void *user, int32_t failed_rank, const hs_error *why)
{
    struct hs_session *session = user;
    hs_outcome outcome = {.reason = HS_REASON_FAILED,
                          .step = atomic_load(&session->agreement.last_step),
                          .last_saved_step = atomic_load(&session->agreement.last_saved_step),
                          .error = *why,
                          .rank = session->agreement.ranks.rank,
                          .cause_rank = failed_rank};
    outcome.error.code = HS_UNAVAILABLE;
    if (outcome.last_saved_step < 0) /* the first save, in the background, is not known on all ranks */
        outcome.last_saved_step = newest_step(session);
    const char *directory = atomic_load(&session->abandonment_dir);
    hs_error error;
    if (directory && hs__write_outcome(&session->env, directory, &outcome, NULL, &error))
        hs_log(&session->env, HS_LOG_WARNING, "cannot write outcome.json: %s", error.message);
    return hs_outcome_exit_code(&outcome);
}

void hs__allow_abandon(struct hs_session *session)
{
    hs__group_set_abandon(&session->agreement.ranks.group, abandon, session);
}

void hs__refuse_abandon(struct hs_session *session)
{
    hs__group_set_abandon(&session->agreement.ranks.group, NULL, NULL);
}

/* The group is unusable, because a rank has died or the engine has failed. This session has failed, and saves nothing:
 * other ranks may be one step behind. `code` and `err` are the result of this rank so far: if no rank has died, its failure
 * is the cause, because the other ranks wait for it elsewhere. All ranks can be started again, so that it has the same
 * code as the other ranks. */
HS__COLD static hs_code break_group(struct hs_session *session, const hs_error *why, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    hs_error error = {0};
    int32_t rank = -1;
    agreement->settled = agreement->broken = true;
    hs__add_stops(session, HS__STOP_FAILED);
    if (!hs__group_query_failed_rank(&agreement->ranks.group, &rank, &error) && is_failure(code)) {
        hs__error_copy(&error, err);
        hs__normalize_error(code, "this rank", &error);
        error.code = HS_UNAVAILABLE;
        rank = agreement->ranks.rank;
        hs_error_prefix(&error, "rank %d", (int)rank);
    } else {
        session->failed_hook[0] = '\0';
    }
    if (rank < 0 && why->code == HS_UNAVAILABLE)
        rank = agreement->ranks.rank; /* which ends the training, because it cannot reach the others */
    if (rank >= 0)
        agreement->cause_rank = rank;
    agreement->failure = error.code ? error : *why;
    int64_t saved = newest_step(session); /* rank 0 may have saved since it last reported a save to this rank */
    if (saved > session->raw.saved_step)
        session->raw.saved_step = saved;
    hs_raw_session_refuse_saves(&session->raw, &agreement->failure);
    return hs__error_copy(err, &agreement->failure);
}

static void adopt_words(struct hs_session *session, const uint64_t words[HS__WORDS])
{
    hs__agreement *agreement = &session->agreement;
    const uint64_t says = words[HS__SAYS];
    unsigned stops = (unsigned)(says & HS__WORD_STOPS);
    agreement->word = says;
    agreement->all_closing = !(words[HS__SAYS_NOT] & HS__WORD1_NOT_CLOSING);
    agreement->all_ended = !(words[HS__SAYS_NOT] & HS__WORD1_NOT_ENDED);
    session->schedule.group_ns = (int64_t)words[HS__CLOCK];
    session->schedule.group_requests += says & HS__WORD_SAVE_REQUEST ? 1 : 0;
    if (says & HS__WORD_CLOSING)
        stops |= HS__STOP_CLOSED;
    if (says & HS__WORD_RUN_STOPPED) /* by a hook, an op or a step of one rank */
        stops |= HS__STOP_STEP;
    if (stops & ~agreement->stops) {
        agreement->stops |= stops;
        hs__add_stops(session, stops & ~(unsigned)HS__STOP_THREADS);
    }
    if (says & HS__WORD_SAVES_REFUSED && !session->raw.saves_refused.code) {
        hs_error why;
        hs_error_set(&why, HS_FAILED_PRECONDITION, "another rank has refused to save");
        hs_raw_session_refuse_saves(&session->raw, &why);
    }
}

HS__COLD static hs_code resolve_failure(const uint64_t words[HS__WORDS], hs_code code, const hs__rank_report *report,
                                        hs_error *err)
{
    const uint64_t says = words[HS__SAYS];
    if (says & (HS__WORD_FAILED | HS__WORD_LOST) || hs__kinds_differ(words))
        return hs__error_copy(err, &report->error);
    if (code == HS_OUT_OF_RANGE)
        return code;                  /* with this rank's message */
    if (says & HS__WORD_END_OF_INPUT) /* also if a rank has stopped the run, so that all have the same outcome */
        return hs_error_set(err, HS_OUT_OF_RANGE, "the input of another rank has ended");
    if (code == HS_STOP)
        return code;
    if (!(says & UNEQUAL_STEPS) && !(words[HS__SAYS_NOT] & HS__WORD1_HAS_INPUT))
        return hs_error_set(err, HS_OUT_OF_RANGE, "the inputs of all ranks have ended");
    if (!(says & UNEQUAL_STEPS) && hs__numbers_differ(words))
        return hs_error_set(err, HS_INTERNAL,
                            is_of_step(words[HS__KIND])
                                ? "the ranks are at different global steps; all ranks must make the same training runs"
                                : "the ranks send different numbers of bytes");
    return HS_OK;
}

/* The program's step has failed behind the gate. The other ranks may wait for this one in the program's collective
 * operation, and not in an agreement. Returns false if this rank cannot leave the group. */
HS__COLD static bool leave_group(struct hs_session *session, hs_code code, hs_error *err)
{
    hs_error error = {0};
    hs__error_copy(&error, err);
    hs__normalize_error(code, "the step", &error);
    if (!hs__group_report_exit(&session->agreement.ranks.group, &error))
        return false;
    break_group(session, &error, code, err);
    return true;
}

/* Makes a message. `word` has further bits of word 0; `code` and `err` are the result of this rank so far. Returns the
 * agreed code: that of a rank that has failed, HS_OUT_OF_RANGE, this rank's HS_STOP, or HS_OK. */
static hs_code exchange(struct hs_session *session, uint64_t kind, uint64_t number, uint64_t word, hs_code code,
                        hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    const uint64_t news = HS__WORD_FAILED | HS__WORD_LOST | HS__WORD_CLOSING;
    uint64_t words[HS__WORDS];
    hs__rank_report report;
    hs_error error; /* not initialized here, because clearing the whole struct takes time in each step */
    if (agreement->broken)
        return code ? code : hs__error_copy(err, &agreement->failure);
    const bool in_step = agreement->behind_gate && is_failure(code) && !hs__is_loss(code);
    if (in_step && !session->failed_hook[0] && leave_group(session, code, err))
        return agreement->failure.code;
    hs__clear(&error);
    fill_words(session, kind, number, word, code, words);
    hs_code group_code = hs__group_allreduce_or(&agreement->ranks.group, words, HS__WORDS, &error);
    bool has_news =
        words[HS__SAYS] & news || words[HS__SAYS] & HS__WORD_STOPS & ~(uint64_t)agreement->stops || hs__kinds_differ(words);
    if (!group_code && has_news) {
        fill_report(session, code ? 0 : kind, code, err, &report);
        group_code = hs__reports_exchange(&agreement->ranks.group, &report, &error);
    }
    if (group_code)
        return break_group(session, &error, code, err);
    adopt_words(session, words);
    if (has_news)
        adopt_report(session, &report);
    bool agreed = !code && !(words[HS__SAYS] & UNEQUAL_STEPS) && !hs__kinds_differ(words) && !hs__numbers_differ(words) &&
                  words[HS__SAYS_NOT] & HS__WORD1_HAS_INPUT;
    return agreed ? HS_OK : resolve_failure(words, code, &report, err);
}

/* For the agreements at the gate and at the end of a run. */
static hs_code exchange_step(struct hs_session *session, hs__topic topic, uint64_t word, hs_code code, hs_error *err)
{
    int64_t step = 0;
    if (hs__raw_session_read_step(&session->raw, &step, NULL))
        step = 0; /* the graph does not count steps */
    atomic_store_explicit(&session->agreement.last_step, step, memory_order_relaxed);
    atomic_store_explicit(&session->agreement.last_saved_step, session->raw.saved_step, memory_order_relaxed);
    return exchange(session, topic, (uint64_t)step, word, code, err);
}

/* The failure of this call is agreed: no other agreement follows for it. */
static hs_code record_agreed(struct hs_session *session, hs_code code, const hs_error *error)
{
    hs__agreement *agreement = &session->agreement;
    if (!code)
        return HS_OK;
    agreement->settled = true;
    if (code == HS_OUT_OF_RANGE)
        agreement->input_ended = false; /* the program may begin another epoch */
    hs__error_copy(&agreement->failure, error);
    agreement->failure.code = code;
    return code;
}

hs_code hs__agree_on_part(struct hs_session *session, uint64_t word, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    const hs__topic topic = session->life == HS__CLOSING ? HS__TOPIC_CLOSE : HS__TOPIC_PART;
    if (agreement->settled)
        return hs__error_copy(err, &agreement->failure);
    return record_agreed(session, exchange(session, topic, 0, word, code, err), err);
}

hs_code hs__agree_on_run(struct hs_session *session, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    hs_run_context *context = &session->context;
    agreement->boundary_requested |= context->boundary_requested;
    context->boundary_requested = false;
    bool stops = agreement->stops != 0; /* agreed at the gate. It takes effect if the run has failed on no rank */
    if (!code && !agreement->settled && !stops && --agreement->runs_to_end > 0) {
        agreement->behind_gate = false;
        return HS_OK;
    }
    const uint64_t word = agreement->boundary_requested ? HS__WORD_BOUNDARY : 0;
    agreement->boundary_requested = false;
    agreement->runs_to_end = agreement->options.agree_every_n_steps;
    code = agreement->settled ? hs__error_copy(err, &agreement->failure)
                              : record_agreed(session, exchange_step(session, HS__TOPIC_END_OF_RUN, word, code, err), err);
    agreement->behind_gate = false;
    /* a rank that stops or closes does not call its boundaries */
    context->boundary_requested =
        !code && agreement->word & HS__WORD_BOUNDARY && !(agreement->word & (HS__WORD_RUN_STOPPED | HS__WORD_CLOSING));
    return code;
}

hs_code hs__agree_on_loss(struct hs_session *session, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    code = hs__agree_on_part(session, 0, code, err);
    /* a rank that closes its session does not recover */
    bool ends = agreement->broken || agreement->word & HS__WORD_CLOSING;
    if (ends && hs__is_loss(code))
        hs__add_stops(session, HS__STOP_LOST);
    return code;
}

void hs_session_end_input(hs_session *session)
{
    if (session)
        session->agreement.input_ended = true;
}

bool hs_session_has_input(const hs_session *session)
{
    return session && !session->agreement.input_ended;
}

hs_code hs__check_input(const struct hs_session *session, hs_error *err)
{
    const hs__agreement *agreement = &session->agreement;
    bool ends = agreement->input_ended && agreement->options.end_of_input == HS_END_WITH_FIRST_RANK;
    return ends ? hs_error_set(err, HS_OUT_OF_RANGE, "the program has reported the end of its input") : HS_OK;
}

bool hs__continues_without_input(struct hs_session *session)
{
    hs__agreement *agreement = &session->agreement;
    if (agreement->options.end_of_input != HS_END_WITH_LAST_RANK || agreement->input_ended || agreement->settled)
        return false;
    agreement->input_ended = true;
    return true;
}

hs_code hs__pass_gate(struct hs_session *session, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    if (agreement->settled)
        return hs__error_copy(err, &agreement->failure);
    hs_code code = exchange_step(session, HS__TOPIC_GATE, 0, hs__check_input(session, err), err);
    if (!code && agreement->word & (HS__WORD_CLOSING | HS__WORD_RUN_STOPPED))
        code = hs_error_set(err, HS_STOP, "another rank has %s",
                            agreement->word & HS__WORD_CLOSING ? "closed its session" : "stopped the run");
    agreement->behind_gate = !code;
    return record_agreed(session, code, err);
}

hs_code hs__agree_to_close(struct hs_session *session, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    do {
        /* a failure of the program may come after an agreed stop */
        bool is_agreed = agreement->settled && (is_failure(agreement->failure.code) || !is_failure(code));
        bool known = is_agreed || code == HS_STOP;
        hs_code agreed = exchange(session, 0, 0, HS__WORD_CLOSING, known ? HS_OK : code, err);
        if (is_failure(agreed))
            code = record_agreed(session, agreed, err);
        else if (agreed == HS_OUT_OF_RANGE && !is_failure(code))
            code = agreed;
    } while (!agreement->broken && !agreement->all_closing);
    return code;
}

hs_code hs__agree_on_boundaries(struct hs_session *session, uint64_t word, hs_code code, hs_error *err)
{
    const bool joins = is_failure(err->code); /* it has perhaps called fewer callbacks than the others */
    return exchange(session, joins ? 0 : HS__TOPIC_BOUNDARIES, 0, word | HS__WORD_ENDED, code, err);
}

void hs__agree_on_last_call(struct hs_session *session, hs_error *error)
{
    hs__agreement *agreement = &session->agreement;
    hs_error lost = {0};
    if (!agreement->broken && hs__group_barrier(&agreement->ranks.group, &lost))
        break_group(session, &lost, HS_OK, error);
}

/* Messages of hooks and of the program. */

/* A best-effort hook that fails on one rank is called on the others, which would wait for it. */
static hs_code check_collective(const hs__hook *hook, hs_error *err)
{
    if (!hook || !hook->cold->best_effort)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "hook '%s' acts together on all ranks, so that it cannot be a best-effort hook in a group",
                        hook->cold->ops.name);
}

/* hs__ranks.begin. If another rank stops or closes its session meanwhile, all ranks end the boundary. */
static hs_code begin_message(void *user, hs__topic topic, hs__verb verb, uint64_t number, uint64_t *word, hs_error *err)
{
    struct hs_session *session = user;
    hs__agreement *agreement = &session->agreement;
    const hs__hook *hook = hs__is_of_caller(topic) ? session->callee : NULL;
    hs_error error = {0};
    if (!hook && session->life == HS__READY && !session->level) /* the program's own call */
        hs__forget_agreed_failure(session);
    if (agreement->settled)
        return hs__error_copy(err, &agreement->failure);
    const uint64_t kind =
        hs__kind(topic, verb, hook ? session->context.boundary : 0, hook ? hook->cold->number_on_ranks : 0);
    hs_code code = check_collective(hook, &error);
    code = record_agreed(session, exchange(session, kind, number, *word, code, &error), &error);
    *word = agreement->word;
    if (!code && *word & (HS__WORD_CLOSING | HS__WORD_RUN_STOPPED)) {
        record_agreed(session, HS_STOP, &error);
        code = hs_error_set(&error, HS_CANCELLED, "another rank has stopped");
    }
    return code ? hs__error_copy(err, &error) : HS_OK;
}

/* hs__ranks.lost */
static hs_code lose_ranks(void *user, const hs_error *why, hs_error *err)
{
    return break_group(user, why, HS_OK, err);
}

void hs__join_ranks(struct hs_session *session)
{
    hs__ranks *ranks = &session->agreement.ranks;
    ranks->session = session;
    ranks->begin = begin_message;
    ranks->lost = lose_ranks;
    session->raw.ranks = ranks;
    session->raw.rank = ranks->rank;
    session->raw.rank_count = ranks->count;
}

/* The ranks that call the hook that is running, or all. NULL: this one alone. */
static const hs__ranks *ranks_of_caller(const hs_raw_session *raw)
{
    const struct hs_session *session = hs__session_of((hs_raw_session *)raw);
    return session->callee && !session->callee->cold->number_on_ranks ? NULL : raw->ranks;
}

static hs_code refuse_null(const char *function, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: session is NULL", function);
}

int32_t hs_raw_session_rank(const hs_raw_session *raw)
{
    return raw ? raw->rank : 0;
}

int32_t hs_raw_session_rank_count(const hs_raw_session *raw)
{
    return raw ? raw->rank_count : 1;
}

hs_code hs_raw_session_any(hs_raw_session *raw, bool mine, bool *any, hs_error *err)
{
    bool unused;
    hs_error_clear(err);
    any = any ? any : &unused;
    *any = false;
    return raw ? hs__ranks_any(ranks_of_caller(raw), HS__TOPIC_HOOK, mine, any, err)
               : refuse_null("hs_raw_session_any", err);
}

hs_code hs_raw_session_from_chief(hs_raw_session *raw, void *data, size_t bytes, hs_error *err)
{
    hs_error_clear(err);
    if (!raw || (!data && bytes))
        return raw ? hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_from_chief: data is NULL")
                   : refuse_null("hs_raw_session_from_chief", err);
    return hs__ranks_from_chief(ranks_of_caller(raw), HS__TOPIC_HOOK, data, bytes, err);
}

hs_code hs_raw_session_gather(hs_raw_session *raw, hs_bytes mine, hs_gather_fn receive, void *user, hs_error *err)
{
    hs_error_clear(err);
    if (!raw || !receive || (!mine.data && mine.size))
        return !raw ? refuse_null("hs_raw_session_gather", err)
                    : hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_gather: %s is NULL",
                                   receive ? "mine.data" : "receive");
    return hs__ranks_gather(ranks_of_caller(raw), HS__TOPIC_HOOK, mine, receive, user, err);
}

/* A value that the others can receive. */
static hs_code read_sendable(hs_raw_session *raw, size_t index, const hs_variable *variable, hs_host_copy *copy,
                             hs_tensor *value, hs_error *err)
{
    hs_tensor here;
    hs_code code = hs__session_read(raw, index, variable->name, &here, err);
    if (code || !here.data)
        return code;
    if (variable->dtype == HS_STRING)
        return hs_error_set(err, HS_UNIMPLEMENTED, "variable '%s' is of type string, which cannot be sent to other ranks",
                            variable->name);
    return hs_tensor_host(&here, copy, value, err);
}

static hs_code write_received(hs_raw_session *raw, size_t index, const hs_variable *variable, void *data, size_t bytes,
                              hs_error *err)
{
    hs_tensor value;
    void *host; /* not used: this allocates memory that the variable does not have yet */
    hs_code code = hs__session_lend(raw, index, variable, bytes, &host, err);
    if (code || (code = hs__session_read(raw, index, variable->name, &value, err)))
        return code;
    if (value.bytes != bytes)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "variable '%s' has %zu bytes here, and %zu on rank 0", variable->name,
                            value.bytes, bytes);
    value.data = data;
    value.memory = NULL;
    return hs__session_write(raw, index, variable->name, &value, err);
}

/* Its index may differ between the ranks, because local variables may. */
static hs_code send_variable(hs_raw_session *raw, const hs__ranks *ranks, size_t index, const hs_variable *variable,
                             hs_error *err)
{
    struct {
        uint64_t bytes, name;
    } chief = {.name = hs__crc32c(0, variable->name, strlen(variable->name))};
    const uint64_t name = chief.name;
    hs_tensor value = {.data = NULL};
    hs_host_copy copy = {.env = &raw->env};
    void *received = NULL;
    hs_code code = raw->rank ? HS_OK : read_sendable(raw, index, variable, &copy, &value, err);
    chief.bytes = value.data ? value.bytes : 0;
    if (!code)
        code = hs__ranks_from_chief(ranks, HS__TOPIC_VARIABLE, &chief, sizeof chief, err);
    if (!code && chief.name != name)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "rank 0 sends another variable than '%s'", variable->name);
    if (!code && chief.bytes && raw->rank && !(received = hs__alloc(&raw->env, (size_t)chief.bytes, 1)))
        code = hs__no_memory(err, (size_t)chief.bytes, variable->name);
    if (!code)
        code = hs__ranks_from_chief(ranks, HS__TOPIC_VARIABLE, raw->rank ? received : (void *)value.data,
                                    (size_t)chief.bytes, err);
    if (!code && received)
        code = write_received(raw, index, variable, received, (size_t)chief.bytes, err);
    hs__free(&raw->env, received);
    hs_host_copy_free(&copy);
    return code;
}

hs_code hs_raw_session_send_variable(hs_raw_session *raw, const char *name, hs_error *err)
{
    hs_error_clear(err);
    hs_variable variable;
    size_t index;
    if (!raw || !name)
        return raw ? hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_send_variable: name is NULL")
                   : refuse_null("hs_raw_session_send_variable", err);
    if (!raw->handle)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "hs_raw_session_send_variable: the session is lost");
    if (!raw->ops.read_variable || !raw->ops.write_variable)
        return hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' cannot %s variables", raw->ops.name,
                            raw->ops.read_variable ? "set" : "read");
    if (!hs__session_find_variable(raw, name, &index, &variable))
        return hs_error_set(err, HS_NOT_FOUND, "hs_raw_session_send_variable: '%s' is not a variable", name);
    const hs__ranks *ranks = ranks_of_caller(raw);
    return ranks && raw->rank_count > 1 ? send_variable(raw, ranks, index, &variable, err) : HS_OK;
}

/* The opening and the recovery. */

hs_code hs__send_variables(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs_variable variable;
    hs_variable_slice slice;
    hs_code code = HS_OK;
    if (raw->rank_count == 1 || session->agreement.options.no_broadcast_initial || !raw->ops.read_variable ||
        !raw->ops.write_variable)
        return HS_OK;
    for (size_t i = 0; !code && hs__session_variable(raw, i, &variable); i++) {
        bool is_slice = raw->ops.variable_slice && raw->ops.variable_slice(raw->backend.self, i, &slice);
        if (!(variable.flags & HS_VARIABLE_LOCAL) && !is_slice)
            code = send_variable(raw, raw->ranks, i, &variable, err);
    }
    if (code == HS_UNIMPLEMENTED)
        hs_error_prefix(err, "initial values (hs_replica_options.no_broadcast_initial)");
    hs__raw_session_moved(raw);
    return hs__agree_on_part(session, 0, code, err);
}
