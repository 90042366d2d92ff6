/* SPDX-License-Identifier: Apache-2.0 */
/* `verify-resume`: tests that a resumed program continues as if it had not stopped. `verify` runs the trials, compare_part
 * compares their records, `report` prints the result. */
#define _XOPEN_SOURCE 700 /* realpath, nftw */
#include "checkpoint_open.h"
#include "command.h"
#include "memory.h"
#include "json_output.h"
#include "output.h"
#include "record.h"
#include "trial_run.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 20, MAX_NAMED = 3, MAX_LISTED = 10, MAX_PARTS = 3 };

typedef struct {
    trials trials;
    int64_t steps, middle; /* middle 0: half of the steps, and the next */
    const char *ignore;
    bool json;
} job;

/* The directory. */

static int remove_entry(const char *path, const struct stat *found, int type, struct FTW *place)
{
    (void)found, (void)type, (void)place;
    if (remove(path) != 0)
        say("%s: cannot remove it: %s", path, strerror(errno));
    return 0;
}

/* rmdir finds out whether a directory that exists is empty. */
static bool make_kept(const char *directory)
{
    if ((rmdir(directory) == 0 || errno == ENOENT) && mkdir(directory, 0777) == 0)
        return true;
    say("--keep %s: %s", directory, strerror(errno));
    return false;
}

static char *make_temporary(void)
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base)
        base = "/tmp";
    char *made = must_format("%s/hooksess-XXXXXX", base);
    if (mkdtemp(made))
        return made;
    say("cannot create a directory in '%s': %s", base, strerror(errno));
    free(made);
    return NULL;
}

/* The path is absolute, as the program may change its working directory. */
static char *make_directory(const char *kept)
{
    char *made = NULL, *whole = NULL;
    if (kept ? make_kept(kept) : (made = make_temporary()) != NULL) {
        whole = realpath(kept ? kept : made, NULL);
        if (!whole)
            say("%s: %s", kept ? kept : made, strerror(errno));
    }
    free(made);
    return whole;
}

/* Findings. */

/* The parts of the interrupted run, and the number of equal steps. */
typedef struct {
    trial parts[MAX_PARTS];
    int n_parts;
    int64_t same;
} findings;

static void put_first_difference(const comparison *c, const trial *part)
{
    printf("step %lld differs in", (long long)c->step);
    for (size_t i = 0; i < c->n && i < MAX_NAMED; i++) {
        printf("%s the %s '", i ? "," : "", c->differences[i].kind);
        put_name(c->differences[i].name);
        fputs("'", stdout);
    }
    if (c->n > MAX_NAMED)
        printf(" and %zu more", c->n - MAX_NAMED);
    if (!c->n)
        fputs(" that only one of the runs has it", stdout);
    if (part->first)
        printf(" (resumed at step %lld)\n", (long long)part->first);
    else
        puts(" (two runs from the start)");
}

/* Prints the number in a run, or that it is missing there. False: it is not a single number. */
static bool put_number(const char *before, const char *run, const char *number)
{
    if (number && (strcmp(number, "-") == 0 || *number == 'x'))
        return false;
    printf("%s %s in the %s run", before, number ? number : "missing", run);
    return true;
}

/* Prints the first byte that differs, or the element that it belongs to if the tensor has numbers. */
static void put_byte(const first_byte *byte, const char *second)
{
    if (byte->is_number)
        printf(" element %zu of %zu is %.9g in the first run and %.9g in the %s run", byte->at / byte->size,
               byte->n / byte->size, byte->numbers[0], byte->numbers[1], second);
    else
        printf(" byte %zu of %zu is %02x in the first run and %02x in the %s run%s", byte->at, byte->n, byte->bytes[0],
               byte->bytes[1], second, byte->may_be_pointer ? "; it may be of a pointer" : "");
}

static void put_causes(bool is_resumed, bool has_bytes)
{
    if (is_resumed)
        puts("A step reads something that checkpoints do not contain, or that is not restored\n"
             "as it was saved. Usual causes:\n"
             "  a random number generator, or a position in the data: add it with\n"
             "  hs_graph_bytes;\n"
             "  an optimizer's moments, or a buffer that is swapped: add it with\n"
             "  hs_graph_variable_at;\n"
             "  an evaluation or a shuffle between two steps: do it before hs_step_end.\n"
             "See 'hooksess help verify-resume'.");
    else
        puts("The program computes different results in each run, even without a resume.\n"
             "Usual causes: a seed from the time, or threads that add in different order.");
    if (!is_resumed && has_bytes)
        puts("Bytes that differ may also be uninitialized, the padding of a struct (set it to\n"
             "zero with memset before you set its members), or a pointer.");
}

static void put_differences(const comparison *c, const trial *part)
{
    const char *second = part->first ? "resumed" : "second";
    bool has_bytes = false;
    for (size_t i = 0; i < c->n && i < MAX_LISTED; i++) {
        const record_difference *d = &c->differences[i];
        first_byte byte;
        printf("  %-8s ", d->kind);
        put_name(d->name);
        fputs(":", stdout);
        const bool has_first = put_number("", "first", d->uninterrupted);
        put_number(has_first ? " and" : "", second, d->resumed);
        if (find_first_byte(d, &byte)) {
            put_byte(&byte, second);
            has_bytes = has_bytes || byte.size == 1;
        } else if (d->uninterrupted && d->resumed && strcmp(d->uninterrupted, d->resumed) == 0) {
            fputs(strcmp(d->resumed, "-") == 0 ? " other bytes" : " (other bits)", stdout);
        } else if (d->uninterrupted && d->resumed && *d->uninterrupted == 'x' && *d->resumed == 'x') {
            printf(" %zu bytes in the first run and %zu in the %s run", strlen(d->uninterrupted) / 2,
                   strlen(d->resumed) / 2, second);
        }
        puts("");
    }
    put_causes(part->first, has_bytes);
}

static void put_side(hs__json_writer *out, const char *name, const char *number)
{
    char *end;
    double value = number ? strtod(number, &end) : 0;
    if (number && end > number && !*end)
        hs__json_put_number(out, name, value);
    else
        hs__json_put_null(out, name);
}

static void write_json(const findings *found, const comparison *c)
{
    hs__json_writer out = js_begin(0);
    hs__json_open(&out, NULL, '{');
    hs__json_put_bool(&out, "same", c->step < 0);
    hs__json_put_int(&out, "steps", found->same);
    hs__json_open(&out, "resumed_at", '[');
    for (int i = 1; i < found->n_parts; i++)
        hs__json_put_int(&out, NULL, found->parts[i].first);
    hs__json_close(&out, ']');
    if (c->step < 0)
        hs__json_put_null(&out, "step");
    else
        hs__json_put_int(&out, "step", c->step);
    hs__json_open(&out, "differences", '[');
    for (size_t i = 0; i < c->n; i++) {
        const record_difference *d = &c->differences[i];
        first_byte byte;
        hs__json_open(&out, NULL, '{');
        hs__json_put_text(&out, "kind", d->kind);
        hs__json_put_text(&out, "name", d->name);
        put_side(&out, "uninterrupted", d->uninterrupted);
        put_side(&out, "resumed", d->resumed);
        if (find_first_byte(d, &byte))
            js_count(&out, "first_byte", byte.at);
        hs__json_close(&out, '}');
    }
    hs__json_close(&out, ']');
    hs__json_close(&out, '}');
    js_end();
}

static void report(const job *j, const findings *found, const comparison *c, const trial *part)
{
    if (j->json) {
        write_json(found, c);
    } else if (c->step < 0) {
        printf("resumed at step %lld", (long long)found->parts[1].first);
        if (found->n_parts > 2)
            printf(" and at step %lld", (long long)found->parts[2].first);
        printf(": %lld equal steps, each with %zu variables, states and values\n", (long long)found->same, c->things);
    } else {
        put_first_difference(c, part);
        put_differences(c, part);
    }
}

/* The trials. */

/* Compares a part with the same steps of the whole run. Reports a difference, or the result after the last part. */
static int compare_part(const job *j, findings *found, const trial *part, bool is_last)
{
    comparison c;
    char *whole = trial_file(&j->trials, "whole", "record"), *interrupted = trial_file(&j->trials, part->name, "record");
    bool read = compare_records(&c, whole, interrupted, part->first, part->last, j->ignore);
    int status = !read ? TROUBLE : c.step < 0 ? FINE : FOUND;
    found->same += c.same;
    if (status == FINE && !c.same) {
        say("%s: no step to compare", part->what);
        status = TROUBLE;
    }
    if (status == FOUND || (status == FINE && is_last))
        report(j, found, &c, part);
    free_comparison(&c);
    free(whole);
    free(interrupted);
    return status;
}

/* Runs the whole run, then a run that is killed in the middle, resumed for a step and stopped, and resumed again. */
static int verify(const job *j)
{
    trial whole = {.name = "whole", .what = "the uninterrupted run", .last = j->steps};
    findings found = {.parts = {{.name = "interrupted", .what = "the interrupted run"},
                                {.name = "resumed", .what = "the resumed run", .stops = true},
                                {.name = "resumed-again", .what = "the run that was resumed twice"}}};
    int64_t middle = j->middle ? j->middle : j->steps / 2, ends[MAX_PARTS] = {middle, middle + 1, j->steps};
    if (!run_trial(&j->trials, &whole))
        return TROUBLE;
    if (j->middle)
        ends[1] = j->steps;
    int status = FINE;
    for (int64_t reached = 0; status == FINE && reached < whole.last && found.n_parts < MAX_PARTS;) {
        trial *part = &found.parts[found.n_parts];
        part->first = reached;
        part->last = ends[found.n_parts] > reached ? ends[found.n_parts] : reached + 1;
        found.n_parts++;
        if (!run_trial(&j->trials, part))
            return TROUBLE;
        reached = part->last;
        status = compare_part(j, &found, part, reached >= whole.last && found.n_parts > 1);
    }
    if (status == FINE && found.n_parts == 1) { /* one run of the session may make several steps, and reach both ends */
        int64_t last = found.parts[0].last;
        say("the run to interrupt after step %lld reached the last step, %lld, in one run, so nothing was resumed; use --steps %lld",
            (long long)middle, (long long)last, 4 * (long long)last);
        return TROUBLE;
    }
    return status;
}

static bool parse_options(job *j, const struct call *call)
{
    *j = (job){.trials = {.program = call->operands, .fetches = call->given[OPTION_FETCH]},
               .steps = step_of_option(call, OPTION_STEPS, STEPS),
               .middle = step_of_option(call, OPTION_MIDDLE, 0),
               .ignore = call->given[OPTION_IGNORE],
               .json = call->given[OPTION_JSON]};
    if (j->steps < 2)
        say("--steps must be at least 2");
    else if (call->given[OPTION_MIDDLE] && (j->middle < 1 || j->middle >= j->steps))
        say("--middle must be from 1 to %lld, which is one less than --steps", (long long)j->steps - 1);
    else if (j->trials.fetches && (!*j->trials.fetches || strchr(j->trials.fetches, ' ')))
        say("--fetch: give names separated by commas, without blanks");
    else
        return true;
    return false;
}

int verify_resume(const struct call *call)
{
    job j;
    if (!parse_options(&j, call) || !(j.trials.directory = make_directory(call->given[OPTION_KEEP])))
        return TROUBLE;
    int status = verify(&j);
    if (!call->given[OPTION_KEEP])
        nftw(j.trials.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(j.trials.directory);
    return status;
}
