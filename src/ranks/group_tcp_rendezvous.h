/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_RANKS_GROUP_TCP_RENDEZVOUS_H
#define HS_RANKS_GROUP_TCP_RENDEZVOUS_H

#include "base/env.h"
#include "ranks/group_tcp_address.h"
#include "ranks/group_tcp_hello.h"

#include <hooksess/group_tcp.h>

/* How the ranks find rank 0: by an address that all know, by a file, or by a function of the program. */

typedef struct hs__tcp_rendezvous {
    const hs_group_tcp_options *options; /* valid */
    int64_t connect_ns;                  /* connect_secs */
    int64_t deadline;                  /* on rank 0: until all ranks are connected. On others: until rank 0 has answered */
    char *path;                        /* of the file. NULL: no file */
    const char *job;                   /* its name. "": none */
    bool published;                    /* by this rank, in the file */
    char addresses[HS__ADDRESSES_MAX]; /* of rank 0 */
    char token[HS__HELLO_TOKEN];
} hs__tcp_rendezvous;

/* The caller releases the rendezvous, also after a failure. */
hs_code hs__rendezvous_init(hs__tcp_rendezvous *rendezvous, const hs_group_tcp_options *options, const hs_env *env,
                            hs_error *err);
void hs__rendezvous_release(hs__tcp_rendezvous *rendezvous, const hs_env *env);

/* On rank 0: listens, and publishes the addresses. If rank 0 cannot listen on its port, sets *failure and listens on
 * another one (the next port, or any port, which it publishes) and reports the failure there to the other ranks. */
hs_code hs__rendezvous_publish(hs__tcp_rendezvous *rendezvous, const hs_env *env, hs__tcp_listener *listener,
                               hs_error *failure, hs_error *err);
/* On rank 0: removes the file, unless a later run has replaced it. Does nothing without a file. */
void hs__rendezvous_withdraw(hs__tcp_rendezvous *rendezvous);

/* On rank 0: HS_UNAVAILABLE if a later rank 0 has replaced the file. Then this one, and all ranks that are registered with
 * it, may belong to an earlier start. */
hs_code hs__rendezvous_check(const hs__tcp_rendezvous *rendezvous, hs_error *err);

hs_code hs__rendezvous_random(void *bytes, size_t n, hs_error *err);

/* Instead of the other functions, if this rank cannot begin: calls the function of the program, because the other ranks
 * wait in it. If this is rank 0, they fail with the error `why`. */
void hs__rendezvous_decline(const hs_group_tcp_options *options, const hs_error *why);

/* On the other ranks: once, before all attempts. Calls the function of the program. */
hs_code hs__rendezvous_begin(hs__tcp_rendezvous *rendezvous, hs_error *err);
/* On the other ranks: finds the addresses, before each attempt. HS_UNAVAILABLE: they are not known yet, or those of another
 * job. */
hs_code hs__rendezvous_find(hs__tcp_rendezvous *rendezvous, hs_error *err);
/* Writes the address on which rank 0 reports that it cannot listen on its port. Returns false if the ranks do not find rank
 * 0 by its address. */
bool hs__rendezvous_next_port(const hs__tcp_rendezvous *rendezvous, char address[HS__ADDRESS_MAX]);

#endif
