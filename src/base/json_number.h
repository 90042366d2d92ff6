/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_JSON_NUMBER_H
#define HS_BASE_JSON_NUMBER_H

#include <stdbool.h>

/* Numbers in JSON's form, which the program's locale does not change. Texts end with a zero. */

/* Parses a text that consists of one number, with blanks around it. Returns false if the text is not a number, or the
 * number is not finite. */
bool hs__json_number(const char *text, double *number);
/* Finds the first member `key` of a JSON object, without other checks of the object. False: not found, or
 * not a finite number. */
bool hs__json_member_number(const char *text, const char *key, double *number);

#endif
