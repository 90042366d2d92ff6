/* SPDX-License-Identifier: Apache-2.0 */
/* Agreements of the ranks of a group (agreement.h): exchange makes one; the functions after it are the occasions for which
 * the session makes them; then come the functions that messages of hooks and of the program call (rank_calls.c), and
 * hs__agreement_init, which prepares them all. */
#include "session/session.h"

#include "base/error.h"
#include "checkpoint/directory.h"
#include "session/status_files.h"
#include "threads/coordinator.h"

#include <stdio.h>
#include <string.h>

#define NS INT64_C(1000000000)

/* Messages. */

static void fill_report(const struct hs_session *session, uint64_t kind, uint64_t number, hs_code code,
                        const hs_error *error, hs__rank_report *report)
{
    memset(report, 0, sizeof *report);
    report->kind = kind;
    report->number = number;
    if (hs__is_of_caller(hs__topic_of(kind)) && session->callee)
        snprintf(report->hook, sizeof report->hook, "%s", session->callee->cold->ops.name);
    report->signal = hs__signals_first(session);
    report->saved_step = session->raw.saved_step;
    memcpy(report->stop_hook, session->stop_hook, sizeof report->stop_hook);
    if (hs__is_clean(code))
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
    if (session->raw.rank && report->saved_step > session->raw.saved_step)
        hs_raw_session_record_save(&session->raw, report->saved_step);
}

static void fill_words(struct hs_session *session, uint64_t kind, uint64_t number, uint64_t word, hs_code code,
                       uint64_t words[HS__WORDS])
{
    const unsigned agreed = word & HS__WORD_CLOSING ? HS__STOP_AGREED | HS__STOP_STEP : HS__STOP_AGREED;
    const unsigned requests = atomic_load_explicit(&session->save_requests, memory_order_relaxed);
    const bool is_verb = hs__topic_of(kind) >= HS__TOPIC_RESTORE;
    words[HS__SAYS] = word | (hs__own_stop_causes(session) & agreed) |
                      /* a rank that has restored does not adopt the refusal of one that has not yet */
                      (session->raw.saves_refused.code && !is_verb ? HS__WORD_SAVES_REFUSED : 0) |
                      (requests != session->agreement.sent_requests ? HS__WORD_SAVE_REQUEST : 0);
    words[HS__SAYS_NOT] = (word & HS__WORD_CLOSING ? 0 : HS__WORD1_NOT_CLOSING) |
                          (word & HS__WORD_ENDED ? 0 : HS__WORD1_NOT_ENDED) |
                          (session->agreement.input_ended && hs__is_of_step(kind) ? 0 : HS__WORD1_HAS_INPUT);
    words[HS__CLOCK] = !session->raw.rank ? (uint64_t)session->schedule.now_ns : 0;
    hs__words_complete(words, kind, number, code);
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
                          .rank = session->raw.rank,
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
    if (!hs__group_query_failed_rank(&agreement->ranks.group, &rank, &error) && !hs__is_clean(code)) {
        hs__error_copy(&error, err);
        hs__normalize_error(code, "this rank", &error);
        error.code = HS_UNAVAILABLE;
        rank = session->raw.rank;
        hs_error_prefix(&error, "rank %d", (int)rank);
    } else {
        session->failed_hook[0] = '\0';
    }
    if (rank < 0 && why->code == HS_UNAVAILABLE)
        rank = session->raw.rank; /* which ends the training, because it cannot reach the others */
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

/* The limit of a step. */

static double limit_of_step(const hs__agreement *agreement)
{
    const int64_t slowest = agreement->slowest_ns[agreement->slowest_ns[0] < agreement->slowest_ns[1]];
    if (agreement->options.step_secs > 0)
        return agreement->options.step_secs;
    return agreement->n_limited < 10 ? 600 : slowest > 6 * NS ? 10 * (double)slowest / NS : 60;
}

/* The gate of a step is passed. */
static void begin_limit(struct hs_session *session, int64_t step)
{
    hs__agreement *agreement = &session->agreement;
    if (agreement->options.step_secs == 0)
        return;
    agreement->limited_step = step;
    agreement->limited_since_ns = hs_env_monotonic_ns(&session->env);
    hs__group_report_step(&agreement->ranks.group, HS_BEHIND_GATE, step, limit_of_step(agreement));
}

/* The step has come to its end on this rank, with this code: if it agrees with the others, `place` is HS_AT_END_OF_STEP. */
static void end_limit(struct hs_session *session, hs_step_place place, hs_code code)
{
    hs__agreement *agreement = &session->agreement;
    const int64_t ns = hs_env_monotonic_ns(&session->env) - agreement->limited_since_ns;
    agreement->limited_since_ns = 0;
    if (agreement->n_limited++ % 100 == 0) {
        agreement->slowest_ns[1] = agreement->slowest_ns[0];
        agreement->slowest_ns[0] = 0;
    }
    if (!code && ns > agreement->slowest_ns[0])
        agreement->slowest_ns[0] = ns;
    hs__group_report_step(&agreement->ranks.group, place, agreement->limited_step + (place == HS_BEFORE_GATE), 0);
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
    uint64_t words[HS__WORDS];
    hs__rank_report report;
    hs_error error; /* not initialized here, because clearing the whole struct takes time in each step */
    if (agreement->broken)
        return code ? code : hs__error_copy(err, &agreement->failure);
    const bool in_step = agreement->behind_gate && !hs__is_clean(code) && !hs__is_loss(code);
    if (in_step && !session->failed_hook[0] && leave_group(session, code, err))
        return agreement->failure.code;
    hs__clear(&error);
    fill_words(session, kind, number, word, code, words);
    const bool ends_step = agreement->limited_since_ns && !hs__is_of_caller(hs__topic_of(kind)) && kind != HS__TOPIC_GATE;
    if (ends_step)
        end_limit(session, HS_AT_END_OF_STEP, code);
    hs_code group_code = hs__group_allreduce_or(&agreement->ranks.group, words, HS__WORDS, &error);
    const bool has_news = hs__words_have_news(words, agreement->stops);
    if (!group_code && has_news) {
        fill_report(session, code ? 0 : kind, number, code, err, &report);
        group_code = hs__reports_exchange(&agreement->ranks.group, &report, &error);
    }
    if (group_code)
        return break_group(session, &error, code, err);
    if (ends_step)
        hs__group_report_step(&agreement->ranks.group, HS_BEFORE_GATE, agreement->limited_step + 1, 0);
    adopt_words(session, words);
    if (has_news)
        adopt_report(session, &report);
    return hs__words_result(words, code, &report, err);
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

void hs__agreement_restart(struct hs_session *session)
{
    if (session->agreement.options.agree_every_n_steps > 1)
        session->agreement.step = hs_session_global_step(session, NULL);
    session->agreement.boundary_requested = session->agreement.input_ended = false;
}

hs_code hs__agree_on_part(struct hs_session *session, uint64_t word, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    const hs__topic topic = session->life == HS__CLOSING ? HS__TOPIC_CLOSE : HS__TOPIC_PART;
    if (!hs__is_in_group(session))
        return code;
    if (agreement->settled)
        return hs__error_copy(err, &agreement->failure);
    return record_agreed(session, exchange(session, topic, 0, word, code, err), err);
}

/* True if the run has reached a multiple of agree_every_n_steps, so that all ranks agree at the same steps, also in a run
 * that is resumed at another one; or if it has not advanced the step. */
static bool is_agreement_due(struct hs_session *session)
{
    hs__agreement *agreement = &session->agreement;
    const int64_t n = agreement->options.agree_every_n_steps, before = agreement->step;
    if (n == 1)
        return true;
    agreement->step = hs_run_context_global_step(&session->context, NULL);
    return agreement->step <= before || agreement->step / n > before / n;
}

hs_code hs__agree_on_run(struct hs_session *session, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    hs_run_context *context = &session->context;
    agreement->boundary_requested |= context->boundary_requested;
    context->boundary_requested = false;
    bool stops = agreement->stops != 0; /* agreed at the gate. A failure of the run on any rank takes precedence */
    if (!is_agreement_due(session) && !code && !agreement->settled && !stops) {
        if (agreement->limited_since_ns)
            end_limit(session, HS_BEFORE_GATE, code);
        agreement->behind_gate = false;
        return HS_OK;
    }
    const uint64_t word = agreement->boundary_requested ? HS__WORD_BOUNDARY : 0;
    agreement->boundary_requested = false;
    code = agreement->settled ? hs__error_copy(err, &agreement->failure)
                              : record_agreed(session, exchange_step(session, HS__TOPIC_END_OF_RUN, word, code, err), err);
    agreement->behind_gate = false;
    /* a rank that stops or closes does not call its boundaries */
    context->boundary_requested =
        !code && agreement->word & HS__WORD_BOUNDARY && !(agreement->word & (HS__WORD_RUN_STOPPED | HS__WORD_CLOSING));
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

hs_code hs__check_program(const struct hs_session *session, hs_error *err)
{
    const hs__agreement *agreement = &session->agreement;
    if (hs__is_in_group(session) && !hs__is_clean(session->fail.code))
        return hs__error_copy(err, &session->fail);
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
    hs_code code = exchange_step(session, HS__TOPIC_GATE, 0, hs__check_program(session, err), err);
    if (!code && agreement->word & (HS__WORD_CLOSING | HS__WORD_RUN_STOPPED))
        code = hs_error_set(err, HS_STOP, "another rank has %s",
                            agreement->word & HS__WORD_CLOSING ? "closed its session" : "stopped the run");
    agreement->behind_gate = !code;
    if (!code)
        begin_limit(session, atomic_load_explicit(&agreement->last_step, memory_order_relaxed) + 1);
    return record_agreed(session, code, err);
}

hs_code hs__agree_to_close(struct hs_session *session, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    do {
        /* a failure of the program may come after an agreed stop */
        bool is_agreed = agreement->settled && (!hs__is_clean(agreement->failure.code) || hs__is_clean(code));
        bool known = is_agreed || code == HS_STOP;
        hs_code agreed = exchange(session, 0, 0, HS__WORD_CLOSING, known ? HS_OK : code, err);
        if (!hs__is_clean(agreed))
            code = record_agreed(session, agreed, err);
        else if (agreed == HS_OUT_OF_RANGE && hs__is_clean(code))
            code = agreed;
    } while (!agreement->broken && !agreement->all_closing);
    return code;
}

hs_code hs__agree_on_boundaries(struct hs_session *session, uint64_t word, hs_code code, hs_error *err)
{
    const bool joins = !hs__is_clean(err->code); /* it has perhaps called fewer callbacks than the others */
    return exchange(session, joins ? 0 : HS__TOPIC_BOUNDARIES, 0, word | HS__WORD_ENDED, code, err);
}

void hs__agree_on_last_call(struct hs_session *session, hs_error *error)
{
    hs__agreement *agreement = &session->agreement;
    hs_error lost = {0};
    if (!agreement->broken && hs__group_barrier(&agreement->ranks.group, &lost))
        break_group(session, &lost, HS_OK, error);
}

/* What messages of hooks and of the program (rank_calls.c), of savers and of restores call. */

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
    hs_code code = HS_OK;
    if (hook && hook->cold->best_effort) /* after its failure on one rank the others would wait for that rank */
        code = hs_error_set(&error, HS_INVALID_ARGUMENT,
                            "hook '%s' acts together on all ranks, so that it cannot be a best-effort hook in a group",
                            hook->cold->ops.name);
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

/* The opening. */

hs_code hs__agreement_init(struct hs_session *session, const hs_session_options *options, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    agreement->cause_rank = -1;
    atomic_init(&agreement->last_step, -1);
    atomic_init(&agreement->last_saved_step, -1);
    agreement->options = (hs_replica_options)HS_INIT(hs_replica_options, .agree_every_n_steps = 1);
    if (!options->group)
        return options->replicas
                   ? hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_options.replicas is set without a group")
                   : HS_OK;
    hs_code code = hs__group_check(options->group, err);
    if (code || (options->replicas &&
                 (code = HS_STRUCT_TAKE(hs_replica_options, step_secs, &agreement->options, options->replicas, err))))
        return code;
    if (agreement->options.agree_every_n_steps == 0)
        agreement->options.agree_every_n_steps = 1;
    if (agreement->options.agree_every_n_steps < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_replica_options.agree_every_n_steps is %lld; it must be at least 0",
                            (long long)agreement->options.agree_every_n_steps);
    if (agreement->options.end_of_input < HS_END_WITH_FIRST_RANK || agreement->options.end_of_input > HS_END_WITH_LAST_RANK)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_replica_options.end_of_input is %d, not an hs_end_of_input",
                            (int)agreement->options.end_of_input);
    if (agreement->options.initial_values < HS_EQUAL_ON_ALL_RANKS || agreement->options.initial_values > HS_FROM_CHIEF)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_replica_options.initial_values is %d, not an hs_initial_values",
                            (int)agreement->options.initial_values);
    const double secs = agreement->options.step_secs;
    if (!(secs >= 0 && secs <= 1e9) && secs != HS_LEARNED)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_replica_options.step_secs is %g; it must be 0 to 1e9, or HS_LEARNED", secs);
    if (secs != 0 && !hs__group_report_step(options->group, HS_BEFORE_GATE, 1, 0))
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "hs_replica_options.step_secs: group '%s' has no failure detector, which limits steps",
                            options->group->ops->name);
    if (options->is_worker)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_session_options: each of group and is_worker is set; give at most one of the two");
    agreement->ranks =
        (hs__ranks){.group = *options->group, .session = session, .begin = begin_message, .lost = lose_ranks};
    session->raw.ranks = &agreement->ranks;
    session->raw.rank = hs__group_rank(options->group);
    session->raw.rank_count = hs__group_rank_count(options->group);
    return HS_OK;
}
