/* SPDX-License-Identifier: Apache-2.0 */
/* make_checkpoint PREFIX [SHARD SHARDS]: writes the tensors that standard input lists, one per line:
 *
 *   =NAME DTYPE DIMS =DATA [STARTS WHOLE]
 *
 * NAME and DATA are hexadecimal, the elements of strings separated by commas. DTYPE is a number. Each dimension is followed
 * by a comma; "-" is a scalar. A slice has its starts in a tensor with the dimensions WHOLE. Names and data may be invalid.
 */
#include <hooksess/tensor.h>

#include "formats/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STRINGS = 100 };

/* The input is invalid, or the disk is full. */
static void die(const char *why)
{
    fprintf(stderr, "make_checkpoint: %s\n", why);
    exit(1);
}

/* Decodes hexadecimal digits in place, and appends a zero byte. */
static size_t decode(char *text)
{
    size_t n = strlen(text) / 2;
    for (size_t i = 0; i < n; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        text[i] = (char)strtoul(digits, NULL, 16);
    }
    text[n] = '\0';
    return n;
}

static hs_shape shape_of(const char *dims)
{
    hs_shape shape = {.rank = 0};
    char *end;
    while (*dims != '-' && *dims && shape.rank < HS_MAX_RANK) {
        shape.dims[shape.rank++] = strtoll(dims, &end, 10);
        if (*end != ',')
            die("wrong dimensions");
        dims = end + 1;
    }
    return shape;
}

static void split(char *data, int64_t n, hs_string *strings)
{
    for (int64_t i = 0; i < n && i < MOST_STRINGS; i++) {
        char *comma = strchr(data, ',');
        if (comma)
            *comma = '\0';
        strings[i].data = data;
        strings[i].bytes = decode(data);
        data = comma ? comma + 1 : data;
    }
}

static void add(hs__bundle_writer *writer, char *line)
{
    char *name = strtok(line, " \n"), *dtype = strtok(NULL, " \n"), *dims = strtok(NULL, " \n"),
         *data = strtok(NULL, " \n"), *starts = strtok(NULL, " \n"), *whole = strtok(NULL, " \n");
    hs_string strings[MOST_STRINGS];
    hs_error err;
    if (!data)
        die("a line is too short");
    decode(++name);
    hs_shape shape = shape_of(dims);
    hs_tensor tensor = hs_tensor_of((hs_dtype)atoi(dtype), shape, ++data);
    if (tensor.dtype == HS_STRING) {
        split(data, hs_shape_elements(&shape), strings);
        tensor.data = strings;
    } else if (decode(data) != tensor.bytes) {
        die("the data do not fit the shape");
    }
    hs_shape all = shape_of(whole ? whole : "-"), start = shape_of(starts ? starts : "-");
    if (whole ? hs__bundle_writer_add_slice(writer, name, &all, start.dims, &tensor, &err)
              : hs__bundle_writer_add(writer, name, &tensor, &err))
        die(err.message);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("no prefix");
    hs_error err;
    const hs_env *env = hs_env_default();
    int32_t shard = argc > 3 ? atoi(argv[2]) : 0, shards = argc > 3 ? atoi(argv[3]) : 1;
    char *data = hs__bundle_data_path(env, argv[1], shard, shards), *index = hs__bundle_index_path(env, argv[1]);
    char *line = NULL;
    size_t room = 0;
    hs__bundle_writer writer;
    if (hs__bundle_writer_open(&writer, env, data, shard, shards, &err))
        die(err.message);
    while (getline(&line, &room, stdin) > 0)
        add(&writer, line);
    if (hs__bundle_writer_finish(&writer, index, &err))
        die(err.message);
    hs__bundle_writer_close(&writer);
    hs_env_free(env, data);
    hs_env_free(env, index);
    free(line);
    return 0;
}
