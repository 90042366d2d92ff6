/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_EVENTS_H
#define TOOL_EVENTS_H

#include <hooksess/event_reader.h>

#include "base/similar_name.h"

/* Reads the events of a file or directory. */
typedef struct events {
    hs_event_reader *reader;
    const char *path;
    uint64_t n;                                                 /* number of events read */
    uint64_t damages;                                           /* number of damaged places found */
    uint64_t torn;                                              /* those at which a file ends inside a record */
    void (*damaged)(void *user, const hs_event_damage *damage); /* NULL: damage is printed on standard error */
    void *user;
    bool failed;   /* reading failed; the error is printed */
    bool is_other; /* it failed because a file is not an event file */
} events;

/* Set `damaged` and `user` before. `opened` must not move while it is open. False: failed; the error is printed. */
bool open_events(events *opened, const char *path);
void close_events(events *opened);
/* False at the end and on failure. */
bool next_event(events *from, const hs_event **event);

/* True, and prints it, if there was no event, not even a damaged one. Call it after all were read. */
bool has_no_event(const events *of);
/* The exit status after all events were read: FOUND if some are damaged. */
int events_status(const events *of);

/* A tag that the user wants, or a pattern with * and ?. Begin with {.pattern = ...}. */
typedef struct wanted_tag {
    const char *pattern; /* NULL: all tags */
    bool found;
    hs__similar_name similar; /* of the tags that are not wanted */
    char *nearest;
} wanted_tag;

bool is_wanted_tag(wanted_tag *wanted, hs_string tag);
/* Prints that no tag in `path` was wanted. `kind` is that of the tag, such as "scalar". */
void say_not_found(const wanted_tag *wanted, const char *path, const char *kind);

/* The STARTs of a run. A run that restarts writes a START, and repeats the steps from that step on: each makes the
 * summaries before it obsolete that are at its step or above. TensorBoard drops these as well. Begin with {NULL}. */
typedef struct starts {
    struct start {
        uint64_t before; /* number of events before it */
        int64_t step;
    } * rows; /* in ascending order of their steps: a START replaces earlier ones at higher steps */
    size_t n;
} starts;

void note_start(starts *all, uint64_t before, int64_t step);
/* True if event number `event` at `step` is obsolete, if it is a summary. Call it in the order of the events; *next begins
 * with 0. */
bool is_obsolete(const starts *all, size_t *next, uint64_t event, int64_t step);

/* Returns false, and prints an error, if an output must not be renamed to `path`, because `path` is a device (also
 * /dev/stdout, a link to a device), a FIFO or a directory. */
bool can_be_replaced(const char *path);

/* The size of a file. 0: unknown. */
uint64_t size_of_file(const char *path);

#endif
