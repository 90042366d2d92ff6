/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring: all of a checkpoint is checked before any of it is copied. */
#include "checkpoint/saver.h"

#include "base/files.h"

#include <string.h>

/* Everything that does not fit, in one message. */
typedef struct {
    hs__buffer text;
    size_t missing, different;
} misfits;

static void add_misfit(misfits *all, const hs_variable *variable, const hs__bundle_entry *entry)
{
    char wanted[HS_SHAPE_TEXT_SIZE], found[HS_SHAPE_TEXT_SIZE];
    if (all->missing + all->different)
        hs__buffer_text(&all->text, "; ");
    if (!entry) {
        all->missing++;
        hs__buffer_text(&all->text, "'%s' is missing", variable->name);
        return;
    }
    all->different++;
    hs__buffer_text(&all->text, "'%s' is %s %s there and %s %s in the model", variable->name,
                    hs_dtype_name((hs_dtype)entry->dtype), hs_shape_text(&entry->shape, found, sizeof found),
                    hs_dtype_name(variable->dtype), hs_shape_text(&variable->shape, wanted, sizeof wanted));
}

static bool fits(const hs_variable *variable, const hs__bundle_entry *entry)
{
    return entry && entry->dtype == (int32_t)variable->dtype && hs_shape_equal(&entry->shape, &variable->shape);
}

/* What is read of the checkpoint. */
typedef struct {
    const hs__bundle_entry *entry; /* NULL: it is not there */
    size_t offset;                 /* of its value in the plan's data */
} planned_value;

/* A variable that is restored, and its like in the checkpoint. */
typedef struct {
    size_t index; /* of the variable in the backend */
    hs_variable variable;
    planned_value value;
} planned;

typedef struct {
    planned *items;
    size_t n, capacity;
    planned_value *states; /* as many as the session has */
    unsigned char *data;   /* all values, read before any is copied, so that a failure leaves the model as it was */
    size_t bytes;
} plan;

static hs_code add_planned(const hs_saver *saver, plan *all, size_t index, const hs_variable *variable,
                           const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = hs__reserve(&saver->env, &all->items, &all->capacity, all->n + 1, sizeof *all->items, err);
    if (!code)
        all->items[all->n++] = (planned){.index = index, .variable = *variable, .value = {.entry = entry}};
    return code;
}

static hs_code tell_misfits(const hs_saver *saver, const hs__bundle_reader *reader, const misfits *all, hs_error *err)
{
    hs_code code = all->different ? HS_INVALID_ARGUMENT : HS_NOT_FOUND;
    const char *text = (const char *)all->text.data;
    if (strlen(reader->prefix) + all->text.size > HS_MESSAGE_SIZE / 2)
        hs_log(&saver->env, HS_LOG_ERROR, "checkpoint '%s' does not fit the model: %s", reader->prefix, text);
    return hs_error_set(
        err, code,
        "checkpoint '%s' does not fit the model, which is left as it was; restore into the model it was saved "
        "from, or train in another directory (%zu missing, %zu different): %s",
        reader->prefix, all->missing, all->different, text);
}

/* Finds every variable that is to be restored; those that have not their like in the checkpoint are an error. */
static hs_code make_plan(const hs_saver *saver, const hs_raw_session *session, const hs__bundle_reader *reader, plan *all,
                         hs_error *err)
{
    misfits wrong = {0};
    hs__buffer_init(&wrong.text, &saver->env);
    hs_code code = HS_OK;
    bool done = false;
    for (size_t i = 0; !code && !done; i++) {
        hs_variable variable;
        if (!hs__saver_variable(saver, session, i, &variable, &done))
            continue;
        const hs__bundle_entry *entry = hs__bundle_find(reader, variable.name);
        if (fits(&variable, entry))
            code = add_planned(saver, all, i, &variable, entry, err);
        else
            add_misfit(&wrong, &variable, entry);
    }
    if (!code && !(code = hs__buffer_check(&wrong.text, "a message", err)) && wrong.missing + wrong.different)
        code = tell_misfits(saver, reader, &wrong, err);
    hs__buffer_free(&wrong.text);
    return code;
}

static hs_code plan_states(const hs_saver *saver, const hs_raw_session *session, const hs__bundle_reader *reader, plan *all,
                           hs_error *err)
{
    all->states = hs__alloc(&saver->env, session->n_states, sizeof *all->states);
    if (!all->states)
        return hs__no_memory(err, session->n_states * sizeof *all->states, "the states of a checkpoint");
    for (size_t i = 0; i < session->n_states; i++) {
        const hs__bundle_entry *entry = hs__bundle_find(reader, session->states[i].key);
        if (entry && (entry->dtype != HS_UINT8 || entry->shape.rank != 1))
            return hs_error_set(err, HS_DATA_LOSS, "%s: the state '%s' is no vector of uint8", reader->prefix,
                                session->states[i].key);
        all->states[i].entry = entry;
    }
    return HS_OK;
}

/* What an index says is believed only as far as its data file bears it out. */
static hs_code place_value(hs__bundle_reader *reader, plan *all, planned_value *value, hs_error *err)
{
    enum { ALIGNMENT = 64 };
    hs_code code = value->entry ? hs__bundle_locate(reader, value->entry, err) : HS_OK;
    if (code || !value->entry)
        return code;
    size_t bytes = hs__bundle_read_bytes(value->entry);
    value->offset = all->bytes;
    if (bytes > SIZE_MAX - ALIGNMENT || all->bytes > SIZE_MAX - ALIGNMENT - bytes)
        return hs__no_memory(err, bytes, value->entry->name);
    all->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return HS_OK;
}

static hs_code read_value(hs__bundle_reader *reader, const plan *all, const planned_value *value, hs_error *err)
{
    return value->entry ? hs__bundle_read(reader, value->entry, all->data + value->offset, err) : HS_OK;
}

static hs_code read_values(const hs_saver *saver, const hs_raw_session *session, hs__bundle_reader *reader, plan *all,
                           hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++)
        code = place_value(reader, all, &all->items[i].value, err);
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = place_value(reader, all, &all->states[i], err);
    if (code)
        return code;
    all->data = hs__alloc(&saver->env, all->bytes, 1);
    if (!all->data)
        return hs__no_memory(err, all->bytes, "the values of a checkpoint");
    for (size_t i = 0; !code && i < all->n; i++)
        code = read_value(reader, all, &all->items[i].value, err);
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = read_value(reader, all, &all->states[i], err);
    return code;
}

static hs_code write_values(const hs_raw_session *session, const plan *all, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++) {
        const planned *item = &all->items[i];
        hs_tensor value = hs_tensor_of(item->variable.dtype, item->variable.shape, all->data + item->value.offset);
        code = hs__settle(session->ops.write_variable(session->handle, item->index, &value, err), item->variable.name, err);
    }
    return code;
}

static hs_code load_state(const hs_saver *saver, const hs__bundle_reader *reader, const hs__state_slot *slot,
                          const plan *all, const planned_value *value, hs_error *err)
{
    if (!value->entry) {
        hs_log(&saver->env, HS_LOG_WARNING, "checkpoint '%s' has no state '%s'; it starts anew", reader->prefix, slot->key);
        return HS_OK;
    }
    size_t bytes = (size_t)value->entry->bytes;
    hs_state_reader state = {all->data + value->offset, bytes};
    hs__clear(err); /* what another one has got over */
    hs_code code = slot->load(slot->self, &state, err);
    hs__settle(code, "it", err);
    if (!code && state.left)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "%zu of its %zu bytes were not read", state.left, bytes);
    if (code)
        hs_error_prefix(err, "checkpoint '%s': loading the state '%s'", reader->prefix, slot->key);
    return code;
}

/* State of somebody who is no more, or goes by another name now: that it is lost is not to go unnoticed. */
static void tell_untaken_states(const hs_saver *saver, const hs_raw_session *session, const hs__bundle_reader *reader)
{
    size_t length = strlen(HS__STATE_PREFIX);
    for (size_t i = 0; i < reader->n_entries; i++) {
        const char *name = reader->entries[i].name;
        bool taken = strncmp(name, HS__STATE_PREFIX, length) != 0;
        for (size_t k = 0; !taken && k < session->n_states; k++)
            taken = strcmp(session->states[k].key, name) == 0;
        if (!taken)
            hs_log(&saver->env, HS_LOG_WARNING, "checkpoint '%s' has the state '%s', which nobody takes", reader->prefix,
                   name);
    }
}

/* `whose` says whose fault a failure is: at which stage it happened. */
static hs_code restore_from(hs_saver *saver, hs_raw_session *session, hs__bundle_reader *reader, plan *all,
                            hs__restore_fault *whose, hs_error *err)
{
    *whose = HS__FAULT_OF_THE_MODEL;
    hs_code code = make_plan(saver, session, reader, all, err);
    if (code)
        return code;
    *whose = HS__FAULT_OF_THE_FILES;
    if ((code = plan_states(saver, session, reader, all, err)) || (code = read_values(saver, session, reader, all, err)))
        return code;
    *whose = HS__FAULT_OF_THE_MODEL;
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = load_state(saver, reader, &session->states[i], all, &all->states[i], err);
    return code ? code : write_values(session, all, err);
}

/* Where saver and session stand after a restore: made before anything is changed, so that it cannot fail afterwards. */
typedef struct {
    char *last_path, *restored_from;
} whereabouts;

static hs_code prepare_whereabouts(whereabouts *now, const hs_saver *saver, const hs_raw_session *session,
                                   const char *prefix, hs_error *err)
{
    now->last_path = hs__strdup(&saver->env, prefix);
    now->restored_from = hs__strdup(&session->env, prefix);
    return now->last_path && now->restored_from ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
}

static char *swap(char **place, char *with)
{
    char *before = *place;
    *place = with;
    return before;
}

static void note_whereabouts(whereabouts *now, hs_saver *saver, hs_raw_session *session)
{
    int64_t step;
    now->last_path = swap(&saver->last_path, now->last_path);
    now->restored_from = swap(&session->restored_from, now->restored_from);
    if (hs_raw_session_step(session, &step, NULL) == HS_OK)
        session->saved_step = step;
}

hs_code hs__restore(hs_saver *saver, hs_raw_session *session, const char *prefix, hs__restore_fault *whose, hs_error *err)
{
    hs__bundle_reader reader;
    plan all = {0};
    whereabouts now = {NULL, NULL};
    *whose = HS__FAULT_OF_THE_MODEL;
    hs_code code = hs__saver_check_names(saver, session, err);
    if (code)
        return code;
    *whose = HS__FAULT_OF_THE_FILES;
    if ((code = hs__bundle_reader_open(&reader, &saver->env, prefix, err)))
        return code;
    if (!(code = prepare_whereabouts(&now, saver, session, prefix, err)) &&
        !(code = restore_from(saver, session, &reader, &all, whose, err))) {
        tell_untaken_states(saver, session, &reader);
        note_whereabouts(&now, saver, session);
    }
    hs__free(&saver->env, now.last_path);
    hs__free(&session->env, now.restored_from);
    hs__free(&saver->env, all.items);
    hs__free(&saver->env, all.states);
    hs__free(&saver->env, all.data);
    hs__bundle_reader_close(&reader);
    return code;
}

hs_code hs_saver_restore(hs_saver *saver, hs_raw_session *session, const char *prefix, hs_error *err)
{
    hs_error_clear(err);
    if (!saver || !session || !session->handle || !prefix || !*prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_restore: %s",
                            !saver                ? "the saver is NULL"
                            : !prefix || !*prefix ? "no checkpoint is named"
                                                  : "there is no session");
    hs__restore_fault whose;
    hs_code code = hs__restore(saver, session, prefix, &whose, err);
    if (!code)
        hs_error_clear(err);
    return code;
}
