/* SPDX-License-Identifier: Apache-2.0 */
/* Ops run in the order of their addition, if their dependencies allow it. */
#include "backends/bare.h"

enum { OPS = 6, BEFORE = 3 };

/* Small graphs: each op with its dependencies, and the expected order. */
static const struct {
    const char *ops[OPS][1 + BEFORE + 1];
    const char *order;
} shapes[] = {
    /* a dependent of the last op runs after it */
    {{{"a", "z"}, {"b"}, {"c"}, {"z"}}, "b c z a"},
    /* and immediately after it */
    {{{"a", "c"}, {"b"}, {"c"}, {"d"}}, "b c a d"},
    {{{"a", "b", "z"}, {"b"}, {"c"}, {"z"}, {"e"}}, "b c z a e"},
    /* a chain from the last to the first */
    {{{"a", "b"}, {"b", "c"}, {"c", "z"}, {"x"}, {"z"}, {"y"}}, "x z c b a y"},
    /* two chains, each backwards */
    {{{"a2", "a1"}, {"b2", "b1"}, {"a1"}, {"b1"}}, "a1 a2 b1 b2"},
    {{{"a2", "a1"}, {"b2", "b1"}, {"b1"}, {"a1"}}, "b1 b2 a1 a2"},
    /* of two ops without dependencies: the one added first */
    {{{"end", "left", "right"}, {"right", "start"}, {"left", "start"}, {"start"}, {"x"}}, "start right left end x"},
    {{{"a"}, {"c", "z"}, {"b"}, {"d", "c"}, {"z", "b"}}, "a b z c d"},
    /* repeated dependencies count once */
    {{{"a", "z", "z", "z"}, {"b"}, {"z"}}, "b z a"},
};

/* Runs a shape, with the dependencies as inputs or as control inputs. Fetches all ops, the last first. Returns the order.
 */
static const char *executed(bare *b, size_t shape, bool by_inputs)
{
    const char *names[OPS + 1] = {NULL};
    int n = 0;
    for (; n < OPS && shapes[shape].ops[n][0]; n++) {
        const char *const *before = &shapes[shape].ops[n][1];
        bare_op(b, .name = shapes[shape].ops[n][0], .outputs = BARE_SCALAR, .inputs = by_inputs ? before : NULL,
                .control_inputs = by_inputs ? NULL : before);
    }
    for (int i = 0; i < n; i++)
        names[i] = shapes[shape].ops[n - 1 - i][0];
    bare_open(b);
    assert_ok(bare_run(b, names, NULL, NULL), &b->err);
    return b->trace;
}

static void assert_shapes(bool by_inputs)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        void *state;
        assert_int_equal(bare_setup(&state), 0);
        assert_string_equal(executed(state, i, by_inputs), shapes[i].order);
        assert_int_equal(bare_teardown(&state), 0);
    }
}

static void ops_run_right_after_their_control_inputs(void **state)
{
    (void)state;
    assert_shapes(false);
}

static void ops_run_right_after_their_inputs(void **state)
{
    (void)state;
    assert_shapes(true);
}

/* Otherwise a model that reads the result of the last step would depend on itself. */
static void reading_does_not_wait_for_writing(void **state)
{
    bare *b = *state;
    double w = 0;
    bare_op(b, .name = "read", .inputs = HS_NAMES("w"));
    bare_op(b, .name = "write", .writes = HS_NAMES("w"));
    bare_op(b, .name = "read_after", .inputs = HS_NAMES("w"), .control_inputs = HS_NAMES("write_after"));
    bare_op(b, .name = "write_after", .writes = HS_NAMES("w"));
    hs_graph_value(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("write_after", "read_after", "write", "read"), NULL, NULL), &b->err);
    assert_string_equal(b->trace, "read write write_after read_after");
}

/* Ops are added after the graph was ordered. */
static void a_graph_is_ordered_again_after_ops_are_added(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "b", .control_inputs = HS_NAMES("a"));
    bare_op(b, .name = "a");
    bare_open(b);
    bare_close(b);
    bare_op(b, .name = "d", .control_inputs = HS_NAMES("c"));
    bare_op(b, .name = "c", .control_inputs = HS_NAMES("b"));
    bare_open(b);
    bare_number(b, "d");
    assert_string_equal(b->trace, "a b c d");
}

/* A large random graph and its expected order. */

enum { N = 20000 };

typedef struct {
    int before[BEFORE], n_before;
    int age; /* it depends on younger ops only, so that no cycle exists */
    bool wanted, done;
    char name[16];
} random_op;

typedef struct {
    random_op ops[N];
    int order[N], n; /* as executed */
    uint32_t seed;
} random_graph;

static int random_below(random_graph *r, int limit)
{
    r->seed = r->seed * 1664525u + 1013904223u;
    return (int)((r->seed >> 8) % (uint32_t)limit);
}

static hs_code record(void *self, hs_op *op, hs_error *err)
{
    random_graph *r = self;
    (void)err;
    r->order[r->n++] = atoi(hs_op_name(op) + 2);
    return HS_OK;
}

static void fill_random(random_graph *r)
{
    for (int i = 0; i < N; i++) {
        r->ops[i].age = i;
        snprintf(r->ops[i].name, sizeof r->ops[i].name, "op%d", i);
    }
    for (int i = N - 1; i > 0; i--) {
        int k = random_below(r, i + 1), age = r->ops[i].age;
        r->ops[i].age = r->ops[k].age;
        r->ops[k].age = age;
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < BEFORE; k++) {
            int other = random_below(r, N);
            if (r->ops[other].age < r->ops[i].age)
                r->ops[i].before[r->ops[i].n_before++] = other;
        }
}

/* The first dependency is an input, the others are control inputs. */
static void add_random(bare *b, random_graph *r)
{
    for (int i = 0; i < N; i++) {
        const char *names[BEFORE + 1] = {NULL};
        for (int k = 0; k < r->ops[i].n_before; k++)
            names[k] = r->ops[r->ops[i].before[k]].name;
        const char *input[] = {names[0], NULL};
        hs_graph_op(b->graph, .name = r->ops[i].name, .run = record, .user = r, .outputs = BARE_SCALAR, .inputs = input,
                    .control_inputs = names[0] ? names + 1 : NULL);
    }
}

/* Adds a group of every `every`-th op. */
static void add_group(bare *b, const random_graph *r, const char *name, int every)
{
    const char **members = calloc(N + 1, sizeof *members);
    for (int i = 0; i * every < N; i++)
        members[i] = r->ops[i * every].name;
    hs_graph_op(b->graph, .name = name, .control_inputs = members);
    free(members);
}

/* Marks the ops of the group and all their dependencies. */
static void mark_wanted(random_graph *r, int every)
{
    int *by_age = malloc(N * sizeof *by_age);
    for (int i = 0; i < N; i++) {
        by_age[r->ops[i].age] = i;
        r->ops[i].wanted = i % every == 0;
        r->ops[i].done = false;
    }
    for (int age = N - 1; age >= 0; age--) {
        const random_op *op = &r->ops[by_age[age]];
        for (int k = 0; op->wanted && k < op->n_before; k++)
            r->ops[op->before[k]].wanted = true;
    }
    free(by_age);
}

static bool may_go(const random_graph *r, const random_op *op)
{
    for (int k = 0; k < op->n_before; k++)
        if (!r->ops[op->before[k]].done)
            return false;
    return op->wanted && !op->done;
}

/* Computes the order by a simple search: repeatedly the first op whose dependencies have run. */
static void assert_order(random_graph *r)
{
    int first = 0, n = 0;
    for (;; n++) {
        while (first < N && (r->ops[first].done || !r->ops[first].wanted))
            first++;
        int next = first;
        while (next < N && !may_go(r, &r->ops[next]))
            next++;
        if (next == N)
            break;
        assert_true(n < r->n);
        assert_int_equal(r->order[n], next);
        r->ops[next].done = true;
    }
    assert_int_equal(n, r->n);
}

static void random_graphs_are_ordered_as_by_a_simple_search(void **state)
{
    bare *b = *state;
    random_graph *r = calloc(1, sizeof *r);
    r->seed = 20260;
    fill_random(r);
    add_random(b, r);
    add_group(b, r, "all", 1);
    add_group(b, r, "some", 1000);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("all"), NULL, NULL), &b->err);
    mark_wanted(r, 1);
    assert_order(r);
    assert_int_equal(r->n, N);
    r->n = 0;
    assert_ok(bare_run(b, HS_NAMES("some"), NULL, NULL), &b->err);
    mark_wanted(r, 1000);
    assert_order(r);
    assert_in_range(r->n, N / 1000, N - 1);
    free(r);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_run_right_after_their_control_inputs),
        cmocka_unit_test(ops_run_right_after_their_inputs),
        test(reading_does_not_wait_for_writing),
        test(a_graph_is_ordered_again_after_ops_are_added),
        test(random_graphs_are_ordered_as_by_a_simple_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
