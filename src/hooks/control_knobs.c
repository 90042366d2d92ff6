/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/control_knobs.h"

#include "base/error.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double LARGEST_INTEGER = 9007199254740992.0; /* 2^53 */

/* Checking. */

static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
    size_t length = name ? strlen(name) : 0;
    return length > 0 && length <= HS__KNOB_NAME && strspn(name, letters) == length;
}

static hs_code check(const hs_knob *knob, hs_error *err)
{
    if (!is_name(knob->name))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "'%.70s' is not a knob's name; use 1 to %d letters, digits and characters of '_-./'",
                            knob->name ? knob->name : "", HS__KNOB_NAME);
    if (!knob->value && !knob->set)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "knob '%s' has neither value nor set", knob->name);
    if (knob->kind < HS_KNOB_NUMBER || knob->kind > HS_KNOB_BOOL)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "knob '%s': kind is %d, not an hs_knob_kind", knob->name,
                            (int)knob->kind);
    if (!(knob->min <= knob->max))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "knob '%s': min is %g and max is %g; min must not be above max",
                            knob->name, knob->min, knob->max);
    return HS_OK;
}

hs_code hs__knobs_check(const hs_knob *given, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && given && given[i].name; i++) {
        code = check(&given[i], err);
        for (size_t k = 0; !code && k < i; k++)
            if (strcmp(given[i].name, given[k].name) == 0)
                code = hs_error_set(err, HS_INVALID_ARGUMENT, "two knobs are named '%s'", given[i].name);
    }
    return code;
}

void hs__knobs_copy(hs__knobs *to, const hs_knob *given)
{
    for (size_t i = 0; i < to->n; i++) {
        to->list[i] = (hs__knob){.knob = given[i]};
        snprintf(to->list[i].name, sizeof to->list[i].name, "%s", given[i].name);
        to->list[i].knob.name = to->list[i].name;
    }
}

void hs__knobs_reset(hs__knobs *knobs)
{
    for (size_t i = 0; i < knobs->n; i++)
        knobs->list[i].is_set = knobs->list[i].has_before = false;
}

hs__knob *hs__knob_find(const hs__knobs *knobs, const char *name)
{
    for (size_t i = 0; i < knobs->n; i++)
        if (strcmp(knobs->list[i].name, name) == 0)
            return &knobs->list[i];
    return NULL;
}

/* Values. */

/* Returns false if the value is not known: the knob has no `value`, and was not set. */
static bool value_of(const hs__knob *knob, double *value)
{
    const void *at = knob->knob.value;
    if (!at)
        *value = knob->now;
    else if (knob->knob.kind == HS_KNOB_NUMBER)
        *value = *(const double *)at;
    else if (knob->knob.kind == HS_KNOB_INTEGER)
        *value = (double)*(const int64_t *)at;
    else
        *value = *(const bool *)at;
    return at || knob->is_set;
}

void hs__knob_text(const hs__knob *knob, char *to, size_t room)
{
    double value;
    if (!value_of(knob, &value))
        snprintf(to, room, "unknown");
    else if (knob->knob.kind == HS_KNOB_BOOL)
        snprintf(to, room, "%s", value != 0 ? "true" : "false");
    else
        snprintf(to, room, "%.16g", value);
}

/* Refuses values that the knob cannot have. */
static hs_code check_value(const hs__knob *knob, double value, hs_error *err)
{
    const hs_knob *k = &knob->knob;
    bool limited = k->min != 0 || k->max != 0;
    if (!isfinite(value))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "it is not finite");
    if (k->kind == HS_KNOB_BOOL && value != 0 && value != 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' must be true or false", k->name);
    if (k->kind == HS_KNOB_INTEGER && (value != floor(value) || fabs(value) > LARGEST_INTEGER))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' must be an integer within +-2^53", k->name);
    if (limited && (value < k->min || value > k->max))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' must be from %g to %g", k->name, k->min, k->max);
    return HS_OK;
}

static hs_knob_value of_kind(hs_knob_kind kind, double value)
{
    if (kind == HS_KNOB_NUMBER)
        return (hs_knob_value){.number = value};
    return kind == HS_KNOB_INTEGER ? (hs_knob_value){.integer = (int64_t)value} : (hs_knob_value){.truth = value != 0};
}

/* Calls the knob's `set` first: a value that it refuses is not stored. */
static hs_code store(hs__knob *knob, double number, hs_error *err)
{
    void *at = knob->knob.value;
    const hs_knob_value value = of_kind(knob->knob.kind, number);
    hs_code code = knob->knob.set ? knob->knob.set(knob->knob.user, value, err) : HS_OK;
    if (code) {
        if (err && (!err->code || !err->message[0]))
            hs_error_set(err, code, "set failed with %s", hs_code_name(code));
        return code;
    }
    if (at && knob->knob.kind == HS_KNOB_NUMBER)
        *(double *)at = value.number;
    else if (at && knob->knob.kind == HS_KNOB_INTEGER)
        *(int64_t *)at = value.integer;
    else if (at)
        *(bool *)at = value.truth;
    return HS_OK;
}

static hs_code set(hs__knob *knob, double value, hs_error *err)
{
    double before;
    bool knows = value_of(knob, &before);
    hs_code code = check_value(knob, value, err);
    if (code || (code = store(knob, value, err)))
        return code;
    if (!knob->is_set) {
        knob->has_before = knows;
        knob->before = before;
    }
    knob->is_set = true;
    knob->now = value;
    return HS_OK;
}

/* Parses JSON, so that the locale does not matter. */
hs_code hs__knob_set_text(hs__knob *knob, const char *text, hs_error *err)
{
    json_error_t cause;
    json_t *value = hs__json_load(text, strlen(text), JSON_DECODE_ANY, &cause);
    if (!value && hs__json_no_memory(&cause))
        return hs__no_memory(err, strlen(text), "a JSON value");
    bool is_bool = json_is_boolean(value), is_number = json_is_number(value);
    double number = is_bool ? json_is_true(value) : json_number_value(value);
    json_decref(value);
    if (!is_number && !is_bool)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the value is not a finite number");
    if (is_bool && knob->knob.kind != HS_KNOB_BOOL)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' must be a number", knob->name);
    return set(knob, number, err);
}

/* State: the number of knobs that are set, and for each the length of its name, the name and the value. */

hs_code hs__knobs_save(const hs__knobs *knobs, hs_state_writer *out, hs_error *err)
{
    uint64_t n = 0;
    for (size_t i = 0; i < knobs->n; i++)
        n += knobs->list[i].is_set;
    hs_code code = hs_state_writer_write(out, &n, sizeof n, err);
    for (size_t i = 0; !code && i < knobs->n; i++) {
        const hs__knob *knob = &knobs->list[i];
        uint64_t length = strlen(knob->name);
        double value = knob->now;
        if (!knob->is_set)
            continue;
        value_of(knob, &value);
        if ((code = hs_state_writer_write(out, &length, sizeof length, err)) ||
            (code = hs_state_writer_write(out, knob->name, length, err)))
            return code;
        code = hs_state_writer_write(out, &value, sizeof value, err);
    }
    return code;
}

static hs_code read_one(hs_state_reader *in, char *name, double *value, hs_error *err)
{
    uint64_t length;
    hs_code code = hs_state_reader_read(in, &length, sizeof length, err);
    if (code)
        return code;
    if (!length || length > HS__KNOB_NAME)
        return hs_error_set(err, HS_DATA_LOSS, "a knob's name has %llu bytes", (unsigned long long)length);
    if ((code = hs_state_reader_read(in, name, length, err)))
        return code;
    name[length] = '\0';
    if (!is_name(name) || strlen(name) != length)
        return hs_error_set(err, HS_DATA_LOSS, "a knob's name is invalid");
    return hs_state_reader_read(in, value, sizeof *value, err);
}

/* A value that no longer fits is not an error: the program has changed the knob's limits. */
static void restore(hs__knob *knob, double value, const hs_env *env)
{
    char before[32], now[32];
    hs_error error = {0};
    hs__knob_text(knob, before, sizeof before);
    if (set(knob, value, &error)) {
        hs_log(env, HS_LOG_WARNING, "control: '%s' not changed (still %s): the checkpoint's value %.16g is refused: %s",
               knob->name, before, value, error.message);
        return;
    }
    hs__knob_text(knob, now, sizeof now);
    hs_log(env, HS_LOG_INFO, "control: '%s' set from %s to %s, as in the checkpoint", knob->name, before, now);
}

/* For a knob that was set after the checkpoint was saved. */
static void undo(hs__knob *knob, const hs_env *env)
{
    char before[32], now[32];
    hs_error error = {0};
    if (!knob->has_before)
        return;
    hs__knob_text(knob, before, sizeof before);
    if (store(knob, knob->before, &error)) {
        hs_log(env, HS_LOG_WARNING, "control: '%s' not changed (still %s): %s", knob->name, before, error.message);
        return;
    }
    knob->is_set = false;
    hs__knob_text(knob, now, sizeof now);
    hs_log(env, HS_LOG_WARNING, "control: '%s' reset from %s to %s", knob->name, before, now);
}

hs_code hs__knobs_load(hs__knobs *knobs, const hs_env *env, hs_state_reader *in, hs_error *err)
{
    uint64_t n;
    hs_code code = hs_state_reader_read(in, &n, sizeof n, err);
    if (code)
        return code;
    for (size_t i = 0; i < knobs->n; i++)
        knobs->list[i].is_restored = false;
    for (; n; n--) {
        char name[HS__KNOB_NAME + 1];
        double value;
        if ((code = read_one(in, name, &value, err)))
            return code;
        hs__knob *knob = hs__knob_find(knobs, name);
        if (!knob) {
            hs_log(env, HS_LOG_INFO, "control: the checkpoint has %s=%.16g, which is not a knob of this program; ignored",
                   name, value);
            continue;
        }
        restore(knob, value, env);
        knob->is_restored = true;
    }
    for (size_t i = 0; i < knobs->n; i++)
        if (knobs->list[i].is_set && !knobs->list[i].is_restored)
            undo(&knobs->list[i], env);
    return HS_OK;
}
