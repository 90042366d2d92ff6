/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the name that is most similar to a wrong one, by the edit distance. */
#include "base/similar_name.h"

#include <string.h>

enum { LONGEST = 128 };

/* The prefix of nodes that the library adds. */
#define OURS "hooksess/"

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Returns the edit distance of two names (letters to change, insert or delete), or `limit` if it is `limit` or more. */
static size_t edits(const char *a, size_t a_length, const char *b, size_t b_length, size_t limit)
{
    size_t row[LONGEST + 1];
    size_t apart = a_length > b_length ? a_length - b_length : b_length - a_length;
    if (a_length > LONGEST || b_length > LONGEST || apart >= limit)
        return limit;
    for (size_t i = 0; i <= a_length; i++)
        row[i] = i;
    for (size_t j = 1; j <= b_length; j++) {
        size_t before = row[0], least = row[0] = j;
        for (size_t i = 1; i <= a_length; i++) {
            size_t above = row[i];
            row[i] = smallest(above + 1, row[i - 1] + 1, before + (a[i - 1] != b[j - 1]));
            before = above;
            least = row[i] < least ? row[i] : least;
        }
        if (least >= limit)
            return limit;
    }
    return row[a_length];
}

/* Returns twice the edit distance. Names in a graph are paths, so the last part is compared too; a match of it costs 1. */
static size_t distance(const char *wanted, size_t length, const char *name, size_t limit)
{
    const char *slash = strrchr(name, '/');
    size_t whole = 2 * edits(wanted, length, name, strlen(name), limit);
    size_t last = slash ? 2 * edits(wanted, length, slash + 1, strlen(slash + 1), limit) + 1 : whole;
    return last < whole ? last : whole;
}

hs__similar_name hs__similar_name_begin(const char *wanted)
{
    const char *colon = strchr(wanted, ':');
    size_t length = colon ? (size_t)(colon - wanted) : strlen(wanted);
    return (hs__similar_name){.wanted = wanted, .length = length, .best = 2 * (length / 3 + 2)};
}

void hs__similar_name_add(hs__similar_name *search, const char *name)
{
    if (strncmp(name, OURS, sizeof OURS - 1) == 0)
        return;
    size_t apart = distance(search->wanted, search->length, name, search->length / 3 + 2);
    if (apart < search->best) {
        search->best = apart;
        search->found = name;
    }
}
