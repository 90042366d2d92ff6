/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorflow/graphs.h"

#include <sys/wait.h>
#include <unistd.h>

const char *graph_path(const char *name)
{
    static char paths[4][1024];
    static size_t next;
    char *path = paths[next++ % 4];
    const char *directory = getenv("HOOKSESS_GRAPHS");
    snprintf(path, sizeof paths[0], "%s/%s", directory ? directory : ".", name);
    return path;
}

static void quiet_log(void *user, hs_log_level level, const char *text)
{
    (void)user;
    test_check_line(text);
    if (level >= HS_LOG_WARNING)
        fprintf(stderr, "%s\n", text);
}

hs_backend open_graph(const char *name)
{
    hs_error err = {0};
    hs_env env = HS_INIT(hs_env, .logger = {quiet_log, NULL});
    hs_backend backend;
    assert_clears(&err, backend = hs_tensorflow_open(graph_path(name), HS_TENSORFLOW_OPTIONS(.env = &env), &err));
    assert_non_null(backend.ops);
    return backend;
}

char *make_directory(void)
{
    char *path = strdup(graph_path("run-XXXXXX"));
    assert_non_null(mkdtemp(path));
    return path;
}

void remove_directory(char *path)
{
    pid_t child = fork();
    if (child == 0) {
        execlp("rm", "rm", "-rf", path, (char *)NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    free(path);
}

void fill_batch(batch *b, int64_t step)
{
    for (int64_t row = 0; row < BATCH; row++) {
        b->y[row][0] = 0;
        for (int64_t column = 0; column < 3; column++) {
            b->x[row][column] = (float)((7 * step + 5 * row + 3 * column) % 16) / 16;
            b->y[row][0] += b->x[row][column];
        }
    }
    b->feeds[0] = (hs_feed){"x", hs_tensor_of(HS_FLOAT, HS_SHAPE(BATCH, 3), b->x)};
    b->feeds[1] = (hs_feed){"y", hs_tensor_of(HS_FLOAT, HS_SHAPE(BATCH, 1), b->y)};
    b->feeds[2] = (hs_feed){.name = NULL};
}
