/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUMMARY_EVENT_SAMPLES_H
#define HS_TESTS_SUMMARY_EVENT_SAMPLES_H

/* A directory with event files put together by hand, for the tests of event_reader.h. */

#include "formats/records.h"
#include "support/test.h"

enum { STEP_BYTES = 18 }; /* a record of add_step */

extern test_env t;
extern char *directory;
extern hs_error err;
extern hs__buffer file; /* what is to be in a file */

/* What was reported. */
typedef struct reports {
    size_t n;
    uint64_t offset, bytes; /* the last: */
    bool is_truncated;
    char text[HS_MESSAGE_SIZE];
} reports;
extern reports reported;

void on_damage(void *user, const hs_event_damage *damage);
int set_up(void **state);
int tear_down(void **state);
/* Appends an event of this step that is nothing else. */
void add_step(unsigned char step);
/* Appends a record of these bytes. */
void add_event(const void *data, size_t bytes);
/* The path of file i. */
const char *name(int i);
/* Writes the first bytes of what was appended as file i. */
void write_first(int i, size_t bytes);
/* The steps [from, to) as file i. */
void write_steps(int i, unsigned char from, unsigned char to);
/* Of the directory; damage goes to `reported`. */
hs_event_reader *open_reader(bool follow);
void assert_step(hs_event_reader *reader, int64_t step);
/* Twice, so. */
void assert_stops(hs_event_reader *reader, hs_code code);

#endif
