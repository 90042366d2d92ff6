/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooks/control.h>

#include "hooks/control_file.h"
#include "hooks/control_knobs.h"
#include "hooks/make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char SPACES[] = " \t\r";
static const double LONGEST_POLL = 1e9;

typedef struct {
    hs__hook_base base;
    hs__control_file file;
    hs__knobs knobs;
    char *path, *tmp, *summary_dir;
    int64_t poll_ns, polled_ns;
    bool has_polled;
    hs_summary_writer *writer;
    const hs_env *session_env;
    hs_run_context *run; /* valid while orders are read */
} control;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    control *hook = self;
    (void)err;
    hook->session_env = hook->file.env = hs_backend_env(backend);
    hook->has_polled = false;
    hook->writer = NULL;
    hs__knobs_reset(&hook->knobs);
    hs__control_file_reset(&hook->file);
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    control *hook = self;
    (void)coordinator;
    return hs_raw_session_event_writer(session, hook->summary_dir, NULL, &hook->writer, err);
}

/* Orders. */

static int64_t step_of(hs_run_context *run)
{
    return hs_run_context_global_step(run, NULL);
}

static void refuse_order(control *hook, const char *order, const char *why)
{
    hs__control_log_refusal(&hook->file, order, strlen(order), why);
}

static void add_event(const control *hook, const hs__knob *knob, int64_t step)
{
    char tag[HS__KNOB_NAME + 16];
    hs_error error = {0};
    if (!hook->writer)
        return;
    snprintf(tag, sizeof tag, "control/%s", knob->name);
    if (hs_summary_writer_scalar(hook->writer, tag, knob->now, step < 0 ? 0 : step, &error))
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: cannot write %s to the event file: %s", (long long)step, tag,
               error.message);
}

static void set_knob(control *hook, hs__knob *knob, const char *value, const char *order)
{
    char before[32], now[32];
    hs_error error = {0};
    int64_t step = step_of(hook->run);
    hs__knob_text(knob, before, sizeof before);
    if (hs__knob_set_text(knob, value, &error)) {
        refuse_order(hook, order, error.message);
        return;
    }
    hs__knob_text(knob, now, sizeof now);
    hs_log(hook->session_env, HS_LOG_INFO, "step %lld: '%s' set from %s to %s by %s", (long long)step, knob->name, before,
           now, hook->path);
    add_event(hook, knob, step);
}

/* Parses NAME=VALUE. Spaces around both are allowed. */
static void parse_set(control *hook, const char *assignment, const char *order)
{
    char name[HS__KNOB_NAME + 1];
    const char *equals = strchr(assignment, '=');
    size_t length = strcspn(assignment, " \t\r=");
    if (!equals || strspn(assignment + length, SPACES) != (size_t)(equals - assignment) - length) {
        refuse_order(hook, order, "expected 'set NAME=VALUE'");
        return;
    }
    hs__knob *knob = NULL;
    if (length <= HS__KNOB_NAME) {
        memcpy(name, assignment, length);
        name[length] = '\0';
        knob = hs__knob_find(&hook->knobs, name);
    }
    if (knob)
        set_knob(hook, knob, equals + 1, order);
    else
        refuse_order(hook, order, "no knob has this name");
}

static bool is_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    return strncmp(text, word, length) == 0 && text[length + strspn(text + length, SPACES)] == '\0';
}

static void execute_order(void *user, const char *text)
{
    control *hook = user;
    const char *order = text + strspn(text, SPACES);
    if (is_word(order, "save")) {
        hs_log(hook->session_env, HS_LOG_INFO, "step %lld: saving, requested by %s", (long long)step_of(hook->run),
               hook->path);
        hs_raw_session_request_save(hs_run_context_session(hook->run));
    } else if (is_word(order, "stop")) {
        hs_log(hook->session_env, HS_LOG_INFO, "step %lld: stopping, requested by %s", (long long)step_of(hook->run),
               hook->path);
        hs_run_context_interrupt(hook->run);
    } else if (strncmp(order, "set", 3) == 0 && (order[3] == ' ' || order[3] == '\t')) {
        parse_set(hook, order + 3 + strspn(order + 3, SPACES), order);
    } else if (*order) {
        refuse_order(hook, order, "expected 'save', 'stop' or 'set NAME=VALUE'");
    }
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    control *hook = self;
    int64_t now_ns = hs_run_context_now(run);
    (void)values, (void)err;
    if (hook->has_polled && now_ns - hook->polled_ns < hook->poll_ns)
        return HS_OK;
    hook->has_polled = true;
    hook->polled_ns = now_ns;
    hook->run = run;
    hs__control_file_poll(&hook->file);
    hook->run = NULL;
    return HS_OK;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    return hs__knobs_save(&((const control *)self)->knobs, out, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    control *hook = self;
    return hs__knobs_load(&hook->knobs, hook->session_env, in, err);
}

static void close_control(void *self, const hs_outcome *outcome)
{
    (void)outcome;
    hs__control_file_reset(&((control *)self)->file);
}

static void destroy(void *self)
{
    control *hook = self;
    hs__control_file_reset(&hook->file);
    hs_env_free(&hook->base.env, hook->knobs.list);
    hs_env_free(&hook->base.env, hook->summary_dir);
    hs_env_free(&hook->base.env, hook->tmp);
    hs_env_free(&hook->base.env, hook->path);
    hs__hook_free(hook);
}

static const hs_hook_ops ops = HS_INIT(
    hs_hook_ops, .name = "control", .begin = begin, .after_create_session = after_create_session, .after_run = after_run,
    .close = close_control, .save_state = save_state, .load_state = load_state, .destroy = destroy);

static hs_code check(const void *given, hs_error *err)
{
    const hs_control_options *options = given;
    if (!options->path || !*options->path)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "path is missing; name the file that orders are written to");
    if (!(options->poll_secs >= 0))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "poll_secs is %g; it must be at least 0", options->poll_secs);
    return hs__knobs_check(options->knobs, err);
}

static hs_code copy_knobs(control *hook, const hs_control_options *options, hs_error *err)
{
    size_t n = 0;
    while (options->knobs && options->knobs[n].name)
        n++;
    if (n && !(hook->knobs.list = hs_env_alloc(&hook->base.env, n * sizeof *hook->knobs.list)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %zu knobs", n);
    hook->knobs.n = n;
    hs__knobs_copy(&hook->knobs, options->knobs);
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    control *hook = self;
    const hs_control_options *options = given;
    static const char ending[] = ".taken";
    hook->file.fifo = -1;
    double poll = options->poll_secs > 0 ? options->poll_secs : 1;
    hook->poll_ns = (int64_t)((poll < LONGEST_POLL ? poll : LONGEST_POLL) * 1e9);
    size_t length = strlen(options->path);
    if (!(hook->path = hs__hook_text(hook, options->path, err)) ||
        (options->summary_dir && !(hook->summary_dir = hs__hook_text(hook, options->summary_dir, err))))
        return HS_RESOURCE_EXHAUSTED;
    if (!(hook->tmp = hs_env_alloc(&hook->base.env, length + sizeof ending)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a path");
    memcpy(hook->tmp, options->path, length);
    memcpy(hook->tmp + length, ending, sizeof ending);
    hook->file.path = hook->path;
    hook->file.tmp = hook->tmp;
    hook->file.line = execute_order;
    hook->file.user = hook;
    return copy_knobs(hook, options, err);
}

hs_hook hs_control_hook(const hs_control_options *given)
{
    return HS__HOOK_MAKE(&ops, control, hs_control_options, check, fill, given);
}
