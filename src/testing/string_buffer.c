/* SPDX-License-Identifier: Apache-2.0 */
#include "testing/words.h"

#include "base/c_locale.h"

#include <stdio.h>
#include <string.h>

void hs__words_init(hs__words *words, const hs_env *env)
{
    *words = (hs__words){.env = env};
}

void hs__words_free(hs__words *words)
{
    hs_env_free(words->env, words->text);
    hs__words_init(words, words->env);
}

void hs__words_clear(hs__words *words)
{
    words->length = 0;
    words->failed = false;
    if (words->text)
        words->text[0] = '\0';
}

bool hs__words_reserve(hs__words *words, size_t bytes)
{
    const hs_allocator *memory = &words->env->allocator;
    size_t needed = words->length + bytes + sizeof HS__REST_LOST, doubled = 2 * words->capacity;
    if (words->failed || needed <= words->capacity)
        return !words->failed;
    size_t capacity = needed > doubled ? needed : doubled;
    char *grown = memory->realloc(memory->user, words->text, capacity);
    if (grown) {
        grown[words->length] = '\0';
        words->text = grown;
        words->capacity = capacity;
    }
    words->failed = !grown;
    if (words->failed && words->text)
        strcpy(words->text + words->length, HS__REST_LOST);
    return grown != NULL;
}

void hs__words_add(hs__words *words, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = hs__vsnprintf(NULL, 0, format, arguments);
    if (length >= 0 && hs__words_reserve(words, (size_t)length)) {
        hs__vsnprintf(words->text + words->length, (size_t)length + 1, format, again);
        words->length += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

const char *hs__words_text(const hs__words *words)
{
    if (words->text)
        return words->text;
    return words->failed ? HS__REST_LOST : "";
}
