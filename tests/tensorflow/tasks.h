/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_TENSORFLOW_TASKS_H
#define HS_TESTS_TENSORFLOW_TASKS_H

#include "tensorflow/graphs.h"

#include <sys/types.h>

/* A cluster of processes on loopback (cluster_task.c): one parameter server, a chief and two workers. */

enum { CHIEF = 0, WORKER = 1, OTHER_WORKER = 2, PARAMETERS = 3, N_TASKS = 4 };

typedef struct {
    pid_t pid; /* 0: not running */
    int to, from;
    char line[256]; /* its last line of output */
} task;

typedef struct {
    task tasks[N_TASKS];
    char cluster[256];
    const char *graph;
    char *directory;
    int64_t steps;
} cluster;

/* Returns a port of the loopback interface that is free now. */
int free_port(void);
/* Chooses ports and a directory. */
void cluster_plan(cluster *c, const char *graph, int64_t steps);
/* Starts all tasks, and waits until each has a session. */
void cluster_start(cluster *c, const char *graph, int64_t steps);
/* Kills the running tasks. */
void cluster_end(cluster *c);

/* Starts a task and waits until its server is up. Tries again if the port is in use. */
void task_start(cluster *c, int which);
void task_kill(cluster *c, int which);
/* Stops the process until SIGCONT: it is alive, and does not answer. */
void task_silence(cluster *c, int which);
/* Waits for the next line that begins with `what`, at most two minutes. Returns the number at its end. */
int64_t task_says(cluster *c, int which, const char *what);
/* Requests a step. */
void task_request_step(cluster *c, int which);
/* Requests a step and returns it. */
int64_t task_step(cluster *c, int which);
/* Requests all other steps. */
void task_finish(cluster *c, int which);
/* Waits until it ends. Returns its exit status, or minus the signal. */
int task_wait(cluster *c, int which);

#endif
