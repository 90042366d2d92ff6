/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorflow/threads.h"

#include <dirent.h>
#include <time.h>

long count_threads(void)
{
    long n = -2; /* "." and ".." */
    DIR *tasks = opendir("/proc/self/task");
    while (tasks && readdir(tasks))
        n++;
    if (tasks)
        closedir(tasks);
    return n;
}

bool threads_fall_to(long n)
{
    enum { TRIES = 10000 };
    const struct timespec millisecond = {.tv_nsec = 1000000};
    for (int i = 0; i < TRIES && count_threads() > n; i++)
        nanosleep(&millisecond, NULL);
    return count_threads() <= n;
}
