/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text, divides it, and cuts it into sequences. */
#include "data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECES = 100, VALIDATION_OF = 10 };

static hs_code read_file(const char *path, unsigned char **bytes, size_t *n, hs_error *err)
{
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about) != 0) {
        hs_error_set_errno(err, errno, "--text '%s'", path);
    } else if (!S_ISREG(about.st_mode)) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "--text '%s' is not a regular file", path);
    } else if (about.st_size > INT32_MAX) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "--text '%s': the file has 2 GiB or more; use a part of it", path);
    } else if (!(*bytes = malloc((size_t)about.st_size + 1))) {
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "--text '%s': out of memory for %lld bytes", path,
                     (long long)about.st_size);
    } else {
        *n = fread(*bytes, 1, (size_t)about.st_size, file);
        if (ferror(file))
            hs_error_set_errno(err, errno, "--text '%s'", path);
    }
    if (file)
        fclose(file);
    return err->code;
}

hs_code text_load(struct text *text, const char *path, int context, hs_error *err)
{
    unsigned char *bytes = NULL;
    size_t n = 0;
    const int needed = VALIDATION_OF * (context + 2);
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    *text = (struct text){.train = NULL};
    if (read_file(path, &bytes, &n, err)) {
        free(bytes);
        return err->code;
    }
    text->train = bytes;
    if (!(text->validation = malloc(n + 1)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "--text '%s': out of memory for %zu bytes", path, n);
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    for (size_t piece = 0; piece < PIECES; piece++) {
        size_t begin = n * piece / PIECES, length = n * (piece + 1) / PIECES - begin;
        bool validates = piece % VALIDATION_OF == VALIDATION_OF - 1;
        memmove(validates ? text->validation + text->n_validation : text->train + text->n_train, bytes + begin, length);
        *(validates ? &text->n_validation : &text->n_train) += length;
    }
    snprintf(text->identity, sizeof text->identity, "text of %zu bytes, FNV-1a %016llx", n, (unsigned long long)hash);
    if (n < (size_t)needed || text->n_validation <= (size_t)context)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "--text '%s': %zu bytes are too few for --context %d: %d are needed",
                            path, n, context, needed);
    return HS_OK;
}

void text_free(struct text *text)
{
    free(text->train);
    free(text->validation);
}

/* `targets` has the successor of each byte. */
static void copy_sequence(const unsigned char *text, size_t position, int context, int32_t *inputs, int32_t *targets)
{
    for (int i = 0; i < context; i++) {
        inputs[i] = text[position + (size_t)i];
        targets[i] = text[position + (size_t)i + 1];
    }
}

void text_draw(const struct text *text, struct rng *rng, int context, int32_t *inputs, int32_t *targets)
{
    copy_sequence(text->train, rng_below(rng, (uint32_t)(text->n_train - (size_t)context)), context, inputs, targets);
}

void text_validation(const struct text *text, int index, int count, int context, int32_t *inputs, int32_t *targets)
{
    size_t positions = text->n_validation - (size_t)context;
    copy_sequence(text->validation, positions * (size_t)index / (size_t)count, context, inputs, targets);
}
