/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_TERMINAL_H
#define HS_BASE_TERMINAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A line of a terminal that is rewritten in place, and so has no newline yet. hs_progress writes one. If it is on the
 * terminal of stderr, the default log blanks it before it writes there. */

/* Wider terminals are used up to here. */
enum { HS__MOST_COLUMNS = 500, HS__BLANKS = HS__MOST_COLUMNS + 3 };

/* The columns of such a line on the terminal of stderr. 0: none. Like stderr, it is the process's: objects of several
 * environments and the default log, which belongs to none, write there. */
extern atomic_int hs__stderr_line;

/* True: both this descriptor and stderr are the same terminal. */
bool hs__is_stderr_terminal(int descriptor);
/* Queried each time, because the window may be resized. */
int hs__terminal_columns(int descriptor);
/* Makes the text that blanks a line with `shown` columns and the "^C" behind it, and returns to its first column. Returns
 * its bytes. 0 columns: none. */
size_t hs__blank_line(char text[HS__BLANKS], int descriptor, int shown);

#endif
