/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_OUTPUT_H
#define TOOL_OUTPUT_H

#include <hooksess/export.h>

#include <stdio.h>

/* Makes sure that what is written to standard output gets there or is known to be lost: a closed pipe is an error to hear
 * of, and no file that is opened later takes the place of a closed standard output. */
void output_begin(void);
/* Could all be written so far? Commands ask it now and then, and give up. */
bool output_works(void);
/* How the tool ends: `status`, unless something could not be written. Says so. */
int output_end(int status);

/* A line on standard error, "hooksess: ...". Control characters in it are escaped. */
void say(const char *format, ...) HS_PRINTF(1, 2);

/* A name, with control characters, backslashes and bytes that are no UTF-8 escaped as in C: names may be anything, and must
 * not reach a terminal as they are. */
void put_name(const char *name);
/* The same, with blanks up to `width` columns. */
void put_padded(const char *name, int width);
/* How many columns that takes. */
int name_width(const char *name);

/* The length of the well-formed UTF-8 character that the text begins with, 0 if it begins with none. */
size_t utf8_length(const char *text);

#endif
