/* SPDX-License-Identifier: Apache-2.0 */
/* For libFuzzer: the first message of a connection, which any program on the network can send. The parser refuses it, or
 * its result can be written and parsed again. */
#include "ranks/group_tcp_hello.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    unsigned char bytes[HS__HELLO_BYTES] = {0}, written[HS__HELLO_BYTES];
    hs__hello hello = {.kind = HS__HELLO_REFUSED}, again = {.kind = HS__HELLO_REFUSED};
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (hs__hello_parse(bytes, &hello))
        return 0;
    hs__hello_write(&hello, written);
    if (hs__hello_parse(written, &again) || again.kind != hello.kind || again.rank != hello.rank ||
        again.rank_count != hello.rank_count || again.code != hello.code || strcmp(again.token, hello.token) != 0 ||
        strcmp(again.host, hello.host) != 0 || strcmp(again.text, hello.text) != 0)
        abort();
    return 0;
}
