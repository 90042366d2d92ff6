/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged graphs: whatever the bytes are, opening ends with a graph or with an error that says something. */
#include "backends/tensorflow/graphs.h"

static void no_log(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
}

static char *read_graph(const char *name, size_t *bytes)
{
    FILE *file = fopen(graph_path(name), "rb");
    char *data = malloc(1 << 20);
    assert_non_null(file);
    assert_non_null(data);
    *bytes = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

static void open_and_free(const char *data, size_t bytes)
{
    hs_error err = {0};
    hs_env env = {HS_ENV, .logger = {no_log, NULL}};
    const void *items[4];
    const char *op;
    char *copy = malloc(bytes + 1); /* of that size, for tools that look at its ends */
    assert_non_null(copy);
    memcpy(copy, data, bytes);
    hs_backend backend = hs_tensorflow_open_bytes((hs_bytes){copy, bytes},
                                                  &(hs_tensorflow_options){HS_TENSORFLOW_OPTIONS, .env = &env}, &err);
    free(copy);
    if (err.code)
        assert_true(strlen(err.message) > 10);
    hs_backend_collection(backend, HS_SAVERS, items, 4);
    hs_backend_collection(backend, HS_QUEUE_RUNNERS, items, 4);
    if (!err.code)
        backend.ops->default_op(backend.self, HS_READY_OP, &op, &err);
    if (!err.code)
        backend.ops->default_op(backend.self, HS_LOCAL_INIT_OP, &op, &err);
    hs_tensorflow_free(backend);
}

static const char *const graphs[] = {"ref.meta",    "queue.meta",    "ref.pb",       "ref.pbtxt",
                                     "reader.meta", "iterator.meta", "several.meta", "alone_old.meta"};

static void cut_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        size_t bytes;
        char *data = read_graph(graphs[i], &bytes);
        for (size_t n = 1; n < bytes; n += 1 + bytes / 500)
            open_and_free(data, n);
        free(data);
    }
}

static void changed_anywhere(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        size_t bytes;
        char *data = read_graph(graphs[i], &bytes);
        for (int k = 0; k < 1500; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            size_t at = (size_t)(random >> 8) % bytes;
            char before = data[at];
            data[at] = (char)(random & 0xff);
            open_and_free(data, bytes);
            data[at] = before;
        }
        free(data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(changed_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
