/* SPDX-License-Identifier: Apache-2.0 */
/* Agreements of the ranks of a group (agreement.h): hs__agree makes one; the functions after it are the occasions for which
 * the session makes them; the last part sends the checkpoint's path, or the initial values, from rank 0 to the others. */
#include "session/session.h"

#include "base/cold.h"
#include "checkpoint/directory.h"
#include "session/status_files.h"
#include "threads/coordinator.h"

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
    agreement->group = *options->group;
    agreement->rank = hs__group_rank(options->group);
    agreement->rank_count = hs__group_rank_count(options->group);
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

/* Reports. */

static bool is_failure(hs_code code)
{
    return !hs__is_clean(code);
}

/* Other failures count more than a loss, from which the sessions may recover. */
static int weight(hs_code code)
{
    return !is_failure(code) ? 0 : hs__is_preemption(code) ? 1 : 2;
}

static void merge_report(void *user, int32_t rank, hs_bytes bytes)
{
    hs__rank_report *merged = user;
    hs__rank_report report; /* a copy, because an engine need not align the bytes */
    if (bytes.size != sizeof report)
        return; /* the next comparison of the ranks reports another version of the library */
    memcpy(&report, bytes.data, sizeof report);
    if (rank == 0)
        merged->saved_step = report.saved_step;
    if (!merged->signal)
        merged->signal = report.signal;
    if (!merged->stop_hook[0])
        memcpy(merged->stop_hook, report.stop_hook, sizeof merged->stop_hook);
    if (weight(report.error.code) <= weight(merged->error.code))
        return;
    merged->rank = rank;
    merged->error = report.error;
    memcpy(merged->failed_hook, report.failed_hook, sizeof merged->failed_hook);
}

/* Replaces the report of this rank by the merged report of all ranks. */
static hs_code exchange_reports(const hs__agreement *agreement, hs__rank_report *report, hs_error *err)
{
    hs__rank_report merged = {.rank = -1, .saved_step = -1};
    hs_code code = hs__group_gather(&agreement->group, (hs_bytes){report, sizeof *report}, 0, merge_report, &merged, err);
    if (code)
        return code;
    if (agreement->rank == 0) {
        *report = merged;
        bool named = strncmp(merged.error.message, "rank ", 5) == 0; /* agreed before, or about another rank */
        if (merged.rank >= 0 && agreement->rank_count > 1 && !named)
            hs_error_prefix(&report->error, "rank %d", (int)merged.rank);
    }
    return hs__group_broadcast(&agreement->group, report, sizeof *report, 0, err);
}

static void fill_report(const struct hs_session *session, hs_code code, const hs_error *error, hs__rank_report *report)
{
    memset(report, 0, sizeof *report);
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

/* Agreements. */

static uint64_t code_bits(hs_code code)
{
    return !code                     ? 0
           : code == HS_OUT_OF_RANGE ? HS__WORD_END_OF_INPUT
           : code == HS_STOP         ? HS__WORD_RUN_STOPPED
           : hs__is_preemption(code) ? HS__WORD_LOST
                                     : HS__WORD_FAILED;
}

static void fill_words(struct hs_session *session, uint64_t word, hs_code code, uint64_t words[HS__AGREEMENT_WORDS])
{
    int64_t step = 0;
    /* otherwise the ranks may be at different steps */
    bool in_run = session->level > 0 && session->context.boundary != HS_BOUNDARY_STOP;
    if (in_run && hs__raw_session_read_step(&session->raw, &step, NULL))
        step = 0; /* the graph does not count steps */
    const unsigned agreed = word & HS__WORD_CLOSING ? HS__STOP_AGREED | HS__STOP_STEP : HS__STOP_AGREED;
    words[0] = word | code_bits(code) | (hs__own_stop_causes(session) & agreed) |
               (session->raw.saves_refused.code ? HS__WORD_SAVES_REFUSED : 0);
    words[1] = (word & HS__WORD_CLOSING ? 0 : HS__WORD1_NOT_CLOSING) | (word & HS__WORD_ENDED ? 0 : HS__WORD1_NOT_ENDED) |
               (session->agreement.input_ended && in_run ? 0 : HS__WORD1_HAS_INPUT);
    if (in_run) {
        atomic_store_explicit(&session->agreement.last_step, step, memory_order_relaxed);
        atomic_store_explicit(&session->agreement.last_saved_step, session->raw.saved_step, memory_order_relaxed);
    }
    words[2] = (uint64_t)step;
    words[3] = in_run ? ~(uint64_t)step : 0;
    words[4] = hs__is_chief(session) ? (uint64_t)session->schedule.now_ns : 0;
    const unsigned requests = atomic_load_explicit(&session->save_requests, memory_order_relaxed);
    words[0] |= requests != session->agreement.sent_requests ? HS__WORD_SAVE_REQUEST : 0;
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
                          .rank = session->agreement.rank,
                          .cause_rank = failed_rank};
    outcome.error.code = HS_UNAVAILABLE;
    if (outcome.last_saved_step < 0) /* a save in the background is not known on all ranks */
        outcome.last_saved_step = newest_step(session);
    const char *directory = atomic_load(&session->abandonment_dir);
    hs_error error;
    if (directory && hs__write_outcome(&session->env, directory, &outcome, NULL, &error))
        hs_log(&session->env, HS_LOG_WARNING, "cannot write outcome.json: %s", error.message);
    return hs_outcome_exit_code(&outcome);
}

void hs__allow_abandon(struct hs_session *session)
{
    hs__group_set_abandon(&session->agreement.group, abandon, session);
}

void hs__refuse_abandon(struct hs_session *session)
{
    hs__group_set_abandon(&session->agreement.group, NULL, NULL);
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
    if (!hs__group_query_failed_rank(&agreement->group, &rank, &error) && is_failure(code)) {
        hs__error_copy(&error, err);
        hs__normalize_error(code, "this rank", &error);
        error.code = HS_UNAVAILABLE;
        rank = agreement->rank;
        hs_error_prefix(&error, "rank %d", (int)rank);
    } else {
        session->failed_hook[0] = '\0';
    }
    if (rank < 0 && why->code == HS_UNAVAILABLE)
        rank = agreement->rank; /* which ends the training, because it cannot reach the others */
    if (rank >= 0)
        agreement->cause_rank = rank;
    agreement->failure = error.code ? error : *why;
    int64_t saved = newest_step(session); /* rank 0 may have saved since it last reported a save to this rank */
    if (saved > session->raw.saved_step)
        session->raw.saved_step = saved;
    hs_raw_session_refuse_saves(&session->raw, &agreement->failure);
    return hs__error_copy(err, &agreement->failure);
}

static void adopt_words(struct hs_session *session, const uint64_t words[HS__AGREEMENT_WORDS])
{
    hs__agreement *agreement = &session->agreement;
    unsigned stops = (unsigned)(words[0] & HS__WORD_STOPS);
    agreement->word = words[0];
    agreement->all_closing = !(words[1] & HS__WORD1_NOT_CLOSING);
    agreement->all_ended = !(words[1] & HS__WORD1_NOT_ENDED);
    session->schedule.group_ns = (int64_t)words[4];
    session->schedule.group_requests += words[0] & HS__WORD_SAVE_REQUEST ? 1 : 0;
    if (words[0] & HS__WORD_CLOSING)
        stops |= HS__STOP_CLOSED;
    if (words[0] & HS__WORD_RUN_STOPPED) /* by a hook, an op or a step of one rank */
        stops |= HS__STOP_STEP;
    if (stops & ~agreement->stops) {
        agreement->stops |= stops;
        hs__add_stops(session, stops & ~(unsigned)HS__STOP_THREADS);
    }
    if (words[0] & HS__WORD_SAVES_REFUSED && !session->raw.saves_refused.code) {
        hs_error why;
        hs_error_set(&why, HS_FAILED_PRECONDITION, "another rank has refused to save");
        hs_raw_session_refuse_saves(&session->raw, &why);
    }
}

HS__COLD static hs_code resolve_failure(const uint64_t words[HS__AGREEMENT_WORDS], hs_code code,
                                        const hs__rank_report *report, hs_error *err)
{
    if (words[0] & (HS__WORD_FAILED | HS__WORD_LOST))
        return hs__error_copy(err, &report->error);
    if (code == HS_OUT_OF_RANGE)
        return code;                      /* with this rank's message */
    if (words[0] & HS__WORD_END_OF_INPUT) /* also if a rank has stopped the run, so that all have the same outcome */
        return hs_error_set(err, HS_OUT_OF_RANGE, "the input of another rank has ended");
    if (code == HS_STOP)
        return code;
    if (!(words[0] & UNEQUAL_STEPS) && !(words[1] & HS__WORD1_HAS_INPUT))
        return hs_error_set(err, HS_OUT_OF_RANGE, "the inputs of all ranks have ended");
    if (!(words[0] & UNEQUAL_STEPS) && words[2] & words[3])
        return hs_error_set(err, HS_INTERNAL,
                            "the ranks are at different global steps; all ranks must make the same training runs");
    return HS_OK;
}

/* The program's step has failed behind the gate. The other ranks may wait for this one in the program's collective
 * operation, and not in an agreement. Returns false if this rank cannot leave the group. */
HS__COLD static bool leave_group(struct hs_session *session, hs_code code, hs_error *err)
{
    hs_error error = {0};
    hs__error_copy(&error, err);
    hs__normalize_error(code, "the step", &error);
    if (!hs__group_report_exit(&session->agreement.group, &error))
        return false;
    break_group(session, &error, code, err);
    return true;
}

hs_code hs__agree(struct hs_session *session, uint64_t word, hs_code code, hs_error *err)
{
    hs__agreement *agreement = &session->agreement;
    const uint64_t news = HS__WORD_FAILED | HS__WORD_LOST | HS__WORD_CLOSING;
    uint64_t words[HS__AGREEMENT_WORDS];
    hs__rank_report report;
    hs_error error; /* not initialized here, because clearing the whole struct takes time in each step */
    if (agreement->broken)
        return code ? code : hs__error_copy(err, &agreement->failure);
    if (code && agreement->behind_gate && weight(code) > 1 && !session->failed_hook[0] && leave_group(session, code, err))
        return agreement->failure.code;
    hs__clear(&error);
    fill_words(session, word, code, words);
    hs_code group_code = hs__group_allreduce_or(&agreement->group, words, HS__AGREEMENT_WORDS, &error);
    bool has_news = words[0] & news || words[0] & HS__WORD_STOPS & ~(uint64_t)agreement->stops;
    if (!group_code && has_news) {
        fill_report(session, code, err, &report);
        group_code = exchange_reports(agreement, &report, &error);
    }
    if (group_code)
        return break_group(session, &error, code, err);
    adopt_words(session, words);
    if (has_news)
        adopt_report(session, &report);
    bool agreed = !code && !(words[0] & UNEQUAL_STEPS) && !(words[2] & words[3]) && words[1] & HS__WORD1_HAS_INPUT;
    return agreed ? HS_OK : resolve_failure(words, code, &report, err);
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
    if (agreement->settled)
        return hs__error_copy(err, &agreement->failure);
    return record_agreed(session, hs__agree(session, word, code, err), err);
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
    uint64_t word = agreement->triggers << HS__WORD_TRIGGER_SHIFT | (agreement->boundary_requested ? HS__WORD_BOUNDARY : 0);
    agreement->triggers = 0;
    agreement->boundary_requested = false;
    agreement->runs_to_end = agreement->options.agree_every_n_steps;
    code = hs__agree_on_part(session, word, code, err);
    agreement->behind_gate = false;
    agreement->run_word = agreement->word;
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
    if (ends && hs__is_preemption(code))
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
    hs_code code = hs__agree(session, 0, hs__check_input(session, err), err);
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
        hs_code agreed = hs__agree(session, HS__WORD_CLOSING, known ? HS_OK : code, err);
        if (is_failure(agreed))
            code = record_agreed(session, agreed, err);
        else if (agreed == HS_OUT_OF_RANGE && !is_failure(code))
            code = agreed;
    } while (!agreement->broken && !agreement->all_closing);
    return code;
}

void hs__agree_on_last_call(struct hs_session *session, hs_error *error)
{
    hs__agreement *agreement = &session->agreement;
    hs_error lost = {0};
    if (!agreement->broken && hs__group_barrier(&agreement->group, &lost))
        break_group(session, &lost, HS_OK, error);
}

void hs__agreement_refuse(const hs_group *group, hs_error *error)
{
    hs__agreement agreement = {.group = *group};
    hs__rank_report report = {.rank = -1, .saved_step = -1, .error = *error};
    uint64_t words[HS__AGREEMENT_WORDS] = {HS__WORD_FAILED, HS__WORD1_NOT_CLOSING, 0, ~(uint64_t)0};
    if (hs__group_check(group, NULL))
        return;
    agreement.rank = hs__group_rank(group);
    agreement.rank_count = hs__group_rank_count(group);
    if (!hs__group_allreduce_or(group, words, HS__AGREEMENT_WORDS, NULL) && !exchange_reports(&agreement, &report, NULL))
        *error = report.error;
    hs__group_report_exit(group, error);
}

void hs__add_trigger(struct hs_session *session, const hs__hook *hook)
{
    if (hook->cold->trigger != HS__NO_TRIGGER)
        session->agreement.triggers |= (uint64_t)1 << hook->cold->trigger;
    session->agreement.boundary_requested = true;
    session->context.boundary_requested = false;
}

/* A best-effort hook that fails on one rank is called on the others, which would wait for it. */
static hs_code check_collective(const hs__hook *hook, hs_error *err)
{
    if (!hook || !hook->cold->best_effort)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "hook '%s' acts together on all ranks, so that it cannot be a best-effort hook in a group",
                        hook->cold->ops.name);
}

/* An agreement in a boundary. If another rank stops or closes its session meanwhile, all ranks end the boundary. */
static bool agree_in_boundary(struct hs_session *session, uint64_t word, const hs__hook *hook)
{
    hs__agreement *agreement = &session->agreement;
    hs_error error = {0};
    hs_code code = check_collective(hook, &error);
    if (hs__agree_on_part(session, word, code, &error)) /* the agreement after the boundaries returns the failure */
        return false;
    if (!(agreement->word & (HS__WORD_CLOSING | HS__WORD_RUN_STOPPED)))
        return true;
    if (session->life != HS__CLOSING)
        record_agreed(session, hs_error_set(&error, HS_STOP, "another rank has stopped"), &error);
    return false;
}

bool hs_run_context_agree(hs_run_context *run, bool mine)
{
    if (!run || !hs__is_replica(run->session))
        return mine;
    struct hs_session *session = run->session;
    const hs__agreement *agreement = &session->agreement;
    const hs__hook *hook = hs__current_hook(session);
    if (!run->boundary || !hook || hook->cold->trigger == HS__NO_TRIGGER)
        return mine;
    const uint64_t bit = (uint64_t)1 << (hook->cold->trigger + HS__WORD_TRIGGER_SHIFT);
    const bool requested = agreement->run_word & bit, shares_bit = hook->cold->trigger == HS__TRIGGER_BITS - 1;
    if (run->boundary == HS_BOUNDARY_RUN && !hook->cold->best_effort && !(requested && shares_bit))
        return requested;
    return agree_in_boundary(session, mine ? bit : 0, hook) && agreement->word & bit;
}

bool hs_raw_session_agree(hs_raw_session *raw, bool mine)
{
    struct hs_session *session = raw ? hs__session_of(raw) : NULL;
    if (!session || !hs__is_replica(session))
        return mine;
    const hs__hook *hook = hs__current_hook(session);
    if (hook && hook->cold->trigger == HS__NO_TRIGGER)
        return mine; /* the other ranks do not have the hook */
    return agree_in_boundary(session, mine ? HS__WORD_YES : 0, hook) && session->agreement.word & HS__WORD_YES;
}

/* The opening and the recovery. */

static hs_code send_bytes(struct hs_session *session, void *data, size_t bytes, hs_error *err)
{
    hs_error error = {0};
    hs_code code = hs__group_broadcast(&session->agreement.group, data, bytes, 0, &error);
    return code ? break_group(session, &error, HS_OK, err) : HS_OK;
}

hs_code hs__send_path(struct hs_session *session, hs_code code, const char *path, hs_error *err)
{
    char text[HS__PATH_SIZE] = "";
    if (!code && strlen(path) >= sizeof text)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "the path of the checkpoint is longer than %zu bytes", sizeof text);
    else if (!code)
        memcpy(text, path, strlen(path) + 1);
    code = hs__agree_on_part(session, 0, code, err);
    return code ? code : send_bytes(session, text, sizeof text, err);
}

hs_code hs__receive_path(struct hs_session *session, char path[HS__PATH_SIZE], hs_error *err)
{
    hs_code code = hs__agree_on_part(session, 0, HS_OK, err);
    path[0] = '\0';
    return code ? code : send_bytes(session, path, HS__PATH_SIZE, err);
}

/* Broadcasts send plain bytes of host memory. */
static hs_code check_sendable(const hs_variable *variable, const hs_tensor *value, hs_error *err)
{
    if (variable->dtype != HS_STRING && !(value->data && value->memory))
        return HS_OK;
    return hs_error_set(
        err, HS_UNIMPLEMENTED,
        "variable '%s': initial values in device memory, and of type string, cannot be sent to other ranks; "
        "set hs_replica_options.no_broadcast_initial",
        variable->name);
}

static hs_code write_received(hs_raw_session *raw, size_t index, const hs_variable *variable, void *data, size_t bytes,
                              hs_tensor *value, hs_error *err)
{
    void *host; /* not used: this allocates memory that the variable does not have yet */
    hs_code code = hs__session_lend(raw, index, variable, bytes, &host, err);
    if (code)
        return code;
    if (value->bytes != bytes)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "variable '%s' has %zu bytes here, and %zu on rank 0", variable->name,
                            value->bytes, bytes);
    value->data = data;
    return hs__session_write(raw, index, variable->name, value, err);
}

/* Makes the same calls on all ranks, whatever fails on one. */
static hs_code send_variable(struct hs_session *session, size_t index, const hs_variable *variable, hs_error *err)
{
    hs_tensor value;
    hs_code code = hs__session_read(&session->raw, index, variable->name, &value, err);
    if (!code)
        code = check_sendable(variable, &value, err);
    uint64_t bytes = !code && value.data ? value.bytes : 0;
    if ((code = hs__agree_on_part(session, 0, code, err)) || (code = send_bytes(session, &bytes, sizeof bytes, err)) ||
        !bytes)
        return code;
    void *received = hs__is_chief(session) ? NULL : hs__alloc(&session->env, (size_t)bytes, 1);
    void *data = hs__is_chief(session) ? (void *)value.data : received;
    if (!data)
        code = hs__no_memory(err, (size_t)bytes, variable->name);
    if (!(code = hs__agree_on_part(session, 0, code, err)))
        code = send_bytes(session, data, (size_t)bytes, err);
    if (!code && received)
        code = write_received(&session->raw, index, variable, received, (size_t)bytes, &value, err);
    hs__free(&session->env, received);
    return hs__agree_on_part(session, 0, code, err);
}

hs_code hs__send_variables(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs_variable variable;
    hs_variable_slice slice;
    hs_code code = HS_OK;
    if (session->agreement.rank_count == 1 || session->agreement.options.no_broadcast_initial || !raw->ops.read_variable ||
        !raw->ops.write_variable)
        return HS_OK;
    for (size_t i = 0; !code && hs__session_variable(raw, i, &variable); i++) {
        bool is_slice = raw->ops.variable_slice && raw->ops.variable_slice(raw->backend.self, i, &slice);
        if (!(variable.flags & HS_VARIABLE_LOCAL) && !is_slice)
            code = send_variable(session, i, &variable, err);
    }
    hs__raw_session_moved(raw);
    return code;
}
