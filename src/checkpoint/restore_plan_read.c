/* SPDX-License-Identifier: Apache-2.0 */
/* Moving the values of a plan from the archive to the variables. */
#include "checkpoint/restore_plan.h"

#include "backends/raw_variables.h"
#include "base/parallel.h"
#include "checkpoint/stored_states.h"

/* The values of larger models are not kept in memory. */
#define KEPT_BYTES ((uint64_t)64 << 20)

/* Checks that the file has the bytes before memory is allocated for them. */
static hs_code place(hs__plan *plan, const hs__archive *archive, hs__planned *item, hs_error *err)
{
    enum { ALIGNMENT = 64 };
    item->bytes = hs__archive_tensor(archive, item->tensor).bytes;
    hs_code code = item->is_slice ? hs__archive_locate_part(archive, item->tensor, &item->box, &item->bytes, err)
                                  : hs__archive_locate(archive, item->tensor, err);
    if (code)
        return code;
    item->offset = (size_t)plan->bytes;
    uint64_t room = ((uint64_t)item->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    plan->bytes = room < UINT64_MAX - plan->bytes ? plan->bytes + room : UINT64_MAX;
    return HS_OK;
}

/* Threads. */

typedef struct {
    hs__plan *plan;
    const hs__archive *archive;
    hs__archive_fork forks[HS__MOST_WORKERS];
    hs_code (*do_item)(const hs__archive *archive, const hs__plan *plan, const hs__planned *item, hs_error *err);
} reading;

static hs_code do_one(void *user, size_t worker, size_t part, hs_error *err)
{
    reading *r = user;
    const hs__archive *archive = worker ? &r->forks[worker].archive : r->archive;
    return r->do_item(archive, r->plan, &r->plan->items[part], err);
}

static bool needs_one_thread(const reading *r)
{
    bool one = !r->archive->ops->forks;
    for (size_t i = 0; !one && i < r->plan->n; i++)
        one = r->plan->items[i].is_slice || hs__archive_tensor(r->archive, r->plan->items[i].tensor).in_slices;
    return one;
}

static hs_code do_all(reading *r, hs_error *err)
{
    size_t workers = needs_one_thread(r) ? 1 : hs__workers_for(r->plan->n, r->plan->bytes);
    for (size_t i = 1; i < workers; i++)
        hs__archive_fork_begin(r->archive, &r->forks[i]);
    hs_code code = hs__in_parallel(workers, r->plan->n, do_one, r, err);
    for (size_t i = 1; i < workers; i++)
        hs__archive_fork_end(&r->forks[i]);
    return code;
}

/* Reading. */

static hs_code read_value(const hs__archive *archive, const hs__planned *item, void *to, hs_error *err)
{
    return item->is_slice ? hs__archive_read_part(archive, item->tensor, &item->box, to, err)
                          : hs__archive_read(archive, item->tensor, to, err);
}

static hs_code read_item(const hs__archive *archive, const hs__plan *plan, const hs__planned *item, hs_error *err)
{
    return read_value(archive, item, plan->data + item->offset, err);
}

static hs_code verify_item(const hs__archive *archive, const hs__plan *plan, const hs__planned *item, hs_error *err)
{
    bool done = false; /* an earlier slice of the tensor was verified */
    for (const hs__planned *before = plan->items; item->is_slice && before < item; before++)
        done |= before->tensor == item->tensor;
    return done ? HS_OK : hs__archive_verify(archive, item->tensor, err);
}

hs_code hs__plan_read(hs__plan *plan, const hs__archive *archive, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < plan->n; i++)
        code = place(plan, archive, &plan->items[i], err);
    if (code)
        return code;
    double reads = (double)plan->bytes * (plan->bytes <= KEPT_BYTES ? 1 : 2) +
                   (double)plan->state_bytes * (plan->state_bytes <= HS__STATES_IN_MEMORY ? 1 : 2);
    hs__read_progress_begin(&plan->progress, plan->env, archive->path, plan->bytes + plan->state_bytes, reads);
    hs__archive_watch(archive, &plan->progress);
    reading r = {.plan = plan, .archive = archive, .do_item = verify_item};
    if (plan->bytes <= KEPT_BYTES) {
        r.do_item = read_item;
        plan->data = hs__realloc(plan->env, NULL, (size_t)plan->bytes, 1);
        if (!plan->data)
            return hs__no_memory(err, (size_t)plan->bytes, "the values of a checkpoint");
    }
    return do_all(&r, err);
}

/* Writing. */

static hs_code set_variable(const hs_raw_session *session, const hs__planned *item, const void *data, hs_error *err)
{
    hs_tensor value = hs_tensor_of(item->variable.dtype, item->variable.shape, data);
    return hs__session_write(session, item->index, item->variable.name, &value, err);
}

static hs_code set_from_memory(const hs__plan *plan, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < plan->n; i++)
        code = set_variable(session, &plan->items[i], plan->data + plan->items[i].offset, err);
    return code;
}

static hs_code fill_item(const hs__archive *archive, const hs__plan *plan, const hs__planned *item, hs_error *err)
{
    (void)plan;
    return item->memory ? read_value(archive, item, item->memory, err) : HS_OK;
}

/* Copies the values that were not read into the variable's memory. Calls the backend for all variables. */
static hs_code set_rest(const hs__plan *plan, const hs__archive *archive, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < plan->n; i++) {
        const hs__planned *item = &plan->items[i];
        if (item->memory || !(code = read_value(archive, item, plan->copy, err)))
            code = set_variable(session, item, item->memory ? item->memory : plan->copy, err);
    }
    return code;
}

hs_code hs__plan_prepare(hs__plan *plan, const hs_raw_session *session, hs_error *err)
{
    size_t largest = 0;
    for (size_t i = 0; i < plan->n; i++) {
        hs__planned *item = &plan->items[i];
        if (plan->data && !(item->variable.flags & HS_VARIABLE_MOVES))
            continue;
        hs_code code = hs__session_lend(session, item->index, &item->variable, item->bytes, &item->memory, err);
        if (code)
            return code;
        if (!plan->data && !item->memory && item->bytes > largest)
            largest = item->bytes;
    }
    if (largest <= plan->copy_bytes)
        return HS_OK;
    hs__free(plan->env, plan->copy);
    plan->copy = hs__realloc(plan->env, NULL, largest, 1);
    plan->copy_bytes = plan->copy ? largest : 0;
    return plan->copy ? HS_OK : hs__no_memory(err, largest, "a value of a checkpoint");
}

static hs_code reread(hs__plan *plan, const hs__archive *archive, const hs_raw_session *session, hs_error *err)
{
    reading r = {.plan = plan, .archive = archive, .do_item = fill_item};
    hs_code code = do_all(&r, err);
    return code ? code : set_rest(plan, archive, session, err);
}

static hs_code set_unallocated(const hs__plan *plan, const hs_raw_session *session, hs_error *err)
{
    const hs_tensor none = {.data = NULL};
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < plan->n_unallocated; i++)
        code = hs__session_write(session, plan->unallocated[i], "the variable", &none, err);
    return code;
}

hs_code hs__plan_write(hs__plan *plan, const hs__archive *archive, const hs_raw_session *session, hs_error *err)
{
    hs_code code = hs__plan_prepare(plan, session, err); /* again: loading states may have moved the memory */
    if (!code)
        code = plan->data ? set_from_memory(plan, session, err) : reread(plan, archive, session, err);
    if (!code)
        code = set_unallocated(plan, session, err);
    if (code)
        hs_error_prefix(err, HS__PARTLY_RESTORED);
    return code;
}
