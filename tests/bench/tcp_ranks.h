/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BENCH_TCP_RANKS_H
#define HS_TESTS_BENCH_TCP_RANKS_H

/* Prints the figures of a group over TCP of 8 processes: tcp_star_us, tcp_agreement_us, tcp_over_star, death_known_ms
 * (bench_replicas.c). Forks, so call it before threads are started. Exits if a process fails. */
void bench_tcp_ranks(void);

#endif
