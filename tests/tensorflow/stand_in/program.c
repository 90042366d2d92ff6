/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests of another program on TensorFlow. Tests that not_here.txt names are omitted; a row with an unknown test is
 * an error. A test that does not open a TensorFlow graph proves nothing: it is skipped. But if its name begins with a
 * behavior's ID (ms_010_...), it fails, and not_here.txt must give the reason. */
#include "tensorflow/stand_in/engine.h"

#include <ctype.h>

int __real_test_run_group(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                          CMFixtureFunction teardown);
int __wrap_test_run_group(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                          CMFixtureFunction teardown);

static struct CMUnitTest *chosen; /* the program's tests, without the omitted ones */
static size_t at;                 /* number of the current test, from 1 */
static size_t before;             /* engine_graphs when it began */

static int next_setup(void **state)
{
    CMFixtureFunction setup = chosen[at++].setup_func;
    before = engine_graphs;
    return setup ? setup(state) : 0;
}

static bool is_of_a_row(const char *name)
{
    return (strncmp(name, "ms_", 3) == 0 || strncmp(name, "bh_", 3) == 0 || strncmp(name, "sv_", 3) == 0 ||
            strncmp(name, "qr_", 3) == 0) &&
           isdigit((unsigned char)name[3]);
}

static void run_one(void **state)
{
    const struct CMUnitTest *test = &chosen[at - 1];
    test->test_func(state);
    if (engine_graphs > before)
        return;
    if (is_of_a_row(test->name))
        fail_msg("%s does not use TensorFlow: add it to not_here.txt with the reason", test->name);
    test_skip("does not use TensorFlow");
}

/* Removes the test of this name from the list. */
static bool remove_test(struct CMUnitTest *list, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(list[i].name, name) == 0) {
            memmove(&list[i], &list[i + 1], (--*n - i) * sizeof *list);
            return true;
        }
    return false;
}

/* Returns false if the file names a test that the program does not have. */
static bool read_list(struct CMUnitTest *list, size_t *n)
{
    FILE *file = fopen(STAND_IN_LIST, "r");
    char line[512], program[128], name[256];
    bool good = file != NULL;
    while (file && fgets(line, sizeof line, file)) {
        if (line[0] == '#' || sscanf(line, "%127s %255s", program, name) != 2 || strcmp(program, STAND_IN_PROGRAM) != 0)
            continue;
        if (remove_test(list, n, name)) {
            print_message("not here: %s", strstr(line, name));
        } else {
            print_error("%s names '%s', which %s does not have\n", STAND_IN_LIST, name, program);
            good = false;
        }
    }
    if (file)
        fclose(file);
    return good;
}

int __wrap_test_run_group(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                          CMFixtureFunction teardown)
{
    engine_has_chief = STAND_IN_HAS_CHIEF;
    struct CMUnitTest *wrapped = calloc(n, sizeof *wrapped);
    chosen = calloc(n, sizeof *chosen);
    if (!wrapped || !chosen)
        return 1;
    memcpy(chosen, tests, n * sizeof *chosen);
    bool good = read_list(chosen, &n);
    memcpy(wrapped, chosen, n * sizeof *wrapped);
    for (size_t i = 0; i < n; i++) {
        wrapped[i].setup_func = next_setup;
        wrapped[i].test_func = run_one;
    }
    int failed = __real_test_run_group(name, wrapped, n, setup, teardown);
    free(wrapped);
    free(chosen);
    return good ? failed : failed + 1;
}
