/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_REPLICAS_PROCESSES_H
#define HS_TESTS_REPLICAS_PROCESSES_H

/* Runs the ranks of a group over TCP, each in a separate process. The test and a rank synchronize by single bytes. */

#include "support/test.h"

#include <hooksess/group_tcp.h>

#include <sys/types.h>

enum { PROCESSES_MAX = 24, PROCESSES_NUMBERS = 8, PROCESSES_PORTS = 3 };

/* What a rank leaves for the test, in shared memory. */
typedef struct process_results {
    char failed_check[1024]; /* "": none */
    char message[HS_MESSAGE_SIZE];
    int64_t numbers[PROCESSES_NUMBERS];
} process_results;

typedef struct processes processes;

/* In the process of a rank. */
typedef struct process {
    processes *all;
    int32_t rank, rank_count;
    hs_group_tcp_options options;
    process_results *results;
    hs_group_tcp *group;
    hs_error err;
} process;

/* The function of a rank. Returns the exit code. */
typedef int (*process_main)(process *p);

struct processes {
    int32_t rank_count;
    process_main main;
    void *user;
    hs_group_tcp_options options; /* of all ranks. Without an address or exchange: rendezvous_dir is the directory */
    const char *directory;
    process_results *results;
    /* internal */
    pid_t pids[PROCESSES_MAX];
    int statuses[PROCESSES_MAX]; /* as of waitpid(); -1: running or not started */
    int said[PROCESSES_MAX][2], answers[PROCESSES_MAX][2];
    int reserved[PROCESSES_PORTS]; /* sockets. -1: none */
};

int processes_setup(void **state);
int processes_teardown(void **state);
#define with_processes(test) cmocka_unit_test_setup_teardown(test, processes_setup, processes_teardown)

/* Empties the directory, and sets the number and the function of the ranks. The options are the defaults. */
void processes_prepare(processes *all, int32_t rank_count, process_main body);
/* Returns a port of 127.0.0.1 on which the ranks can listen, as on the next two. Until the next call or the end of the
 * test, the system gives these ports to no other socket, also not to one that connects. */
int processes_reserve_port(processes *all);
void processes_start(processes *all, int32_t rank);
void processes_start_all(processes *all);
/* Waits until the rank calls process_say(). */
void processes_await(processes *all, int32_t rank);
void processes_await_all(processes *all);
/* Lets the rank continue in process_await(). */
void processes_answer(processes *all, int32_t rank);
void processes_answer_all(processes *all);
void processes_kill(processes *all, int32_t rank, int signal);
/* Waits until the rank, or all ranks, have ended. Fails if a check in a rank failed. */
void processes_finish(processes *all, int32_t rank);
void processes_finish_all(processes *all);
/* The exit code of a rank that has ended; or minus the number of the signal that killed it. */
int processes_exit_code(const processes *all, int32_t rank);

/* In a rank. */
void process_say(process *p);
void process_await(process *p);
/* Creates p->group. Ends the process if that fails. */
const hs_group *process_connect(process *p);
/* Frees the group, and returns 0. */
int process_done(process *p);
/* Records the failure, and ends the process. */
#define check(p, condition)                                                                                                \
    do {                                                                                                                   \
        if (!(condition))                                                                                                  \
            process_fail(p, __FILE__, __LINE__, #condition);                                                               \
    } while (0)
/* Also records the error of the rank. */
#define check_code(p, call, code)                                                                                          \
    do {                                                                                                                   \
        if ((call) != (code))                                                                                              \
            process_fail(p, __FILE__, __LINE__, #call);                                                                    \
    } while (0)
void process_fail(process *p, const char *file, int line, const char *what);

/* For limits that must pass, because the test waits for them. They are short at first, and a busy machine may exceed them:
 * then the test doubles them and tries again. */

/* A function of a rank. Makes one call. A failure is not one of the test. */
int process_agree_if_in_time(process *p);
/* Waits until all ranks have ended. Returns whether the call of each has succeeded. */
bool processes_were_in_time(processes *all);

#endif
