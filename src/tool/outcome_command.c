/* SPDX-License-Identifier: Apache-2.0 */
/* `outcome`: prints outcome.json, and exits with the exit code in it. */
#include "checkpoint_open.h"
#include "command.h"
#include "json_output.h"
#include "output.h"
#include "run_files.h"

#include <stdlib.h>

static void put_error(hs__json_value error)
{
    put_text_member(error, "code", "unknown error");
    fputs(": ", stdout);
    put_text_member(error, "message", "");
    puts("");
}

static void put_step(const char *before, int64_t step, const char *without)
{
    if (step >= 0)
        printf("%s%lld", before, (long long)step);
    else
        fputs(without, stdout);
}

static void put_failure(hs__json_value failure)
{
    const int64_t n = whole_member(failure, "failures", 0), first = whole_member(failure, "first_step", -1),
                  last = whole_member(failure, "last_step", -1);
    fputs("survived: ", stdout);
    put_text_member(failure, "hook", "a hook");
    printf(n == 1 ? " failed once" : " failed %lld times", (long long)n);
    put_step(first == last ? " at step " : " at steps ", first, " at an unknown step");
    if (first != last)
        put_step(" to ", last, "");
    printf("%s; last: ", hs__json_is(hs__json_member(failure, "muted"), 't') ? ", and is muted" : "");
    put_error(hs__json_member(failure, "last"));
}

static void print_text(const char *directory, hs__json_value outcome, int exit_code)
{
    int64_t signal = whole_member(outcome, "signal", 0);
    hs__json_value hook = hs__json_member(outcome, "hook"), error = hs__json_member(outcome, "error"),
                   failures = hs__json_member(outcome, "failures");
    hs__json_item failure = {.value = {NULL, 0}};
    put_name(directory);
    fputs(": ", stdout);
    put_style(exit_code == 0 ? STYLE_GOOD : exit_code == 75 ? STYLE_WARNING : STYLE_BAD);
    put_text_member(outcome, "reason", "unknown reason");
    put_style(STYLE_NONE);
    if (hs__json_is(hook, '"') && !hs__json_equals(hook, "")) {
        fputs(" by the hook ", stdout);
        put_text_member(outcome, "hook", "");
    }
    if (signal)
        printf(" by signal %lld", (long long)signal);
    put_step(" at step ", whole_member(outcome, "step", -1), " at an unknown step");
    put_step("; last saved step ", whole_member(outcome, "last_saved_step", -1), "; no step is saved");
    printf("; exit code %d%s\n", exit_code,
           hs__json_is(hs__json_member(outcome, "interrupted"), 't') ? ", interrupted: start the program again to continue"
                                                                     : "");
    if (hs__json_is(error, '{'))
        put_error(error);
    while (hs__json_next(failures, &failure))
        put_failure(failure.value);
}

int outcome_command(const struct call *call)
{
    const char *directory = call->operands[0];
    bool damaged = false;
    if (!check_directory(directory))
        return TROUBLE;
    run_file file = read_run_file(directory, "outcome.json", &damaged);
    hs__json_value outcome = file.object;
    int64_t exit_code = whole_member(outcome, "exit_code", -1);
    bool is_valid = exit_code >= 0 && exit_code <= 255;
    if (!outcome.text && !damaged)
        say("%s: contains no outcome.json: the run has not ended, or crashed, or wrote none; try 'hooksess status'",
            directory);
    else if (outcome.text && !is_valid)
        say("%s/outcome.json: is damaged: exit_code is not a number from 0 to 255", directory);
    if (is_valid && call->given[OPTION_JSON]) {
        hs__json_writer out = js_begin(0);
        js_value(&out, NULL, outcome);
        js_end();
    } else if (is_valid) {
        print_text(directory, outcome, (int)exit_code);
    }
    free_run_file(&file);
    return is_valid ? (int)exit_code : TROUBLE;
}
