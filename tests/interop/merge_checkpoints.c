/* SPDX-License-Identifier: Apache-2.0 */
/* merge_checkpoints MERGED PREFIX...: makes one checkpoint of several. */
#include <hooksess/hooksess.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    hs_error err = {0};
    if (argc < 3)
        return 2;
    hs_code code = hs_checkpoint_merge(NULL, (const char *const *)argv + 2, argv[1], &err); /* a NULL ends argv */
    if (code)
        fprintf(stderr, "%s: %s\n", hs_code_name(code), err.message);
    return code ? 1 : 0;
}
