/* SPDX-License-Identifier: Apache-2.0 */
/* restore_variables PREFIX DIRECTORY: restores variables of a model from a checkpoint in which they have other names.
 * Standard input lists them, a line each: the name of the variable; the number of its type; its dimensions, each
 * followed by a comma, "-" for none; its name in the checkpoint. The bytes of line N go to the file DIRECTORY/N. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 100 };

typedef struct {
    char name[256], stored[256];
    hs_tensor value;
} variable;

static hs_shape shape_of(const char *text)
{
    char *end;
    hs_shape shape = {.rank = 0};
    for (; *text && *text != '-'; text = end + 1)
        shape.dims[shape.rank++] = strtoll(text, &end, 10);
    return shape;
}

static int take_variables(variable *v, hs_checkpoint_name *names, hs_graph *g)
{
    char dims[256];
    int dtype, n = 0;
    for (; n < MOST && scanf("%255s %d %255s %255s", v[n].name, &dtype, dims, v[n].stored) == 4; n++) {
        hs_shape shape = shape_of(dims);
        v[n].value = hs_tensor_of((hs_dtype)dtype, shape, NULL);
        v[n].value.data = calloc(v[n].value.bytes + 1, 1);
        hs_graph_variable(g, v[n].name, (hs_dtype)dtype, shape, v[n].value.data);
        names[n] = (hs_checkpoint_name){v[n].name, v[n].stored};
    }
    return n;
}

static void write_values(variable *v, int n, const char *directory)
{
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", directory, i);
        FILE *to = fopen(path, "wb");
        if (!to || fwrite(v[i].value.data, 1, v[i].value.bytes, to) != v[i].value.bytes || fclose(to) != 0)
            abort();
        free(v[i].value.data);
    }
}

int main(int argc, char **argv)
{
    static variable variables[MOST];
    hs_checkpoint_name names[MOST + 1] = {{NULL, NULL}};
    hs_error err = {0};
    if (argc < 3)
        return 2;
    hs_graph *g = hs_graph_new(NULL);
    int n = take_variables(variables, names, g);
    hs_saver *saver = hs_saver_new(NULL, &err);
    hs_session *s = saver ? hs_session_open(hs_graph_backend(g), NULL, &err) : NULL;
    hs_restore_options options = HS_INIT(hs_restore_options, .names = names);
    if (s && hs_saver_restore(saver, hs_session_raw(s), argv[1], &options, &err) != HS_OK)
        hs_session_fail(s, &err);
    hs_outcome outcome = hs_session_close(s, &err);
    if (outcome.error.code)
        fprintf(stderr, "%s: %s\n", hs_code_name(outcome.error.code), outcome.error.message);
    write_values(variables, n, argv[2]);
    hs_saver_free(saver);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
