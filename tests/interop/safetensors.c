/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors save PATH: writes variables of each type of the format, and of unusual shapes.
 * safetensors load PATH: reads them, and prints those with wrong values.
 * safetensors try PATH...: prints for each file the result of loading it into a model without variables; UNKNOWN, if a
 * tensor has an unknown dtype. safetensors convert FROM TO: hs_checkpoint_convert. */
#include <hooksess/hooksess.h>

#include "values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* test_safetensors.py has the same list. */
static const struct {
    const char *name;
    hs_dtype dtype;
    hs_shape shape;
} kinds[] = {
    {"types/F64", HS_DOUBLE, {.rank = 2, .dims = {3, 5}}},
    {"types/F32", HS_FLOAT, {.rank = 2, .dims = {3, 5}}},
    {"types/F16", HS_HALF, {.rank = 2, .dims = {3, 5}}},
    {"types/BF16", HS_BFLOAT16, {.rank = 2, .dims = {3, 5}}},
    {"types/I64", HS_INT64, {.rank = 2, .dims = {3, 5}}},
    {"types/I32", HS_INT32, {.rank = 2, .dims = {3, 5}}},
    {"types/I16", HS_INT16, {.rank = 2, .dims = {3, 5}}},
    {"types/I8", HS_INT8, {.rank = 2, .dims = {3, 5}}},
    {"types/U64", HS_UINT64, {.rank = 2, .dims = {3, 5}}},
    {"types/U32", HS_UINT32, {.rank = 2, .dims = {3, 5}}},
    {"types/U16", HS_UINT16, {.rank = 2, .dims = {3, 5}}},
    {"types/U8", HS_UINT8, {.rank = 2, .dims = {3, 5}}},
    {"types/BOOL", HS_BOOL, {.rank = 2, .dims = {3, 5}}},
    {"types/C64", HS_COMPLEX64, {.rank = 2, .dims = {3, 5}}},
    {"shapes/scalar", HS_DOUBLE, {.rank = 0}},
    {"shapes/one", HS_INT64, {.rank = 1, .dims = {1}}},
    {"shapes/empty", HS_FLOAT, {.rank = 2, .dims = {0, 5}}},
    {"shapes/empty_inside", HS_INT32, {.rank = 3, .dims = {16, 0, 18}}},
    {"shapes/long", HS_UINT8, {.rank = 1, .dims = {0x1618}}},
    {"shapes/rank8", HS_INT16, {.rank = 8, .dims = {1, 2, 1, 3, 1, 2, 2, 1}}},
    {"names/odd", HS_FLOAT, {.rank = 1, .dims = {2}}},
};
/* A file may have names that a graph does not allow. */
static const hs_checkpoint_name names[] = {{"names/odd", "\xc3\xbc\n\""}, {NULL, NULL}};
enum { N_KINDS = sizeof kinds / sizeof *kinds, ROOM = 0x1618 };

static unsigned char memory[N_KINDS][ROOM];

static void fill(size_t kind, unsigned generation, void *data)
{
    values_fill(kinds[kind].name, kinds[kind].dtype, generation, data, (size_t)hs_shape_elements(&kinds[kind].shape));
}

/* Opens a session whose variables have the values of that generation. */
static hs_session *open_session(hs_graph *g, unsigned generation, hs_error *err)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        fill(i, generation, memory[i]);
        hs_graph_variable(g, kinds[i].name, kinds[i].dtype, kinds[i].shape, memory[i]);
    }
    return hs_session_open(hs_graph_backend(g), NULL, err);
}

static hs_code save(const char *path, hs_error *err)
{
    hs_safetensors_options options = HS_INIT(hs_safetensors_options, .names = names,
                                             .metadata = HS_SAFETENSORS_METADATA({"format", "pt"}, {"\xc3\xbc\"", "a\nb"}));
    hs_graph *g = hs_graph_new(NULL);
    hs_session *s = open_session(g, 0, err);
    hs_code code = s ? hs_safetensors_save(hs_session_raw(s), path, &options, err) : err->code;
    hs_session_close(s, NULL);
    hs_graph_free(g);
    return code;
}

static hs_code load(const char *path, hs_error *err)
{
    static unsigned char wanted[ROOM];
    hs_restore_options options = HS_INIT(hs_restore_options, .names = names);
    hs_graph *g = hs_graph_new(NULL);
    hs_session *s = open_session(g, 1, err);
    hs_code code = s ? hs_safetensors_load(hs_session_raw(s), path, &options, err) : err->code;
    for (size_t i = 0; !code && i < N_KINDS; i++) {
        fill(i, 0, wanted);
        size_t bytes = (size_t)hs_shape_elements(&kinds[i].shape) * hs_dtype_size(kinds[i].dtype);
        if (memcmp(memory[i], wanted, bytes) != 0)
            code = hs_error_set(err, HS_DATA_LOSS, "%s has other values", kinds[i].name);
    }
    hs_session_close(s, NULL);
    hs_graph_free(g);
    return code;
}

static bool has_unknown_dtype(const char *path)
{
    hs_tensor info;
    bool has = false;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, path, NULL);
    for (size_t i = 0; hs_checkpoint_tensor(reader, i, NULL, &info); i++)
        has = has || !hs_dtype_size(info.dtype);
    hs_checkpoint_close(reader);
    return has;
}

static hs_code try_each(char **paths, hs_error *err)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_session *s = hs_session_open(hs_graph_backend(g), NULL, err);
    for (; s && *paths; paths++) {
        hs_code code = hs_safetensors_load(hs_session_raw(s), *paths, NULL, err);
        puts(code || !has_unknown_dtype(*paths) ? hs_code_name(code) : "UNKNOWN");
    }
    hs_session_close(s, NULL);
    hs_graph_free(g);
    return s ? HS_OK : err->code;
}

int main(int argc, char **argv)
{
    hs_error err = {0};
    hs_code code = HS_INVALID_ARGUMENT;
    if (argc == 3 && strcmp(argv[1], "save") == 0)
        code = save(argv[2], &err);
    else if (argc == 3 && strcmp(argv[1], "load") == 0)
        code = load(argv[2], &err);
    else if (argc > 2 && strcmp(argv[1], "try") == 0)
        code = try_each(argv + 2, &err);
    else if (argc == 4 && strcmp(argv[1], "convert") == 0)
        code = hs_checkpoint_convert(NULL, argv[2], argv[3], NULL, &err);
    if (code)
        fprintf(stderr, "%s: %s\n", hs_code_name(code), err.message);
    return code ? 1 : 0;
}
