/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_TENSORFLOW_TASKS_H
#define HS_TESTS_BACKENDS_TENSORFLOW_TASKS_H

#include "tensorflow/graphs.h"

#include <sys/types.h>

/* A cluster of processes on loopback (cluster_task.c): one parameter server, a chief and two workers. */

enum { CHIEF = 0, WORKER = 1, OTHER_WORKER = 2, PARAMETERS = 3, N_TASKS = 4 };

typedef struct {
    pid_t pid; /* 0: it does not run */
    int to, from;
    char line[256]; /* what it said last */
} task;

typedef struct {
    task tasks[N_TASKS];
    char cluster[256];
    const char *graph;
    char *directory;
    int64_t steps;
} cluster;

/* A port of loopback that nobody has just now. */
int free_port(void);
/* Chooses ports for them, and a directory. */
void cluster_plan(cluster *c, const char *graph, int64_t steps);
/* Starts all of them, and waits until each has its session. */
void cluster_start(cluster *c, const char *graph, int64_t steps);
/* Kills what runs still. */
void cluster_end(cluster *c);

/* Starts a task and waits until its server is up, on another port if one has its. */
void task_start(cluster *c, int which);
void task_kill(cluster *c, int which);
/* It is there, and says nothing: until SIGCONT. */
void task_silence(cluster *c, int which);
/* Waits for the next line that begins so, at most a minute; the number at its end. */
int64_t task_says(cluster *c, int which, const char *what);
/* Tells it to make a step. */
void task_lead(cluster *c, int which);
/* That, and the step. */
int64_t task_step(cluster *c, int which);
/* Lets it make the rest of its steps. */
void task_let_go(cluster *c, int which);
/* Waits until it is gone; its exit status, or minus the signal. */
int task_wait(cluster *c, int which);

#endif
