/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_OUTPUT_H
#define TOOL_OUTPUT_H

#include <hooksess/export.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Makes lost output an error: a closed pipe does not kill the tool, and no file that it opens gets the descriptor of a
 * closed standard output. */
void output_begin(void);
/* False if output was lost. Commands check this from time to time, and stop. */
bool output_works(void);
/* Flushes and closes the output. Returns `status`, or TROUBLE if output was lost, which it prints. */
int output_end(int status);

/* Prints "hooksess: ..." as a line on standard error. Escapes control characters. */
void say(const char *format, ...) HS_PRINTF(1, 2);

/* The end of a noun after a number: "" or "s". */
const char *plural(uint64_t n);

/* Prints a name. Escapes control characters, backslashes and bytes that are not UTF-8 as in C, as they must not reach a
 * terminal. */
void put_name(const char *name);
/* The same, padded with blanks to `width` columns. */
void put_padded(const char *name, int width);
/* The number of columns of the printed name. */
int name_width(const char *name);

/* Styles of the text that follows, if standard output is a terminal and NO_COLOR is not set (no-color.org). */
typedef enum style { STYLE_NONE, STYLE_GOOD, STYLE_WARNING, STYLE_BAD, STYLE_DIM } style;
void put_style(style chosen);
/* The color of a line of a chart. */
void put_series_style(size_t line);
/* The number of columns of the terminal. Without a terminal: $COLUMNS, or 80. */
int terminal_width(void);
/* True if styles are printed. */
bool has_styles(void);

/* The length of the first UTF-8 character of a text. 0: not UTF-8, or empty. */
size_t utf8_length(const char *text);

#endif
