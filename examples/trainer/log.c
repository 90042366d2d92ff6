/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdio.h>
#include <string.h>

static bool is_rate(const char *text)
{
    static const char unit[] = " steps/s";
    size_t bytes = strlen(text), n = sizeof unit - 1;
    return bytes > n && strcmp(text + bytes - n, unit) == 0;
}

static void write_line(void *user, hs_log_level level, const char *text)
{
    static const char *const marks[] = {"", "", "warning: ", "error: "};
    struct log *log = user;
    if (level < HS_LOG_INFO || is_rate(text) || strstr(text, LOG_MISFIT))
        return;
    char line[4096];
    if (snprintf(line, sizeof line, "%s%s", marks[level], text) < 0)
        return;
    if (log->progress.ops)
        hs_progress_print(log->progress, line);
    else
        fprintf(stderr, "%s\n", line);
}

void log_init(struct log *log)
{
    *log = (struct log){.env = HS_INIT(hs_env, .logger = {write_line, log})};
}

void log_free(struct log *log)
{
    if (log->progress.ops)
        hs_hook_free(log->progress);
    log->progress = (hs_hook){.ops = NULL};
}

hs_hook log_progress(struct log *log, int64_t last_step)
{
    log_free(log);
    log->progress = hs_hook_hold(hs_progress(.last_step = last_step, .tensors = HS_NAMES("loss")));
    return log->progress;
}
