/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_REPLICAS_GROUP_TCP_HELLO_H
#define HS_REPLICAS_GROUP_TCP_HELLO_H

#include <stddef.h>
#include <stdint.h>

/* The messages with which a connection of a group over TCP begins. Both sides send messages of one fixed size, so that a
 * reader needs no length from the network. This file neither allocates nor uses sockets.
 *
 *   kind      from                to           meaning
 *   REGISTER  any rank but 0      rank 0       text: the address on which this rank listens, or "" if it has no children
 *   CONTROL   a rank              its parent   this connection is for the detector
 *   DATA      a rank              its parent   this connection is for collective calls
 *   WAIT      rank 0              a rank       is registered; a second answer follows
 *   WELCOME   rank 0, a parent    a rank       text, after REGISTER: the address of the parent, or "" if this is rank 0
 *   REFUSED   rank 0, a parent    a rank       text: why */

typedef enum hs__hello_kind {
    HS__HELLO_REGISTER = 1,
    HS__HELLO_CONTROL = 2,
    HS__HELLO_DATA = 3,
    HS__HELLO_WAIT = 4,
    HS__HELLO_WELCOME = 5,
    HS__HELLO_REFUSED = 6
} hs__hello_kind;

enum {
    HS__HELLO_BYTES = 384,
    HS__HELLO_TOKEN = 64, /* sizes of the texts, with the zero at their end */
    HS__HELLO_HOST = 72,
    HS__HELLO_TEXT = 224
};

typedef struct hs__hello {
    hs__hello_kind kind;
    int32_t rank, rank_count;    /* of the rank that connects, in both directions */
    char token[HS__HELLO_TOKEN]; /* of the job: its name, or the random nonce */
    char host[HS__HELLO_HOST];   /* host name of the sender, for messages */
    char text[HS__HELLO_TEXT];
} hs__hello;

void hs__hello_write(const hs__hello *hello, unsigned char bytes[HS__HELLO_BYTES]);

/* Parses a message. Returns NULL, or what is wrong with it. A parsed message has a known kind, and 0 <= rank < rank_count;
 * its texts are printable ASCII. */
const char *hs__hello_parse(const unsigned char bytes[HS__HELLO_BYTES], hs__hello *hello);

/* Numbers of messages: little-endian. */
void hs__write_u32(unsigned char *at, uint32_t value);
void hs__write_u64(unsigned char *at, uint64_t value);
uint32_t hs__read_u32(const unsigned char *at);
uint64_t hs__read_u64(const unsigned char *at);

#endif
