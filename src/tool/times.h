/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_TIMES_H
#define TOOL_TIMES_H

#include <stdbool.h>
#include <stdint.h>

/* Times as in status.json: "2024-05-01T12:30:00.250Z". */

enum { TIME_TEXT = 64 };

/* Writes a time, in nanoseconds since 1970, to `text`, which is returned. */
const char *time_text(char text[TIME_TEXT], int64_t ns);
/* False: the text is not such a time. */
bool parse_time(const char *text, int64_t *ns);

/* Writes a duration to `text`, which is returned: up to two minutes as the log does, "12.3 s"; then as "5 min", "3.1 h" or
 * "2.5 days". */
const char *duration_text(char text[TIME_TEXT], double secs);

#endif
