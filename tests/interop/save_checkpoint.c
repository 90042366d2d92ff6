/* SPDX-License-Identifier: Apache-2.0 */
/* save_checkpoint PREFIX GENERATION [COUNT [SHARDS]]: saves variables of each type and of unusual shapes, or COUNT small
 * ones with long names, to PREFIX. Each generation has different values. */
#include <hooksess/hooksess.h>

#include "values.h"

#include <stdio.h>
#include <stdlib.h>

/* test_our_checkpoints.py has the same list. */
static const struct {
    const char *name;
    hs_dtype dtype;
    hs_shape shape;
} kinds[] = {
    {"types/float", HS_FLOAT, {.rank = 2, .dims = {3, 5}}},
    {"types/double", HS_DOUBLE, {.rank = 2, .dims = {3, 5}}},
    {"types/int32", HS_INT32, {.rank = 2, .dims = {3, 5}}},
    {"types/uint8", HS_UINT8, {.rank = 2, .dims = {3, 5}}},
    {"types/int16", HS_INT16, {.rank = 2, .dims = {3, 5}}},
    {"types/int8", HS_INT8, {.rank = 2, .dims = {3, 5}}},
    {"types/complex64", HS_COMPLEX64, {.rank = 2, .dims = {3, 5}}},
    {"types/int64", HS_INT64, {.rank = 2, .dims = {3, 5}}},
    {"types/bool", HS_BOOL, {.rank = 2, .dims = {3, 5}}},
    {"types/qint8", HS_QINT8, {.rank = 2, .dims = {3, 5}}},
    {"types/quint8", HS_QUINT8, {.rank = 2, .dims = {3, 5}}},
    {"types/qint32", HS_QINT32, {.rank = 2, .dims = {3, 5}}},
    {"types/bfloat16", HS_BFLOAT16, {.rank = 2, .dims = {3, 5}}},
    {"types/qint16", HS_QINT16, {.rank = 2, .dims = {3, 5}}},
    {"types/quint16", HS_QUINT16, {.rank = 2, .dims = {3, 5}}},
    {"types/uint16", HS_UINT16, {.rank = 2, .dims = {3, 5}}},
    {"types/complex128", HS_COMPLEX128, {.rank = 2, .dims = {3, 5}}},
    {"types/half", HS_HALF, {.rank = 2, .dims = {3, 5}}},
    {"types/uint32", HS_UINT32, {.rank = 2, .dims = {3, 5}}},
    {"types/uint64", HS_UINT64, {.rank = 2, .dims = {3, 5}}},
    {"shapes/scalar", HS_DOUBLE, {.rank = 0}},
    {"shapes/one", HS_INT64, {.rank = 1, .dims = {1}}},
    {"shapes/empty", HS_FLOAT, {.rank = 2, .dims = {0, 5}}},
    {"shapes/empty_inside", HS_INT32, {.rank = 3, .dims = {16, 0, 18}}},
    {"shapes/long", HS_UINT8, {.rank = 1, .dims = {0x1618}}},
    {"shapes/rank8", HS_INT16, {.rank = 8, .dims = {1, 2, 1, 3, 1, 2, 2, 1}}},
    {"shapes/20_MiB", HS_FLOAT, {.rank = 2, .dims = {5, 1024 * 1024}}},
};

typedef struct {
    char name[100];
    unsigned generation;
} variable;

static hs_code initialize(void *self, const hs_tensor *value, hs_error *err)
{
    const variable *v = self;
    hs_shape shape = hs_tensor_shape(value);
    (void)err;
    values_fill(v->name, value->dtype, v->generation, value->data, (size_t)hs_shape_elements(&shape));
    return HS_OK;
}

static void add(hs_graph *g, variable *v, hs_dtype dtype, hs_shape shape)
{
    hs_graph_add_variable(
        g, HS_VARIABLE_DEF(.name = v->name, .dtype = dtype, .shape = shape, .initialize = initialize, .user = v));
}

static void add_all(hs_graph *g, variable *v, size_t n, bool many, unsigned generation)
{
    for (size_t i = 0; i < n; i++) {
        v[i].generation = generation;
        if (many) {
            snprintf(v[i].name, sizeof v[i].name, "layer_%05zu/a_kernel_with_a_name_of_considerable_length_x/slot", i);
            add(g, &v[i], HS_FLOAT, HS_SHAPE(3));
        } else {
            snprintf(v[i].name, sizeof v[i].name, "%s", kinds[i].name);
            add(g, &v[i], kinds[i].dtype, kinds[i].shape);
        }
    }
}

int main(int argc, char **argv)
{
    hs_error err = {0};
    if (argc < 3)
        return 2;
    size_t many = argc > 3 ? strtoul(argv[3], NULL, 10) : 0, n = many ? many : sizeof kinds / sizeof *kinds;
    variable *variables = calloc(n, sizeof *variables);
    if (!variables)
        return 2;
    hs_graph *g = hs_graph_new(NULL);
    add_all(g, variables, n, many, (unsigned)atoi(argv[2]));
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.shards = argc > 4 ? atoi(argv[4]) : 0), &err);
    hs_session *s = saver ? hs_session_open(hs_graph_backend(g), NULL, &err) : NULL;
    if (s && hs_saver_save(saver, hs_session_raw(s), argv[1], -1, NULL, &err) != HS_OK)
        hs_session_fail(s, &err);
    hs_outcome outcome = hs_session_close(s, &err);
    if (outcome.error.code)
        fprintf(stderr, "%s\n", outcome.error.message);
    hs_saver_free(saver);
    hs_graph_free(g);
    free(variables);
    return hs_outcome_exit_code(&outcome);
}
