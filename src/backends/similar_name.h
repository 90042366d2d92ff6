/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_SIMILAR_NAME_H
#define HS_BACKENDS_SIMILAR_NAME_H

#include <stddef.h>

/* A search for the node whose name is most similar to a name that the graph does not have, for "did you mean". */
typedef struct {
    const char *wanted;
    size_t length;     /* of `wanted` without ":output" */
    size_t best;       /* twice the edit distance of `found`, or the limit */
    const char *found; /* NULL: none is similar */
} hs__similar_name;

/* Begins the search. `wanted` is borrowed. */
hs__similar_name hs__similar_name_begin(const char *wanted);
/* Compares the name of a node of the graph, which is borrowed. */
void hs__similar_name_add(hs__similar_name *search, const char *name);

#endif
