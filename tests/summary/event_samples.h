/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUMMARY_EVENT_SAMPLES_H
#define HS_TESTS_SUMMARY_EVENT_SAMPLES_H

/* Shared by the tests of event_reader.h: a directory with event files made by hand. */

#include "formats/records.h"
#include "support/test.h"

enum { STEP_BYTES = 18 }; /* size of a record of add_step */

extern test_env t;
extern char *directory;
extern hs_error err;
extern hs__buffer file; /* the contents of the next file */

/* The reported damage. */
typedef struct reports {
    size_t n;
    uint64_t offset, bytes; /* of the last report */
    bool is_truncated;
    char text[HS_MESSAGE_SIZE];
} reports;
extern reports reported;

void on_damage(void *user, const hs_event_damage *damage);
int set_up(void **state);
int tear_down(void **state);
/* Appends an event with only a step. */
void add_step(unsigned char step);
/* Appends a record with these bytes. */
void add_event(const void *data, size_t bytes);
/* The path of file i. */
const char *name(int i);
/* Writes the first bytes of `file` as file i. */
void write_first(int i, size_t bytes);
/* Writes the steps [from, to) as file i. */
void write_steps(int i, unsigned char from, unsigned char to);
/* Opens a reader of the directory. Damage is recorded in `reported`. */
hs_event_reader *open_reader(bool follow);
void assert_step(hs_event_reader *reader, int64_t step);
/* Asserts that reading fails with this code, also when repeated. */
void assert_stops(hs_event_reader *reader, hs_code code);

#endif
