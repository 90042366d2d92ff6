/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_SIMILAR_NAME_H
#define HS_BASE_SIMILAR_NAME_H

#include <stddef.h>

/* A search for the name that is most similar to a wrong one, for "did you mean". */
typedef struct {
    const char *wanted;
    size_t length;     /* of `wanted` without ":output" */
    size_t best;       /* twice the edit distance of `found`, or the limit */
    const char *found; /* NULL: none is similar */
} hs__similar_name;

/* Begins the search. `wanted` is borrowed. */
hs__similar_name hs__similar_name_begin(const char *wanted);
/* Compares a name, which is borrowed. Names that begin with "hooksess/" are never found. */
void hs__similar_name_add(hs__similar_name *search, const char *name);

#endif
