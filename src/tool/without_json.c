/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that read JSON files, in a tool that was built without JSON. */
#include "command.h"
#include "output.h"

static int refuse(const char *command)
{
    say("%s: this hooksess was built without JSON; build it with -DHOOKSESS_JSON=ON", command);
    return TROUBLE;
}

int status_command(const struct call *call)
{
    (void)call;
    return refuse("status");
}

int outcome_command(const struct call *call)
{
    (void)call;
    return refuse("outcome");
}
