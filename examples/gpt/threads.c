/* SPDX-License-Identifier: Apache-2.0 */
/* Starts threads for a piece of work and waits for them. A start costs about 20 us, a training step many milliseconds, so
 * a pool of threads is not needed. */
#include "threads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct task {
    part_fn part;
    void *user;
    int index, count;
    bool started;
    pthread_t thread;
};

static void *run(void *arg)
{
    struct task *task = arg;
    task->part(task->user, task->index, task->count);
    return NULL;
}

void parallel(int threads, part_fn part, void *user)
{
    struct task tasks[MAX_THREADS];
    for (int i = 1; i < threads; i++) {
        tasks[i] = (struct task){.part = part, .user = user, .index = i, .count = threads};
        tasks[i].started = pthread_create(&tasks[i].thread, NULL, run, &tasks[i]) == 0;
    }
    part(user, 0, threads);
    for (int i = 1; i < threads; i++)
        if (tasks[i].started)
            pthread_join(tasks[i].thread, NULL);
        else
            run(&tasks[i]); /* the system has no further thread */
}
