/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_RECORD_FILES_H
#define HS_TESTS_FORMATS_RECORD_FILES_H

/* Shared by the tests of records.h: a directory with one file of records. */

#include "base/buffer.h" /* before the names below */
#include "support/test.h"

#define EACH(kind) for (hs_record_compression kind = HS_RECORDS_PLAIN; kind <= HS_RECORDS_GZIP; kind++)

extern test_env t;
extern char *directory;
extern hs_error err;
/* "0." to "9.", and NULL. */
extern const char *const few[11];

int set_up(void **state);
int tear_down(void **state);
const char *path(void);
hs_record_writer *new_writer(hs_record_compression kind);
void put(hs_record_writer *writer, const char *text);
void finish(hs_record_writer *writer);
/* Writes a file of these records, terminated by NULL. */
void write_all(hs_record_compression kind, const char *const *texts);
hs_record_reader *new_reader(hs_record_compression kind, int64_t buffer);
void assert_next(hs_record_reader *reader, const char *text);
void assert_stops(hs_record_reader *reader, hs_code code, const char *why);
void assert_end(hs_record_reader *reader);
size_t file_size(void);

#endif
