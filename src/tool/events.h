/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_EVENTS_H
#define TOOL_EVENTS_H

#include <hooksess/event_reader.h>

/* The events of a file or directory, as the commands read them. */
typedef struct events {
    hs_event_reader *reader;
    uint64_t damages;                                           /* so far, */
    uint64_t torn;                                              /* and so many of them are files that end inside a record */
    void (*damaged)(void *user, const hs_event_damage *damage); /* NULL: it is said on standard error */
    void *user;
    bool failed; /* reading, as was said */
} events;

/* False: it could not be, as was said. `opened` stays where it is; damaged and user were set before. */
bool open_events(events *opened, const char *path);
void close_events(events *opened);
/* False at the end, or when reading failed. */
bool next_event(events *from, const hs_event **event);

/* How a command ends that has read all: whether there was damage. */
int events_status(const events *of);

/* Whatever bytes a string has, as text that ends with a zero; to be freed with free. Ends the tool without memory. */
char *text_of(hs_string string);
/* malloc and realloc, which end the tool without memory. */
void *must_allocate(void *block, size_t n, size_t size);
/* tsearch of a row that the tree does not have, which ends the tool without memory. */
void must_add(void *row, void **tree, int (*compare)(const void *a, const void *b));

/* The size of a file; 0 if nobody knows. */
uint64_t size_of_file(const char *path);

#endif
