/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_OUTPUT_NAME_H
#define HS_BACKENDS_OUTPUT_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* A name as programs write it: "loss" is an op, "loss:1" is output 1 of the op "loss". */
typedef struct {
    size_t op_length; /* of the op's name: up to the last ':', or all of the text */
    size_t output;    /* 0 without a valid number */
    bool has_output;  /* the text has a ':' */
    bool valid;       /* no ':', or only digits after it */
} hs__output_name;

hs__output_name hs__parse_output_name(const char *text);

#endif
