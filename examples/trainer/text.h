/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_TEXT_H
#define TRAINER_TEXT_H

#include <stddef.h>

/* A text of bounded size. A piece that does not fit is dropped. */
struct text {
    size_t used;
    char bytes[1 << 14];
};

void text_clear(struct text *text);
void text_add(struct text *text, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#endif
