/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_GROUP_TCP_HELLO_H
#define HS_RANKS_GROUP_TCP_HELLO_H

#include <stddef.h>
#include <stdint.h>

/* The messages with which a connection of a group over TCP begins. Both sides send messages of one fixed size, so that a
 * reader needs no length from the network. This file neither allocates nor uses sockets.
 *
 *   kind       from         to           meaning
 *   REGISTER   any but 0    rank 0       text: the addresses on which this rank listens, or "" if it has no children
 *   WAIT       rank 0       a rank       is registered. The connection stays open until START or FAILED
 *   WELCOME    rank 0       a rank       all are registered. Text: the addresses of the parent, or "" if this is rank 0
 *   CONTROL    a rank       its parent   this connection is for the detector
 *   DATA       a rank       its parent   this connection is for collective calls
 *   WELCOME    a parent     a rank       answers CONTROL and DATA
 *   CONNECTED  a rank       rank 0       both connections to the parent are open
 *   START      rank 0       a rank       all connections of the group are open
 *   ASK        any but 0    rank 0       has rank 0 failed? Sent to the port next to the address of rank 0
 *   REFUSED    any          any          text: why. The other side may try again
 *   FAILED     rank 0       a rank       the group cannot start. Code and text: the error of all ranks */

typedef enum hs__hello_kind {
    HS__HELLO_REGISTER = 1,
    HS__HELLO_CONTROL = 2,
    HS__HELLO_DATA = 3,
    HS__HELLO_WAIT = 4,
    HS__HELLO_WELCOME = 5,
    HS__HELLO_REFUSED = 6,
    HS__HELLO_CONNECTED = 7,
    HS__HELLO_START = 8,
    HS__HELLO_ASK = 9,
    HS__HELLO_FAILED = 10
} hs__hello_kind;

enum {
    HS__HELLO_VERSION = 2,
    HS__HELLO_HEAD = 12, /* bytes that are the same in all versions: "HOOKSESS" and the version */
    HS__HELLO_BYTES = 676,
    HS__HELLO_TOKEN = 64, /* sizes of the texts, with the zero at their end */
    HS__HELLO_HOST = 72,
    HS__HELLO_TEXT = 512
};

typedef struct hs__hello {
    hs__hello_kind kind;
    int32_t rank, rank_count;    /* of the rank that is not rank 0 or not the parent, in both directions */
    int32_t code;                /* of FAILED: an hs_code. Of REGISTER: a random number of the process */
    char token[HS__HELLO_TOKEN]; /* of the job: its name, or the random nonce */
    char host[HS__HELLO_HOST];   /* host name of the sender, for messages */
    char text[HS__HELLO_TEXT];
} hs__hello;

void hs__hello_write(const hs__hello *hello, unsigned char bytes[HS__HELLO_BYTES]);

/* Returns the version of the protocol of a message that begins with these bytes. 0: it is not a message of a group. */
uint32_t hs__hello_version(const unsigned char head[HS__HELLO_HEAD]);

/* Parses a message. Returns NULL, or what is wrong with it. A parsed message has a known kind, and 0 <= rank < rank_count;
 * its texts are printable ASCII. */
const char *hs__hello_parse(const unsigned char bytes[HS__HELLO_BYTES], hs__hello *hello);

/* Numbers of messages: little-endian. */
void hs__write_u32(unsigned char *at, uint32_t value);
void hs__write_u64(unsigned char *at, uint64_t value);
uint32_t hs__read_u32(const unsigned char *at);
uint64_t hs__read_u64(const unsigned char *at);

#endif
