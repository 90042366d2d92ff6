/* SPDX-License-Identifier: Apache-2.0 */
#include "losses.h"

#include <errno.h>
#include <unistd.h>

static hs_code failed(const struct losses *losses, hs_error *err)
{
    return hs_error_set_errno(err, errno, "%s", losses->path);
}

/* The step of the next line; -1 at the end, and where it is no line of losses. */
static long long next_step(FILE *file)
{
    char line[128], newline = 0;
    long long step;
    if (!fgets(line, sizeof line, file) || sscanf(line, "%lld %*a%c", &step, &newline) != 2 || newline != '\n')
        return -1;
    return step;
}

/* Where the lines up to `step` end. *last is the step of the last of them. */
static long end_of(FILE *file, int64_t step, int64_t *last)
{
    long end = 0;
    *last = 0;
    for (long long at; (at = next_step(file)) >= 0 && at <= step; *last = at)
        end = ftell(file);
    return end;
}

/* Some other file that was named by mistake is left alone. */
static hs_code check_first(const struct losses *losses, hs_error *err)
{
    bool empty = getc(losses->file) == EOF;
    rewind(losses->file);
    bool good = empty || next_step(losses->file) >= 0;
    rewind(losses->file);
    if (good)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is no file of losses; it is left as it is", losses->path);
}

static hs_code cut_back(const struct losses *losses, const hs_env *env, int64_t step, hs_error *err)
{
    int64_t last;
    hs_code code = check_first(losses, err);
    if (code)
        return code;
    long keep = end_of(losses->file, step, &last);
    if (fseek(losses->file, 0, SEEK_END) != 0)
        return failed(losses, err);
    if (ftell(losses->file) > keep && ftruncate(fileno(losses->file), keep) != 0)
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
    const hs_group *group = hs_raw_session_group(session);
    bool writes = !group || group->ops->rank(group->self) == 0;
    if (!(losses->file = fopen(writes ? losses->path : "/dev/null", "a+")))
        return failed(losses, err);
    if (!writes)
        return HS_OK;
    return cut_back(losses, hs_backend_env(hs_raw_session_backend(session)), step, err);
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
    int64_t step = hs_run_context_global_step(run, err);
    if (step >= 0 && fprintf(losses->file, "%lld %a\n", (long long)step, hs_run_values_number(values, 0)) < 0)
        return failed(losses, err);
    return err->code;
}

/* Before the checkpoint saver's, which comes later in the list. */
static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    struct losses *losses = self;
    (void)run;
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
