/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "json_output.h"
#include "output.h"
#include "run_files.h"

#include <stdlib.h>

static void put_error(const json_t *error)
{
    const char *code = text_member(error, "code"), *message = text_member(error, "message");
    put_name(code ? code : "unknown error");
    fputs(": ", stdout);
    put_name(message ? message : "");
    puts("");
}

static void put_failure(const json_t *failure)
{
    const char *hook = text_member(failure, "hook");
    int64_t n = whole_member(failure, "failures", 0);
    fputs("survived: ", stdout);
    put_name(hook ? hook : "a hook");
    printf(" failed %lld time%s, at steps %lld to %lld%s; last: ", (long long)n, n == 1 ? "" : "s",
           (long long)whole_member(failure, "first_step", -1), (long long)whole_member(failure, "last_step", -1),
           json_is_true(json_object_get(failure, "muted")) ? ", and is muted" : "");
    put_error(json_object_get(failure, "last"));
}

static void put_step(const char *before, int64_t step, const char *without)
{
    if (step >= 0)
        printf("%s%lld", before, (long long)step);
    else
        fputs(without, stdout);
}

static void print_text(const char *directory, const json_t *outcome, int exit_code)
{
    const char *reason = text_member(outcome, "reason"), *hook = text_member(outcome, "hook");
    int64_t signal = whole_member(outcome, "signal", 0);
    const json_t *error = json_object_get(outcome, "error"), *failures = json_object_get(outcome, "failures");
    put_name(directory);
    fputs(": ", stdout);
    put_style(exit_code == 0 ? STYLE_GOOD : exit_code == 75 ? STYLE_WARNING : STYLE_BAD);
    put_name(reason ? reason : "unknown reason");
    put_style(STYLE_NONE);
    if (hook && *hook) {
        fputs(" by the hook ", stdout);
        put_name(hook);
    }
    if (signal)
        printf(" by signal %lld", (long long)signal);
    put_step(" at step ", whole_member(outcome, "step", -1), " at an unknown step");
    put_step("; last saved step ", whole_member(outcome, "last_saved_step", -1), "; no step is saved");
    printf("; exit code %d%s\n", exit_code,
           json_is_true(json_object_get(outcome, "interrupted")) ? ", interrupted: start the program again to continue"
                                                                 : "");
    if (json_is_object(error))
        put_error(error);
    for (size_t i = 0; i < json_array_size(failures); i++)
        put_failure(json_array_get(failures, i));
}

int outcome_command(const struct call *call)
{
    const char *directory = call->operands[0];
    bool damaged = false;
    json_t *outcome = read_run_file(directory, "outcome.json", &damaged);
    int64_t exit_code = whole_member(outcome, "exit_code", -1);
    if (!outcome && !damaged)
        say("%s: contains no outcome.json: the run has not ended, or crashed; try 'hooksess status'", directory);
    else if (outcome && (exit_code < 0 || exit_code > 255))
        say("%s/outcome.json: is damaged: exit_code is not a number from 0 to 255", directory);
    if (!outcome || exit_code < 0 || exit_code > 255) {
        json_decref(outcome);
        return TROUBLE;
    }
    if (call->given[OPTION_JSON]) {
        js_write(outcome);
        puts("");
    } else {
        print_text(directory, outcome, (int)exit_code);
        json_decref(outcome);
    }
    return js_works() ? (int)exit_code : TROUBLE;
}
