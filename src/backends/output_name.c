/* SPDX-License-Identifier: Apache-2.0 */
/* Splits "op:output". */
#include "backends/output_name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

hs__output_name hs__parse_output_name(const char *text)
{
    const char *colon = strrchr(text, ':');
    if (!colon)
        return (hs__output_name){.op_length = strlen(text), .valid = true};
    char *end;
    unsigned long output = strtoul(colon + 1, &end, 10);
    bool valid = isdigit((unsigned char)colon[1]) && !*end;
    return (hs__output_name){
        .op_length = (size_t)(colon - text), .output = valid ? output : 0, .has_output = true, .valid = valid};
}
