/* SPDX-License-Identifier: Apache-2.0 */
/* What hooks and the program say to the other ranks of a group (raw_session.h), and what the session sends to them: first
 * values of variables. The verbs are those of ranks.h. */
#include "session/session.h"

#include "base/crc32c.h"
#include "checkpoint/rank_variables.h"

#include <string.h>

/* The ranks that call the hook that is running, or all. NULL: this one alone. */
static const hs__ranks *ranks_of_caller(const hs_raw_session *raw)
{
    const struct hs_session *session = raw->owner;
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
    hs_tensor memory; /* not used: this allocates memory that the variable does not have yet */
    hs_code code = hs__session_lend(raw, index, variable, bytes, &memory, err);
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

/* The program sets its first values. Strings cannot be sent. */
static bool is_set_by_program(const hs_variable *variable)
{
    return variable->flags & HS_VARIABLE_OUTLIVES || variable->dtype == HS_STRING;
}
static bool is_string(const hs_variable *variable)
{
    return variable->dtype == HS_STRING;
}

/* The error is that of one rank, which the ranks agree on later. */
static hs_code compare_values(const hs_raw_session *raw, bool (*selects)(const hs_variable *variable), hs_error *err)
{
    hs__rank_sums sums;
    hs__divergence found;
    hs__rank_sums_init(&sums, &raw->env, raw, HS__TOPIC_COMPARE);
    hs__rank_sums_compute(&sums, raw, selects);
    hs_code code = hs__rank_sums_compare(&sums, raw, false,
                                         "; set the same first values on all ranks, or let those of rank 0 count "
                                         "(hs_replica_options.initial_values = HS_FROM_CHIEF)",
                                         &found, err);
    hs__rank_sums_free(&sums);
    if (!code && found.error.code && found.rank == raw->rank)
        code = hs__error_copy(err, &found.error);
    return code;
}

hs_code hs__share_variables(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs_variable variable;
    const bool all_from_chief = session->agreement.options.initial_values == HS_FROM_CHIEF;
    bool (*const is_compared)(const hs_variable *) = all_from_chief ? is_string : is_set_by_program;
    if (raw->rank_count == 1 || !raw->ops.read_variable || !raw->ops.write_variable)
        return HS_OK;
    hs_code code = hs__agree_on_part(session, 0, compare_values(raw, is_compared, err), err);
    for (size_t i = 0; !code && hs__next_shared(raw, &i, &variable); i++)
        if (!is_compared(&variable))
            code = send_variable(raw, raw->ranks, i, &variable, err);
    hs__raw_session_moved(raw);
    return hs__agree_on_part(session, 0, code, err);
}
