/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums of shared variables: computed on each rank, gathered at rank 0, and compared there with each other, or with
 * those of the tensors that a save has written. */
#include "checkpoint/rank_variables.h"

#include "base/crc32c.h"
#include "base/text.h"
#include "checkpoint/rank_parts.h"

#include <stdio.h>
#include <string.h>

bool hs__next_shared(const hs_raw_session *session, size_t *index, hs_variable *out)
{
    hs_variable_slice slice;
    for (; hs__session_variable(session, *index, out); ++*index)
        if (!(out->flags & HS_VARIABLE_LOCAL) &&
            !(session->ops.variable_slice && session->ops.variable_slice(session->backend.self, *index, &slice)))
            return true;
    return false;
}

void hs__rank_sums_init(hs__rank_sums *sums, const hs_env *env, const hs_raw_session *session, hs__topic topic)
{
    const size_t ranks = session->rank ? 0 : (size_t)session->rank_count;
    hs_variable variable;
    *sums = (hs__rank_sums){.env = env, .ranks = session->ranks, .topic = topic, .rank_count = session->rank_count};
    hs__buffer_init(&sums->names, env);
    for (size_t at = 0; hs__next_shared(session, &at, &variable); at++)
        sums->n++;
    sums->mine = hs__alloc(env, sums->n + 1, sizeof *sums->mine);
    sums->differs = hs__alloc(env, sums->n + 1, sizeof *sums->differs);
    sums->all = ranks ? hs__alloc(env, (sums->n + 1) * ranks, sizeof *sums->all) : NULL;
    if (!sums->mine || !sums->differs || (ranks && !sums->all))
        hs__no_memory(&sums->error, sums->n * (ranks + 1) * sizeof *sums->mine, "the checksums of variables");
}

void hs__rank_sums_free(hs__rank_sums *sums)
{
    if (!sums->env)
        return;
    hs__free(sums->env, sums->mine);
    hs__free(sums->env, sums->differs);
    hs__free(sums->env, sums->all);
    hs__buffer_free(&sums->names);
    *sums = (hs__rank_sums){.env = NULL};
}

/* hs__put_fn */
static hs_code add_to_sum(void *sum, const void *data, size_t bytes, hs_error *err)
{
    (void)err;
    *(uint32_t *)sum = hs__crc32c(*(uint32_t *)sum, data, bytes);
    return HS_OK;
}

static hs_code sum_of_value(const hs_raw_session *session, size_t index, const char *name, hs__staging *staging,
                            uint32_t *sum, hs_error *err)
{
    hs_tensor value;
    hs_code code = hs__session_read(session, index, name, &value, err);
    if (code || (code = hs__device_mark(value.memory, err)))
        return code;
    if (value.dtype != HS_STRING)
        return hs__tensor_put(name, &value, staging, add_to_sum, sum, err);
    *sum = hs__crc32c_of_tensor(&value);
    return HS_OK;
}

void hs__rank_sums_compute(hs__rank_sums *sums, const hs_raw_session *session, bool (*selects)(const hs_variable *variable))
{
    hs__staging staging = {.env = sums->env, .piece = HS__STAGING_PIECE};
    hs_variable variable;
    for (size_t at = 0, i = 0; !sums->error.code && hs__next_shared(session, &at, &variable); at++, i++) {
        bool is_read = !selects || selects(&variable);
        if (is_read && !hs__session_has_memory(session, at, &variable, &is_read, &sums->error) && is_read)
            sum_of_value(session, at, variable.name, &staging, &sums->mine[i], &sums->error);
    }
    hs__staging_free(&staging);
}

/* Gathering. A message has the error of its rank, and the checksums if that is HS_OK. */

/* A hs_gather_fn. The bytes are copied, because an engine need not align them. */
static void receive(void *user, int32_t rank, hs_bytes bytes)
{
    hs__rank_sums *sums = user;
    const size_t wanted = sums->n * sizeof *sums->all;
    hs_error error = {.code = HS_OK};
    if (bytes.size >= sizeof error)
        memcpy(&error, bytes.data, sizeof error);
    if (!error.code && bytes.size != sizeof error + wanted)
        hs_error_set(&error, HS_RESOURCE_EXHAUSTED, "no memory for the checksums of %zu variables", sums->n);
    if (error.code && !sums->error.code) {
        sums->error = error;
        sums->failed_rank = rank;
    }
    if (!sums->error.code)
        memcpy(sums->all + (size_t)rank * sums->n, (const char *)bytes.data + sizeof error, wanted);
}

void hs__rank_sums_message(const hs__rank_sums *sums, hs__buffer *message)
{
    const hs_error own = sums->error;
    hs__buffer_init(message, sums->env);
    hs__buffer_append(message, &own, sizeof own);
    if (!own.code)
        hs__buffer_append(message, sums->mine, sums->n * sizeof *sums->mine);
}

hs_code hs__rank_sums_gather(hs__rank_sums *sums, hs_error *err)
{
    const hs__ranks *ranks = sums->ranks;
    hs__buffer message;
    if (!ranks)
        return HS_OK;
    sums->ranks = NULL;
    hs__rank_sums_message(sums, &message);
    const hs_bytes mine = {message.data, message.failed ? 0 : message.size}; /* 0: rank 0 reports that memory was missing */
    hs_code code = sums->parts ? hs__rank_parts_gather_sums(sums->parts, mine, receive, sums, err)
                               : hs__ranks_gather(ranks, sums->topic, mine, receive, sums, err);
    hs__buffer_free(&message);
    return code;
}

/* Comparing, at rank 0. */

static uint32_t sum_of(const hs__rank_sums *sums, int32_t rank, size_t number)
{
    return sums->all[(size_t)rank * sums->n + number];
}

/* The checksum that most ranks have. */
static uint32_t majority(const hs__rank_sums *sums, size_t number)
{
    int32_t most = 0;
    uint32_t best = 0;
    for (int32_t i = 0; i < sums->rank_count; i++) {
        int32_t same = 0;
        for (int32_t k = 0; k < sums->rank_count; k++)
            same += sum_of(sums, k, number) == sum_of(sums, i, number);
        if (same > most) {
            most = same;
            best = sum_of(sums, i, number);
        }
    }
    return best;
}

/* Marks the variables that differ, and describes the first one. */
static void find_divergence(hs__rank_sums *sums, bool chief_is_right, hs__divergence *found)
{
    for (size_t i = 0; i < sums->n; i++) {
        sums->differs[i] = false;
        for (int32_t k = 1; k < sums->rank_count; k++)
            sums->differs[i] |= sum_of(sums, k, i) != sum_of(sums, 0, i);
        if (!sums->differs[i] || found->n++)
            continue;
        const uint32_t right = chief_is_right ? sum_of(sums, 0, i) : majority(sums, i);
        found->number = (int64_t)i;
        found->rank = -1;
        for (int32_t k = 0; k < sums->rank_count; k++) {
            if (sum_of(sums, k, i) == right)
                continue;
            found->several = found->rank >= 0;
            if (!found->several)
                found->rank = k;
            hs__append_item(found->ranks, sizeof found->ranks, "%d", (int)k);
        }
    }
}

static hs_code describe(const hs__divergence *found, const char *name, const char *remedy, hs_error *err)
{
    char more[48] = "";
    if (found->n > 1)
        snprintf(more, sizeof more, " (and %lld more)", (long long)found->n - 1);
    return hs_error_set(err, HS_DATA_LOSS, "variable '%s'%s differs on rank%s %s from %s%s", name, more,
                        found->several ? "s" : "", found->ranks, found->rank ? "rank 0" : "the other ranks", remedy);
}

hs_code hs__rank_sums_compare(hs__rank_sums *sums, const hs_raw_session *session, bool chief_is_right, const char *remedy,
                              hs__divergence *found, hs_error *err)
{
    const hs__ranks *ranks = sums->ranks;
    hs_variable variable;
    memset(found, 0, sizeof *found); /* also the padding, which is sent */
    hs_code code = hs__rank_sums_gather(sums, err);
    if (code)
        return code;
    if (!session->rank && sums->error.code) {
        found->error = sums->error;
        found->rank = sums->failed_rank;
    } else if (!session->rank) {
        find_divergence(sums, chief_is_right, found);
        int64_t number = 0;
        for (size_t at = 0; found->n && hs__next_shared(session, &at, &variable); at++)
            if (number++ == found->number)
                describe(found, variable.name, remedy, &found->error);
    }
    return hs__ranks_from_chief(ranks, sums->topic, found, sizeof *found, err);
}

/* Comparing with what a save has written. */

void hs__rank_sums_name(hs__rank_sums *sums, const hs_raw_session *session, const hs__selection *selection)
{
    hs_variable variable;
    /* the checksum of strings in a file is another one */
    for (size_t at = 0; hs__next_shared(session, &at, &variable); at++) {
        const bool is_saved = selection && (!selection->variables || hs__is_listed(selection->variables, variable.name));
        const char *name = is_saved && variable.dtype != HS_STRING ? hs__selection_name(selection, variable.name) : "";
        hs__buffer_append(&sums->names, name, strlen(name) + 1);
    }
    if (!sums->error.code)
        hs__buffer_check(&sums->names, "the names of variables", &sums->error);
}

hs_code hs__rank_sums_check(hs__rank_sums *sums, const hs__bundle_writer *written, hs_error *err)
{
    static const char remedy[] = ", and only that of rank 0 would be saved; if each rank has its own, save it as state of "
                                 "each rank (HS_STATE_PER_RANK)";
    hs__divergence found = {.n = 0};
    const char *name = (const char *)sums->names.data;
    if (sums->error.code) {
        hs__error_copy(err, &sums->error);
        hs_error_prefix(err, "rank %d", (int)sums->failed_rank);
        return err->code;
    }
    for (size_t i = 0; i < sums->n; i++, name += strlen(name) + 1) {
        const size_t at = hs__map_find(&written->names, name);
        sums->all[i] = at == HS__NONE ? 0 : hs__crc32c_unmask(written->entries[at].crc);
        for (int32_t k = 1; !*name && k < sums->rank_count; k++)
            sums->all[(size_t)k * sums->n + i] = 0;
    }
    find_divergence(sums, false, &found);
    name = (const char *)sums->names.data;
    for (int64_t i = 0; found.n && i < found.number; i++)
        name += strlen(name) + 1;
    return found.n ? describe(&found, name, remedy, err) : HS_OK;
}
