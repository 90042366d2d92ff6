/* SPDX-License-Identifier: Apache-2.0 */
/* Large values are read twice: to verify and to restore them. I/O errors in the second read. */
#include "checkpoint/stored_states.h"
#include "support/disk.h"

enum { LARGE = HS__STATES_IN_MEMORY + (1 << 20) };

#define IN_PART  "do not train with this session: the model is partly restored"
#define INJECTED "made to fail"

/* The program: a step, and a state that is a megabyte too large to be kept in memory. */
typedef enum { BYTES, PIECES, VARIABLE, LATE_STATE, BEST_EFFORT } kind;

typedef struct {
    kind kind;
    disk disk;
    test_env t;
    unsigned char *data; /* LARGE bytes. NULL for VARIABLE: no memory yet */
    bool insists;        /* load ignores a failure */
    int64_t step;
    hs_graph *graph;
    hs_session *session;
    hs_saver *saver;
    hs_error err;
} program;

/* The state, in pieces of all sizes. */

static hs_code save_pieces(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, ((program *)self)->data, LARGE, err);
}

static hs_code load_pieces(void *self, hs_state_reader *in, hs_error *err)
{
    program *p = self;
    hs_code code = HS_OK;
    for (size_t n = 1, left; (left = hs_state_reader_remaining(in)) && !code; n = n < LARGE / 8 ? 3 * n : 1) {
        n = n < left ? n : left;
        code = hs_state_reader_read(in, p->data + (LARGE - left), n, err);
        for (int i = 0; p->insists && code && i < 3; i++)
            code = hs_state_reader_read(in, p->data, i < 2 ? n : 1, NULL);
    }
    return p->insists ? HS_OK : code;
}

static hs_state_provider provider_of(program *p)
{
    return (hs_state_provider)HS_INIT(hs_state_provider, .name = "large", .save = save_pieces, .load = load_pieces,
                                      .self = p);
}

static hs_code no_begin(void *self, hs_backend backend, hs_error *err)
{
    (void)self, (void)backend, (void)err;
    return HS_OK;
}

static const hs_hook_ops large_hook =
    HS_INIT(hs_hook_ops, .name = "large", .begin = no_begin, .save_state = save_pieces, .load_state = load_pieces);

/* The program. */

static hs_code add_late(program *p)
{
    hs_state_provider provider = provider_of(p);
    return p->kind == LATE_STATE ? hs_raw_session_add_state(hs_session_raw(p->session), &provider, &p->err) : HS_OK;
}

/* Opens a session, restoring from /run with `restores`, and adds the late state. */
static hs_code open_program(program *p, bool restores)
{
    hs_state_provider provider = provider_of(p);
    hs_hook hook = {.ops = &large_hook, .self = p}, hooks[] = {hs_hook_best_effort(hook, 0), {0}};
    p->graph = hs_graph_new(&p->t.env);
    hs_graph_global_step(p->graph, NULL, &p->step);
    if (p->kind == BYTES)
        hs_graph_bytes(p->graph, "large", p->data, LARGE);
    else if (p->kind == PIECES)
        hs_graph_add_state(p->graph, &provider);
    else if (p->kind == VARIABLE)
        hs_graph_variable_at(p->graph, "large", HS_UINT8, HS_SHAPE(LARGE), &p->data);
    p->session = hs_session_open(
        hs_graph_backend(p->graph),
        HS_SESSION_OPTIONS(.checkpoint_dir = restores ? "/run" : NULL, .hooks = p->kind == BEST_EFFORT ? hooks : NULL),
        &p->err);
    return p->session ? add_late(p) : p->err.code;
}

static void close_program(program *p)
{
    hs_session_close(p->session, NULL);
    hs_graph_free(p->graph);
    p->session = NULL;
    p->graph = NULL;
}

static unsigned char saved_byte(size_t i)
{
    return (unsigned char)(i * 7 + i / 1000);
}

static bool is_saved(const program *p)
{
    size_t i = 0;
    while (i < LARGE && p->data[i] == saved_byte(i))
        i++;
    return i == LARGE && p->step == 4;
}

/* A new process without a restore. */
static void begin_again(program *p)
{
    p->step = 0;
    if (p->kind == VARIABLE) {
        free(p->data);
        p->data = NULL;
    } else {
        memset(p->data, 0xff, LARGE);
    }
}

static bool is_at_its_beginning(const program *p)
{
    size_t i = 0;
    while (p->data && i < LARGE && p->data[i] == 0xff)
        i++;
    return (!p->data || i == LARGE) && p->step == 0;
}

/* A disk with a checkpoint of step 4. */
static void save_it(program *p, kind how)
{
    *p = (program){.kind = how, .step = 4, .data = malloc(LARGE)};
    for (size_t i = 0; i < LARGE; i++)
        p->data[i] = saved_byte(i);
    disk_init(&p->disk);
    test_env_init(&p->t);
    p->t.env.files = p->disk.files;
    p->disk.fail_what = "read";
    p->disk.fail_code = HS_UNKNOWN;
    p->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->t.env), &p->err);
    assert_ok(open_program(p, false), &p->err);
    assert_ok(hs_saver_save(p->saver, hs_session_raw(p->session), "/run/model.ckpt", 4, NULL, &p->err), &p->err);
    close_program(p);
}

static void free_program(program *p)
{
    close_program(p);
    hs_saver_free(p->saver);
    disk_free(&p->disk);
    free(p->data);
    assert_int_equal(p->t.live, 0);
}

/* The number of reads that a whole restore takes. */
static size_t count_reads(program *p)
{
    begin_again(p);
    p->disk.calls = p->disk.fail_at = 0;
    assert_ok(open_program(p, true), &p->err);
    assert_true(is_saved(p));
    close_program(p);
    return p->disk.calls;
}

static hs_code open_with_failing_read(program *p, size_t at)
{
    begin_again(p);
    p->disk.calls = 0;
    p->disk.fail_at = at;
    hs_code code = open_program(p, true);
    p->disk.fail_at = 0;
    return code;
}

/* With each read failing: the error is the I/O error, and says if the model is partly restored. */
static void fail_reads(kind how, bool insists)
{
    enum { TRIALS = 12 };
    program p;
    save_it(&p, how);
    size_t reads = count_reads(&p);
    bool changed = false;
    assert_true(reads > 2 * LARGE >> 18);
    p.insists = insists;
    for (size_t i = 0; i < TRIALS; i++) {
        assert_fails(open_with_failing_read(&p, reads - i * (reads / TRIALS)), HS_UNKNOWN, &p.err, INJECTED);
        changed = strstr(p.err.message, IN_PART);
        if (how == LATE_STATE && p.session)
            p.step = 0; /* the rest was restored before */
        if (!changed)
            assert_true(is_at_its_beginning(&p));
        if (i == 0 && !changed)
            fail_msg("the last read: %s", p.err.message);
        if (i == 0)
            assert_contains(p.err.message, how == VARIABLE ? "/run/model.ckpt-4" : "large");
        close_program(&p);
    }
    assert_false(changed); /* by the first reads, which verify */
    p.insists = false;
    assert_ok(open_with_failing_read(&p, 0), &p.err);
    assert_true(is_saved(&p));
    free_program(&p);
}

static void the_error_says_so_for_bytes(void **state)
{
    (void)state;
    fail_reads(BYTES, false);
}

static void the_error_says_so_for_a_state_in_pieces(void **state)
{
    (void)state;
    fail_reads(PIECES, false);
}

/* load cannot hide the failure, and gets no other bytes. */
static void a_load_that_reads_on_cannot_hide_it(void **state)
{
    (void)state;
    fail_reads(PIECES, true);
}

static void the_error_says_so_for_a_variable_without_memory(void **state)
{
    (void)state;
    fail_reads(VARIABLE, false);
}

static void the_error_says_so_for_a_late_state(void **state)
{
    (void)state;
    fail_reads(LATE_STATE, false);
}

/* Training continues without the state. */
static void a_hook_of_best_effort_continues_without_its_state(void **state)
{
    (void)state;
    program p;
    save_it(&p, BEST_EFFORT);
    assert_ok(open_with_failing_read(&p, count_reads(&p)), &p.err);
    assert_int_equal(p.step, 4);
    assert_contains(p.t.log, "load_state");
    assert_contains(p.t.log, INJECTED);
    free_program(&p);
}

/* A restore in an open session. */

static hs_code restore(program *p, size_t failing_read)
{
    p->disk.calls = 0;
    p->disk.fail_at = failing_read;
    return hs_saver_restore(p->saver, hs_session_raw(p->session), "/run/model.ckpt-4", NULL, &p->err);
}

static void then_hooks_save_nothing_until_a_restore_succeeds(void **state)
{
    (void)state;
    for (kind how = BYTES; how <= VARIABLE; how++) {
        program p;
        hs_error why;
        save_it(&p, how);
        assert_ok(open_program(&p, false), &p.err);
        hs_raw_session *raw = hs_session_raw(p.session);
        assert_ok(restore(&p, 0), &p.err);
        size_t reads = p.disk.calls;
        assert_fails(restore(&p, reads / 4), HS_UNKNOWN, &p.err, INJECTED);
        assert_ok(hs_raw_session_save_refusal(raw, &why), &why); /* nothing has changed */
        assert_fails(restore(&p, reads), HS_UNKNOWN, &p.err, IN_PART);
        assert_fails(hs_raw_session_save_refusal(raw, &why), HS_UNKNOWN, &why, IN_PART);
        assert_ok(restore(&p, 0), &p.err);
        assert_ok(hs_raw_session_save_refusal(raw, &why), &why);
        assert_true(is_saved(&p));
        free_program(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_says_so_for_bytes),
        cmocka_unit_test(the_error_says_so_for_a_state_in_pieces),
        cmocka_unit_test(a_load_that_reads_on_cannot_hide_it),
        cmocka_unit_test(the_error_says_so_for_a_variable_without_memory),
        cmocka_unit_test(the_error_says_so_for_a_late_state),
        cmocka_unit_test(a_hook_of_best_effort_continues_without_its_state),
        cmocka_unit_test(then_hooks_save_nothing_until_a_restore_succeeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
