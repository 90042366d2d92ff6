/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's statuses as errors. The codes are the same. */
#include "tensorflow/tf_api.h"

#include <stdio.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Replaces each run of white space by a blank. */
static void put_on_one_line(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!is_blank(*from))
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    if (to > text && to[-1] == ' ')
        to--;
    *to = '\0';
}

hs_code hs__tf_check_status(const hs__tf_api *api, const TF_Status *status, hs_error *err)
{
    hs_code code = (hs_code)api->GetCode(status);
    if (code == HS_OK)
        return HS_OK;
    if (code < HS_OK || code > HS_UNAUTHENTICATED)
        code = HS_UNKNOWN;
    char text[2 * HS_MESSAGE_SIZE];
    snprintf(text, sizeof text, "%s", api->Message(status));
    put_on_one_line(text);
    return hs_error_set(err, code, "%s", text);
}
