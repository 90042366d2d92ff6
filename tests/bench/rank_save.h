/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BENCH_RANK_SAVE_H
#define HS_TESTS_BENCH_RANK_SAVE_H

/* Prints the figures of a save of the states of 4 processes: gathered_save_s, single_save_s, gathered_over_single,
 * rank0_extra_bytes (bench_replicas.c). Forks, so call it before threads are started. Exits if a process fails. */
void bench_rank_save(void);

#endif
