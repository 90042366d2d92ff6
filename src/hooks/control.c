/* SPDX-License-Identifier: Apache-2.0 */
/* The hook that obeys orders in a file. after_run reads the file once in a second (poll_file) and executes its lines
 * (execute_order). An order to set a knob ends in set_knob; in a group, the boundary sets the knob on all ranks. */
#define _POSIX_C_SOURCE 200809L /* lstat, O_NOFOLLOW, getline */
#include <hooksess/hooks/control.h>

#include "base/c_locale.h"
#include "base/json_reader.h"
#include "base/redirect_posix.h"
#include "hooks/make.h"
#include "hooks/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The knobs: numbers of the program that an order may change during training. */

static const double LARGEST_INTEGER = 9007199254740992.0; /* 2^53 */
enum { LONGEST_NAME = 64 };

typedef struct {
    hs_knob knob; /* knob.name points to `name` */
    char name[LONGEST_NAME + 1];
    bool is_set;      /* by an order or a checkpoint */
    bool is_restored; /* by the checkpoint that is being loaded */
    bool is_pending;  /* in a group: an order to set it to `pending` was read */
    double now;       /* the value that was set */
    double pending;
    bool has_before; /* `before` is known: the value before the knob was first set */
    double before;
} knob_state;

static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
    size_t length = strlen(name);
    return length > 0 && length <= LONGEST_NAME && strspn(name, letters) == length;
}

/* Returns false if the value is not known: the knob has no `value`, and was not set. */
static bool value_of(const knob_state *knob, double *value)
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

/* Formats the value. `room` is at least 32 bytes. "unknown": the knob has no `value`, and was not set. */
static void format_knob(const knob_state *knob, char *to, size_t room)
{
    double value;
    if (!value_of(knob, &value))
        snprintf(to, room, "unknown");
    else if (knob->knob.kind == HS_KNOB_BOOL)
        snprintf(to, room, "%s", value != 0 ? "true" : "false");
    else
        hs__snprintf(to, room, "%.16g", value);
}

/* Checks a value against the knob's kind and limits. */
static hs_code check_value(const knob_state *knob, double value, hs_error *err)
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

/* Calls the knob's `set`, then stores the value. A value that `set` refuses is not stored. */
static hs_code store_value(knob_state *knob, double number, hs_error *err)
{
    void *at = knob->knob.value;
    const hs_knob_kind kind = knob->knob.kind;
    const hs_knob_value value = kind == HS_KNOB_NUMBER    ? (hs_knob_value){.number = number}
                                : kind == HS_KNOB_INTEGER ? (hs_knob_value){.integer = (int64_t)number}
                                                          : (hs_knob_value){.truth = number != 0};
    hs_code code = knob->knob.set ? knob->knob.set(knob->knob.user, value, err) : HS_OK;
    if (code) {
        if (err && (!err->code || !err->message[0]))
            hs_error_set(err, code, "set failed with %s", hs_code_name(code));
        return code;
    }
    if (at && kind == HS_KNOB_NUMBER)
        *(double *)at = value.number;
    else if (at && kind == HS_KNOB_INTEGER)
        *(int64_t *)at = value.integer;
    else if (at)
        *(bool *)at = value.truth;
    return HS_OK;
}

static hs_code set_value(knob_state *knob, double value, hs_error *err)
{
    double before;
    bool knows = value_of(knob, &before);
    hs_code code = check_value(knob, value, err);
    if (code || (code = store_value(knob, value, err)))
        return code;
    if (!knob->is_set) {
        knob->has_before = knows;
        knob->before = before;
    }
    knob->is_set = true;
    knob->now = value;
    return HS_OK;
}

/* Parses the VALUE of an order, as JSON, so that the locale does not matter. HS_INVALID_ARGUMENT: it is not a value of this
 * knob. */
static hs_code parse_value(const knob_state *knob, const char *text, double *number, hs_error *err)
{
    hs__json_value value = {NULL, 0};
    hs__json_fault fault;
    bool is_json = hs__json_check(text, strlen(text), &value, &fault);
    bool is_bool = is_json && (hs__json_is(value, 't') || hs__json_is(value, 'f'));
    *number = is_bool && hs__json_is(value, 't');
    if (!is_bool && !(is_json && hs__json_number(value, number)))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the value is not a finite number");
    if (is_bool && knob->knob.kind != HS_KNOB_BOOL)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' must be a number", knob->name);
    return check_value(knob, *number, err);
}

/* The hook. */

/* The message from rank 0 to the other ranks. */
typedef struct {
    int64_t is_set;
    double value;
} change;

static const char SPACES[] = " \t\r";
static const int64_t POLL_NS = 1000000000; /* between reads of the file */

typedef struct {
    hs__hook_base base;
    knob_state *knobs;
    change *changes; /* one for each knob */
    size_t n_knobs;
    char *path, *tmp, *summary_dir; /* the file is renamed to `tmp` before it is read */
    const char *refused; /* why the file was not read in the last poll, which is logged once. NULL: it was read */
    int64_t polled_ns;
    bool has_polled;
    hs_summary_writer *writer;
    const hs_env *session_env;
    bool in_group;
    int32_t rank;
} control;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    control *hook = self;
    (void)err;
    hook->session_env = hs_backend_env(backend);
    hook->has_polled = false;
    hook->writer = NULL;
    hook->refused = NULL;
    for (size_t i = 0; i < hook->n_knobs; i++)
        hook->knobs[i].is_set = hook->knobs[i].has_before = hook->knobs[i].is_pending = false;
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    control *hook = self;
    (void)coordinator;
    hook->rank = hs_raw_session_rank(session);
    hook->in_group = hs_raw_session_rank_count(session) > 1;
    if (hook->rank)
        return HS_OK;
    return hs_raw_session_event_writer(session, hook->summary_dir, NULL, &hook->writer, err);
}

/* NULL: no knob has this name. */
static knob_state *find_knob(const control *hook, const char *name)
{
    for (size_t i = 0; i < hook->n_knobs; i++)
        if (strcmp(hook->knobs[i].name, name) == 0)
            return &hook->knobs[i];
    return NULL;
}

/* Orders. */

static void refuse_order(const control *hook, const char *order, const char *why)
{
    hs_log(hook->session_env, HS_LOG_WARNING, "%s: '%.60s%s' ignored: %s", hook->path, order,
           strlen(order) > 60 ? "..." : "", why);
}

/* Returns false if the knob's `set` refuses the value. */
static bool set_knob(control *hook, hs_run_context *run, knob_state *knob, double value, const char *order)
{
    char before[32], now[32], tag[LONGEST_NAME + 16];
    hs_error error = {0};
    int64_t step = hs_run_context_global_step(run, NULL);
    format_knob(knob, before, sizeof before);
    if (set_value(knob, value, &error)) {
        refuse_order(hook, order, error.message);
        return false;
    }
    format_knob(knob, now, sizeof now);
    hs_log(hook->session_env, HS_LOG_INFO, "step %lld: '%s' set from %s to %s by %s", (long long)step, knob->name, before,
           now, hook->path);
    snprintf(tag, sizeof tag, "control/%s", knob->name);
    if (hook->writer && hs_summary_writer_scalar(hook->writer, tag, knob->now, step < 0 ? 0 : step, &error))
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: cannot write %s to the event file: %s", (long long)step, tag,
               error.message);
    return true;
}

/* Executes NAME=VALUE. Spaces around both are allowed. */
static void execute_set(control *hook, hs_run_context *run, const char *assignment, const char *order)
{
    char name[LONGEST_NAME + 1];
    double value = 0;
    hs_error error = {0};
    const char *equals = strchr(assignment, '=');
    size_t length = strcspn(assignment, " \t\r=");
    if (!equals || strspn(assignment + length, SPACES) != (size_t)(equals - assignment) - length) {
        refuse_order(hook, order, "expected 'set NAME=VALUE'");
        return;
    }
    knob_state *knob = NULL;
    if (length <= LONGEST_NAME) {
        memcpy(name, assignment, length);
        name[length] = '\0';
        knob = find_knob(hook, name);
    }
    if (!knob) {
        refuse_order(hook, order, "no knob has this name");
    } else if (parse_value(knob, equals + 1, &value, &error)) {
        refuse_order(hook, order, error.message);
    } else if (hook->in_group) { /* the boundary sets the knob on all ranks */
        knob->is_pending = true;
        knob->pending = value;
        hs_run_context_request_boundary(run);
    } else {
        set_knob(hook, run, knob, value, order);
    }
}

static bool is_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    return strncmp(text, word, length) == 0 && text[length + strspn(text + length, SPACES)] == '\0';
}

static void execute_order(control *hook, hs_run_context *run, const char *text)
{
    const char *order = text + strspn(text, SPACES);
    if (is_word(order, "save")) {
        hs_log(hook->session_env, HS_LOG_INFO, "step %lld: saving, requested by %s",
               (long long)hs_run_context_global_step(run, NULL), hook->path);
        hs_run_context_request_save(run);
    } else if (is_word(order, "stop")) {
        hs_log(hook->session_env, HS_LOG_INFO, "step %lld: stopping, requested by %s",
               (long long)hs_run_context_global_step(run, NULL), hook->path);
        hs_run_context_interrupt(run);
    } else if (strncmp(order, "set", 3) == 0 && (order[3] == ' ' || order[3] == '\t')) {
        execute_set(hook, run, order + 3 + strspn(order + 3, SPACES), order);
    } else if (*order) {
        refuse_order(hook, order, "expected 'save', 'stop' or 'set NAME=VALUE'");
    }
}

/* The file. It is read with the operating system's functions, never blocks, and may appear at any time. Problems are
 * logged, not returned. */

enum { MOST_BYTES = 64 << 10, LONGEST_LINE = 1000 };

/* Returns the reason why the file must not be read. NULL: it may be read. */
static const char *reason_to_refuse(const struct stat *found)
{
    return S_ISLNK(found->st_mode)                ? "it is a symbolic link"
           : !S_ISREG(found->st_mode)             ? "it is not a regular file"
           : found->st_uid != geteuid()           ? "it belongs to another user"
           : found->st_mode & (S_IWGRP | S_IWOTH) ? "other users may write to it (run chmod go-w)"
           : found->st_size > MOST_BYTES          ? "it is larger than 64 KiB"
                                                  : NULL;
}

/* NULL: it cannot be opened, or another file has replaced the one that was checked. */
static FILE *open_file(const char *path)
{
    struct stat found;
    int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0)
        return NULL;
    FILE *file = fstat(descriptor, &found) == 0 && !reason_to_refuse(&found) ? fdopen(descriptor, "r") : NULL;
    if (!file)
        close(descriptor);
    return file;
}

static void read_lines(control *hook, hs_run_context *run, FILE *file)
{
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t n; (n = getline(&line, &capacity, file)) > 0;) {
        if (line[n - 1] != '\n') { /* it may be incomplete */
            refuse_order(hook, line, "the line does not end with a newline");
            continue;
        }
        line[n - 1] = '\0';
        if (n > LONGEST_LINE + 1)
            refuse_order(hook, line, "the line is too long");
        else if (strlen(line) + 1 < (size_t)n)
            refuse_order(hook, line, "the line contains a zero byte");
        else
            execute_order(hook, run, line);
    }
    if (ferror(file))
        hs_log(hook->session_env, HS_LOG_WARNING, "%s: the last lines cannot be read", hook->path);
    free(line);
}

/* Renames the file before it reads it, so that orders in a file that replaces it are not lost. */
static void poll_file(control *hook, hs_run_context *run)
{
    char path_buffer[PATH_MAX], tmp_buffer[PATH_MAX];
    const char *path = hs__redirected(hook->path, path_buffer), *tmp = hs__redirected(hook->tmp, tmp_buffer);
    struct stat found;
    FILE *file = NULL;
    const char *why = NULL;
    hs_error error = {0};
    if (lstat(path, &found) == 0 &&
        !(S_ISREG(found.st_mode) && !found.st_size)) { /* empty: the writer has just created it */
        if (!(why = reason_to_refuse(&found)) && rename(path, tmp) != 0)
            hs_error_set_errno(&error, errno, "%s", why = "it cannot be renamed");
        if (!why) {
            if (!(file = open_file(tmp)))
                why = "it cannot be opened, or another file has replaced it";
            unlink(tmp);
        }
    }
    if (why && why != hook->refused)
        hs_log(hook->session_env, HS_LOG_WARNING, "%s is not read: %s", hook->path, error.code ? error.message : why);
    hook->refused = why;
    if (file) {
        read_lines(hook, run, file);
        fclose(file);
    }
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    control *hook = self;
    int64_t now_ns = hs_run_context_now(run);
    (void)values, (void)err;
    if (hook->rank || (hook->has_polled && now_ns - hook->polled_ns < POLL_NS))
        return HS_OK;
    hook->has_polled = true;
    hook->polled_ns = now_ns;
    poll_file(hook, run);
    return HS_OK;
}

/* In a group: sets the knobs for which rank 0 has read orders, first on rank 0, then on the other ranks. */
static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    control *hook = self;
    hs_raw_session *session = hs_run_context_session(run);
    bool any = false;
    if (!hook->in_group || hs_run_context_boundary(run) != HS_BOUNDARY_RUN)
        return HS_OK;
    for (size_t i = 0; i < hook->n_knobs && !hook->rank; i++) {
        knob_state *knob = &hook->knobs[i];
        char order[LONGEST_NAME + 48];
        hs__snprintf(order, sizeof order, "set %s=%.16g", knob->name, knob->pending);
        bool is_set = knob->is_pending && set_knob(hook, run, knob, knob->pending, order);
        hook->changes[i] = (change){is_set, knob->pending};
        knob->is_pending = false;
        any |= is_set;
    }
    hs_code code = hs_raw_session_any(session, any, &any, err);
    if (!code && any)
        code = hs_raw_session_from_chief(session, hook->changes, hook->n_knobs * sizeof *hook->changes, err);
    for (size_t i = 0; i < hook->n_knobs && !code && any && hook->rank; i++) {
        if (hook->changes[i].is_set && (code = set_value(&hook->knobs[i], hook->changes[i].value, err)))
            hs_error_prefix(err, "knob '%s' is set to %.16g on rank 0, but not on this rank", hook->knobs[i].name,
                            hook->changes[i].value);
    }
    return code;
}

/* State: the number of knobs that are set, and for each the length of its name, the name and the value. */

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const control *hook = self;
    uint64_t n = 0;
    for (size_t i = 0; i < hook->n_knobs; i++)
        n += hook->knobs[i].is_set;
    hs_code code = hs_state_writer_write(out, &n, sizeof n, err);
    for (size_t i = 0; !code && i < hook->n_knobs; i++) {
        const knob_state *knob = &hook->knobs[i];
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

static hs_code read_knob(hs_state_reader *in, char *name, double *value, hs_error *err)
{
    uint64_t length;
    hs_code code = hs_state_reader_read(in, &length, sizeof length, err);
    if (code)
        return code;
    if (!length || length > LONGEST_NAME)
        return hs_error_set(err, HS_DATA_LOSS, "a knob's name has %llu bytes", (unsigned long long)length);
    if ((code = hs_state_reader_read(in, name, length, err)))
        return code;
    name[length] = '\0';
    if (!is_name(name) || strlen(name) != length)
        return hs_error_set(err, HS_DATA_LOSS, "a knob's name is invalid");
    return hs_state_reader_read(in, value, sizeof *value, err);
}

/* Sets the knob to the checkpoint's value. If the knob refuses it, logs a warning and does not fail: the program may have
 * changed the knob's limits. */
static void restore_knob(knob_state *knob, double value, const hs_env *env)
{
    char before[32], now[32];
    hs_error error = {0};
    format_knob(knob, before, sizeof before);
    if (set_value(knob, value, &error)) {
        hs_log(env, HS_LOG_WARNING, "control: '%s' not changed (still %s): the checkpoint's value %.16g is refused: %s",
               knob->name, before, value, error.message);
        return;
    }
    format_knob(knob, now, sizeof now);
    hs_log(env, HS_LOG_INFO, "control: '%s' set from %s to %s, as in the checkpoint", knob->name, before, now);
}

/* Undoes an order that was given after the checkpoint was saved. */
static void undo_knob(knob_state *knob, const hs_env *env)
{
    char before[32], now[32];
    hs_error error = {0};
    if (!knob->has_before)
        return;
    format_knob(knob, before, sizeof before);
    if (store_value(knob, knob->before, &error)) {
        hs_log(env, HS_LOG_WARNING, "control: '%s' not changed (still %s): %s", knob->name, before, error.message);
        return;
    }
    knob->is_set = false;
    format_knob(knob, now, sizeof now);
    hs_log(env, HS_LOG_WARNING, "control: '%s' reset from %s to %s", knob->name, before, now);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    control *hook = self;
    const hs_env *env = hook->session_env;
    uint64_t n;
    hs_code code = hs_state_reader_read(in, &n, sizeof n, err);
    if (code)
        return code;
    for (size_t i = 0; i < hook->n_knobs; i++)
        hook->knobs[i].is_restored = false;
    for (; n; n--) {
        char name[LONGEST_NAME + 1];
        double value;
        if ((code = read_knob(in, name, &value, err)))
            return code;
        knob_state *knob = find_knob(hook, name);
        if (!knob) {
            hs_log(env, HS_LOG_INFO, "control: the checkpoint has %s=%.16g, which is not a knob of this program; ignored",
                   name, value);
            continue;
        }
        restore_knob(knob, value, env);
        knob->is_restored = true;
    }
    for (size_t i = 0; i < hook->n_knobs; i++)
        if (hook->knobs[i].is_set && !hook->knobs[i].is_restored)
            undo_knob(&hook->knobs[i], env);
    return HS_OK;
}

static void destroy(void *self)
{
    control *hook = self;
    hs_env_free(&hook->base.env, hook->knobs);
    hs_env_free(&hook->base.env, hook->changes);
    hs_env_free(&hook->base.env, hook->summary_dir);
    hs_env_free(&hook->base.env, hook->tmp);
    hs_env_free(&hook->base.env, hook->path);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "control", .begin = begin, .after_create_session = after_create_session,
            .after_run = after_run, .boundary = boundary, .save_state = save_state, .load_state = load_state,
            .destroy = destroy, .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_control_options *options = given;
    if (!options->path || !*options->path)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "path is missing; name the file that orders are written to");
    for (const hs_knob *knob = options->knobs; knob && knob->name; knob++) {
        if (!is_name(knob->name))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "'%.70s' is not a knob's name; use 1 to %d letters, digits and characters of '_-./'",
                                knob->name, LONGEST_NAME);
        if (!knob->value && !knob->set)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "knob '%s' has neither value nor set", knob->name);
        if (knob->kind < HS_KNOB_NUMBER || knob->kind > HS_KNOB_BOOL)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "knob '%s': kind is %d, not an hs_knob_kind", knob->name,
                                (int)knob->kind);
        if (!(knob->min <= knob->max))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "knob '%s': min is %g and max is %g; min must not be above max",
                                knob->name, knob->min, knob->max);
        for (const hs_knob *other = options->knobs; other < knob; other++)
            if (strcmp(knob->name, other->name) == 0)
                return hs_error_set(err, HS_INVALID_ARGUMENT, "two knobs are named '%s'", knob->name);
    }
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    control *hook = self;
    const hs_control_options *options = given;
    static const char ending[] = ".taken";
    hook->base.flags = HS_HOOK_ALL_RANKS;
    size_t length = strlen(options->path);
    if (!(hook->path = hs__hook_text(hook, options->path, err)) ||
        (options->summary_dir && !(hook->summary_dir = hs__hook_text(hook, options->summary_dir, err))))
        return HS_RESOURCE_EXHAUSTED;
    if (!(hook->tmp = hs_env_alloc(&hook->base.env, length + sizeof ending)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a path");
    memcpy(hook->tmp, options->path, length);
    memcpy(hook->tmp + length, ending, sizeof ending);

    size_t n = 0;
    while (options->knobs && options->knobs[n].name)
        n++;
    if (n && (!(hook->knobs = hs_env_alloc(&hook->base.env, n * sizeof *hook->knobs)) ||
              !(hook->changes = hs_env_alloc(&hook->base.env, n * sizeof *hook->changes))))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %zu knobs", n);
    hook->n_knobs = n;
    for (size_t i = 0; i < n; i++) {
        knob_state *knob = &hook->knobs[i];
        *knob = (knob_state){.knob = options->knobs[i]};
        snprintf(knob->name, sizeof knob->name, "%s", options->knobs[i].name);
        knob->knob.name = knob->name;
        hs__buffer_text(&hook->base.rank_identity, "knob '%s': kind %d, min %.17g, max %.17g\n", knob->name,
                        (int)knob->knob.kind, knob->knob.min, knob->knob.max);
    }
    return HS_OK;
}

hs_hook hs_control_hook(const hs_control_options *given)
{
    return HS__HOOK_MAKE(&ops, control, hs_control_options, summary_dir, check, fill, NULL, given);
}
