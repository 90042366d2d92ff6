/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTING_WORDS_H
#define HS_TESTING_WORDS_H

#include <hooksess/env.h>

/* Text that grows. After a failed allocation, additions are ignored until the text is cleared, and the text ends with
 * HS__REST_LOST. */
#define HS__REST_LOST " (rest lost: out of memory)"

typedef struct hs__words {
    const hs_env *env; /* complete */
    char *text;        /* NULL: nothing was added */
    size_t length, capacity;
    bool failed;
} hs__words;

void hs__words_init(hs__words *words, const hs_env *env);
void hs__words_free(hs__words *words);
void hs__words_clear(hs__words *words);
/* Makes room for `bytes` more. Returns false if memory is exhausted. */
bool hs__words_reserve(hs__words *words, size_t bytes);
void hs__words_add(hs__words *words, const char *format, ...) HS_PRINTF(2, 3);
/* Returns the text. It is "" if nothing was added. */
const char *hs__words_text(const hs__words *words);

#endif
