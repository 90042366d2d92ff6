/* SPDX-License-Identifier: Apache-2.0 */
/* Truncates the file when the session opens, appends after each run, and flushes at step boundaries. */
#include "losses.h"

#include <errno.h>
#include <unistd.h>

static hs_code failed(const struct losses *losses, hs_error *err)
{
    return hs_error_set_errno(err, errno, "%s", losses->path);
}

/* Returns the step of the next line; -1 at the end of the file, or if the line does not have a step and a loss. */
static long long next_step(FILE *file)
{
    char line[128], newline = 0;
    long long step;
    if (!fgets(line, sizeof line, file) || sscanf(line, "%lld %*a%c", &step, &newline) != 2 || newline != '\n')
        return -1;
    return step;
}

/* Removes the lines after `step`. */
static hs_code truncate_after(const struct losses *losses, const hs_env *env, int64_t step, hs_error *err)
{
    FILE *file = losses->file;
    rewind(file); /* writes what is buffered */
    bool empty = getc(file) == EOF;
    rewind(file);
    if (!empty && next_step(file) < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "losses file '%s': its first line is not 'STEP LOSS'; not changed, choose another file",
                            losses->path);
    rewind(file);
    long end = 0;
    int64_t last = 0;
    for (long long at; (at = next_step(file)) >= 0 && at <= step; last = at)
        end = ftell(file);
    if (fseek(file, 0, SEEK_END) != 0)
        return failed(losses, err);
    if (ftell(file) > end && ftruncate(fileno(file), end) != 0)
        return failed(losses, err);
    if (last < step)
        hs_log(env, HS_LOG_WARNING, "%s: the losses of steps %lld to %lld are missing", losses->path, (long long)last + 1,
               (long long)step);
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    struct losses *losses = self;
    (void)coordinator;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    losses->last = step;
    if (hs_raw_session_rank(session) != 0)
        return HS_OK;
    if (!(losses->file = fopen(losses->path, "a+")))
        return failed(losses, err);
    return truncate_after(losses, hs_backend_env(hs_raw_session_backend(session)), step, err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    struct losses *losses = self;
    (void)run, (void)err;
    losses->names[0] = losses->tensor ? losses->tensor : "loss";
    losses->wanted = (hs_run_args)HS_INIT(hs_run_args, .names = losses->names);
    *args = &losses->wanted;
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    struct losses *losses = self;
    const hs_env *env = hs_backend_env(hs_raw_session_backend(hs_run_context_session(run)));
    int64_t step = hs_run_context_global_step(run, err);
    hs_code code = step < 0 ? err->code : HS_OK;
    if (code || !losses->file)
        return code;
    if (step <= losses->last && (code = truncate_after(losses, env, step - 1, err)))
        return code;
    losses->last = step;
    return fprintf(losses->file, "%lld %a\n", (long long)step, hs_run_values_number(values, 0)) < 0 ? failed(losses, err)
                                                                                                    : HS_OK;
}

/* Runs before the boundary callback of the checkpoint saver, which is later in the list of hooks. */
static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    struct losses *losses = self;
    (void)run;
    if (!losses->file)
        return HS_OK;
    if (fflush(losses->file) != 0 || (fsync(fileno(losses->file)) != 0 && errno != EINVAL))
        return failed(losses, err);
    return HS_OK;
}

static void close_file(void *self, const hs_outcome *outcome)
{
    struct losses *losses = self;
    (void)outcome;
    if (losses->file)
        fclose(losses->file);
    losses->file = NULL;
}

hs_hook losses_hook(struct losses *losses)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "losses", .after_create_session = after_create_session, .before_run = before_run,
                .after_run = after_run, .boundary = boundary, .close = close_file);
    return (hs_hook){.ops = &ops, .self = losses};
}
