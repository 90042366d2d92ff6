/* SPDX-License-Identifier: Apache-2.0 */
/* Save, files, restore: every numeric type, every kind of memory, bit for bit. */
#include "checkpoint/model.h"

static const hs_dtype dtypes[] = {
    HS_FLOAT,  HS_DOUBLE, HS_INT32,    HS_UINT8,  HS_INT16,   HS_INT8,   HS_COMPLEX64,  HS_INT64, HS_BOOL,   HS_QINT8,
    HS_QUINT8, HS_QINT32, HS_BFLOAT16, HS_QINT16, HS_QUINT16, HS_UINT16, HS_COMPLEX128, HS_HALF,  HS_UINT32, HS_UINT64,
};
enum { N = sizeof dtypes / sizeof *dtypes, ELEMENTS = 3 * 5, ROOM = ELEMENTS * 16 };

/* Memory of a variable of each type. */
typedef unsigned char memories[N][ROOM];

static size_t bytes_of(size_t i)
{
    return ELEMENTS * hs_dtype_size(dtypes[i]);
}

/* Every byte differs from its neighbors, and from those of another seed; booleans are 0 or 1. */
static void fill(memories all, unsigned seed)
{
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < ROOM; k++)
            all[i][k] = (unsigned char)(dtypes[i] == HS_BOOL ? (k + seed) % 2 : i * 31 + k * 7 + seed * 101);
}

static void assert_same(memories a, memories b)
{
    for (size_t i = 0; i < N; i++)
        if (memcmp(a[i], b[i], bytes_of(i)) != 0)
            fail_msg("%s did not come back", hs_dtype_name(dtypes[i]));
}

/* Where the variables are. */
typedef enum { THE_PROGRAMS, THE_SESSIONS, THE_DEVICES } place;

/* A device whose memory the host cannot read directly. */
static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)host)[i] = (unsigned char)(((const unsigned char *)device)[i] ^ 0x5a);
    return HS_OK;
}

static hs_code from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    return to_host(user, device, host, bytes, err);
}

static const hs_memory device = HS_INIT(hs_memory, .device_type = 2, .to_host = to_host, .from_host = from_host);

static hs_session *open_on(fixture *f, hs_graph **graph, place where, memories all)
{
    char name[32];
    *graph = hs_graph_new(&f->t.env);
    for (size_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "v/%s", hs_dtype_name(dtypes[i]));
        hs_variable_def def = HS_INIT(hs_variable_def, .name = name, .dtype = (int64_t)dtypes[i], .shape = HS_SHAPE(3, 5));
        def.data = where == THE_SESSIONS ? NULL : all[i];
        def.initial = where == THE_SESSIONS ? all[i] : NULL;
        def.memory = where == THE_DEVICES ? &device : NULL;
        hs_graph_add_variable(*graph, &def);
    }
    hs_session *session = hs_session_open(hs_graph_backend(*graph), NULL, &f->err);
    assert_non_null(session);
    return session;
}

/* The session's values of the variables, on the host. */
static void read_back(fixture *f, hs_session *session, memories all)
{
    hs_host_copy copy = {0};
    for (size_t i = 0; i < N; i++) {
        char name[32];
        const hs_run_values *values;
        hs_tensor host;
        snprintf(name, sizeof name, "v/%s", hs_dtype_name(dtypes[i]));
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(name));
        assert_ok(hs_session_run_args(session, &args, &values, &f->err), &f->err);
        assert_ok(hs_tensor_host(hs_run_values_tensor(values, 0), &copy, &host, &f->err), &f->err);
        assert_int_equal(host.bytes, bytes_of(i));
        memcpy(all[i], host.data, host.bytes);
    }
    hs_host_copy_free(&copy);
}

static void round_trip(fixture *f, place saved_in, place restored_to)
{
    static memories first, second, wanted, found;
    const char *prefix = test_path(f->directory, "model.ckpt");
    hs_graph *graph;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .allow_nonfinite = true)); /* any bits */
    fill(first, 1);
    fill(second, 2);
    hs_session *session = open_on(f, &graph, saved_in, first);
    read_back(f, session, wanted);
    assert_ok(hs_saver_save(f->saver, hs_session_raw(session), prefix, -1, NULL, &f->err), &f->err);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    session = open_on(f, &graph, restored_to, second);
    read_back(f, session, found);
    assert_memory_not_equal(wanted[0], found[0], bytes_of(0));
    assert_ok(hs_saver_restore(f->saver, hs_session_raw(session), prefix, NULL, &f->err), &f->err);
    read_back(f, session, found);
    assert_same(wanted, found);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void the_programs_memory(void **state)
{
    round_trip(*state, THE_PROGRAMS, THE_PROGRAMS);
}

static void the_sessions_memory(void **state)
{
    round_trip(*state, THE_SESSIONS, THE_SESSIONS);
}

static void a_devices_memory(void **state)
{
    round_trip(*state, THE_DEVICES, THE_DEVICES);
}

static void from_one_kind_of_memory_to_another(void **state)
{
    round_trip(*state, THE_PROGRAMS, THE_DEVICES);
    round_trip(*state, THE_DEVICES, THE_SESSIONS);
    round_trip(*state, THE_SESSIONS, THE_PROGRAMS);
}

/* Empty variables, eight dimensions, large variables. */
static void shapes(void **state)
{
    enum { LARGE = 300 * 1000 };
    fixture *f = *state;
    float *large = malloc(LARGE * sizeof *large);
    double deep[256], scalar = 1.5;
    assert_non_null(large);
    for (int i = 0; i < LARGE; i++)
        large[i] = (float)i;
    for (int i = 0; i < 256; i++)
        deep[i] = i;
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_add_variable(graph, HS_VARIABLE_DEF(.name = "empty", .dtype = HS_FLOAT, .shape = HS_SHAPE(4, 0)));
    hs_graph_variable(graph, "deep", HS_DOUBLE, HS_SHAPE(2, 2, 2, 2, 2, 2, 2, 2), deep);
    hs_graph_variable(graph, "scalar", HS_DOUBLE, HS_SCALAR, &scalar);
    hs_graph_variable(graph, "large", HS_FLOAT, HS_SHAPE(LARGE), large);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    const char *prefix = test_path(f->directory, "m");
    assert_ok(hs_saver_save(f->saver, hs_session_raw(session), prefix, -1, NULL, &f->err), &f->err);
    memset(large, 0, LARGE * sizeof *large);
    memset(deep, 0, sizeof deep);
    scalar = 0;
    assert_ok(hs_saver_restore(f->saver, hs_session_raw(session), prefix, NULL, &f->err), &f->err);
    assert_true(large[0] == 0 && large[1] == 1 && large[LARGE - 1] == LARGE - 1);
    assert_true(deep[255] == 255 && scalar == 1.5);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    free(large);
}

/* NaNs with a payload, negative zeros, denormal numbers. */
static void every_bit_of_a_float_counts(void **state)
{
    fixture *f = *state;
    const uint32_t bits[6] = {0x7fc12345u, 0xff800000u, 0x80000000u, 0x00000001u, 0x7f7fffffu, 0xffffffffu};
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .allow_nonfinite = true));
    memcpy(f->m.weights, bits, sizeof bits);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), file_of(f, 1, NULL), -1, NULL, &f->err), &f->err);
    model_set(&f->m, 9);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err), &f->err);
    assert_memory_equal(f->m.weights, bits, sizeof bits);
}

static hs_code broken_copy(void *user, void *host, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)host, (void)from, (void)bytes;
    return hs_error_set(err, HS_UNAVAILABLE, "the device fell off the bus");
}

static void a_device_that_fails(void **state)
{
    fixture *f = *state;
    const hs_memory broken = HS_INIT(hs_memory, .to_host = broken_copy, .from_host = broken_copy);
    float data[2] = {1, 2};
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_add_variable(
        graph, HS_VARIABLE_DEF(.name = "bias", .dtype = HS_DOUBLE, .shape = HS_SHAPE(2), .data = data, .memory = &broken));
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_non_null(session);
    hs_raw_session *raw = hs_session_raw(session);
    assert_fails(hs_saver_save(f->saver, raw, file_of(f, 2, NULL), -1, NULL, &f->err), HS_UNAVAILABLE, &f->err,
                 "fell off the bus");
    assert_int_equal(test_count_files(f->directory, "model"), 0);
    save_at(f, 1);
    assert_fails(hs_saver_restore(f->saver, raw, file_of(f, 1, NULL), NULL, &f->err), HS_UNAVAILABLE, &f->err, "'bias'");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(the_programs_memory),
        with_fixture(the_sessions_memory),
        with_fixture(a_devices_memory),
        with_fixture(from_one_kind_of_memory_to_another),
        with_fixture(shapes),
        with_fixture(every_bit_of_a_float_counts),
        with_fixture(a_device_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
