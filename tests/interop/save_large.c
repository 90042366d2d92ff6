/* SPDX-License-Identifier: Apache-2.0 */
/* save_large PREFIX ROWS COLUMNS: saves the variable "large", zeros of type float, except 1 at its beginning, 2 at [2,7]
 * and 3 at its end. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    hs_error err = {0};
    if (argc < 4)
        return 2;
    int64_t rows = atoll(argv[2]), columns = atoll(argv[3]);
    size_t n = (size_t)(rows * columns);
    float *data = calloc(n, sizeof *data);
    if (!data)
        return 3;
    data[0] = 1;
    data[2 * columns + 7] = 2;
    data[n - 1] = 3;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "large", HS_FLOAT, HS_SHAPE(rows, columns), data);
    hs_saver *saver = hs_saver_new(NULL, &err);
    hs_session *s = saver ? hs_session_open(hs_graph_backend(g), NULL, &err) : NULL;
    if (s && hs_saver_save(saver, hs_session_raw(s), argv[1], -1, NULL, &err) != HS_OK)
        hs_session_fail(s, &err);
    hs_outcome outcome = hs_session_close(s, &err);
    if (outcome.error.code)
        fprintf(stderr, "%s\n", outcome.error.message);
    hs_saver_free(saver);
    hs_graph_free(g);
    free(data);
    return hs_outcome_exit_code(&outcome);
}
