/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_REPLICAS_GROUP_TCP_RENDEZVOUS_H
#define HS_REPLICAS_GROUP_TCP_RENDEZVOUS_H

#include "base/env.h"
#include "replicas/group_tcp_hello.h"
#include "replicas/group_tcp_socket.h"

#include <hooksess/group_tcp.h>

/* How the ranks find rank 0: by an address that all know, by a file, or by a function of the program. */

typedef struct hs__tcp_rendezvous {
    const hs_group_tcp_options *options; /* valid */
    int64_t deadline;                    /* until all ranks are connected */
    int64_t attempt_ns;                  /* limit of one attempt to get an answer */
    char *path;                          /* of the file. NULL: no file */
    bool published;                      /* by this rank, in the file */
    char address[HS__ADDRESS_MAX];       /* of rank 0 */
    char token[HS__HELLO_TOKEN];
} hs__tcp_rendezvous;

/* The caller releases the rendezvous, also after a failure. */
hs_code hs__rendezvous_init(hs__tcp_rendezvous *rendezvous, const hs_group_tcp_options *options, const hs_env *env,
                            hs_error *err);
void hs__rendezvous_release(hs__tcp_rendezvous *rendezvous, const hs_env *env);

/* On rank 0: listens, and publishes the address. */
hs_code hs__rendezvous_publish(hs__tcp_rendezvous *rendezvous, const hs_env *env, int *listener, hs_error *err);
/* On rank 0: removes the file, unless a later run has replaced it. Does nothing if there is none. */
void hs__rendezvous_withdraw(hs__tcp_rendezvous *rendezvous);

/* Instead of the other functions, if this rank cannot begin: calls the function of the program with an empty record,
 * because the other ranks wait in it. Then these fail. */
void hs__rendezvous_decline(const hs_group_tcp_options *options);

/* On the other ranks: once, before all attempts. Calls the function of the program. */
hs_code hs__rendezvous_begin(hs__tcp_rendezvous *rendezvous, hs_error *err);
/* On the other ranks: finds the address, before each attempt. HS_UNAVAILABLE: it is not known yet. */
hs_code hs__rendezvous_find(hs__tcp_rendezvous *rendezvous, hs_error *err);

#endif
