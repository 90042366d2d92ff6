/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_FORMATS_TABLES_H
#define HS_TESTS_FORMATS_TABLES_H

/* Shared by the tests of tables: a table that is written to `file`, and the entries that are read from it. */

#include "support/test.h"

#include "formats/table.h"

enum { TRAILER = 5, FOOTER = 48 };

extern test_env t;
extern hs_error err;
extern hs__buffer file;
extern hs__table_writer table;

/* All entries that were read, each with its lengths. */
extern struct seen {
    hs__buffer bytes;
    size_t n, stop_at; /* the number of entries after which the visitor stops; 0: never */
} seen;

/* Begins a table. */
int set_up(void **state);
int tear_down(void **state);

void add(const char *key, const char *value);
void finish(void);
/* Reads the first bytes of the file. A read beyond them ends the program. */
hs_code read_exactly(size_t bytes);
/* Verifies all blocks of the file. */
hs_code verify_all(void);

#endif
