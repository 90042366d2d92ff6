/* SPDX-License-Identifier: Apache-2.0 */
/* A custom scalar sink: writes the loss to a text file for Prometheus. The node exporter of Prometheus reads all *.prom
 * files of a directory (--collector.textfile.directory). */
#include <hooksess/hooksess.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The sink. */

typedef struct {
    const char *path;
    char tmp[4096]; /* written, then renamed to `path`: the exporter never reads a partial file */
} textfile;

/* Writes "train/loss" as training_train_loss: names in Prometheus consist of letters, digits and _. */
static void put_name(FILE *file, const char *name)
{
    fputs("training_", file);
    for (; *name; name++) {
        bool letter = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9');
        fputc(letter ? *name : '_', file);
    }
}

static void put_help(FILE *file, const char *text)
{
    for (; *text; text++)
        if (*text == '\n' || *text == '\\')
            fputs(*text == '\n' ? "\\n" : "\\\\", file);
        else
            fputc(*text, file);
}

static void put_gauge(FILE *file, const char *name, const char *help, double value)
{
    fputs("# HELP ", file), put_name(file, name), fputc(' ', file), put_help(file, help);
    fputs("\n# TYPE ", file), put_name(file, name), fputs(" gauge\n", file);
    put_name(file, name);
    if (isfinite(value))
        fprintf(file, " %.17g\n", value);
    else
        fputs(isnan(value) ? " NaN\n" : value > 0 ? " +Inf\n" : " -Inf\n", file);
}

static hs_code write_row(void *self, const hs_scalar_row *row, hs_error *err)
{
    const textfile *t = self;
    FILE *file = fopen(t->tmp, "w");
    if (!file)
        return hs_error_set_errno(err, errno, "%s", t->tmp);
    put_gauge(file, "global_step", "Steps that are finished.", (double)row->step);
    for (const hs_scalar *scalar = row->scalars; scalar->name; scalar++)
        if (scalar->known)
            put_gauge(file, scalar->name, scalar->name, scalar->value);
    bool written = !ferror(file);
    if (fclose(file) == 0 && written && rename(t->tmp, t->path) == 0)
        return HS_OK;
    return hs_error_set_errno(err, errno, "%s", t->path);
}

static const hs_scalar_sink_ops textfile_ops = HS_INIT(hs_scalar_sink_ops, .name = "textfile", .write = write_row);

/* A program that uses the sink: gradient descent on (x - 3)^2. prometheus [FILE.prom [STEPS]] */

int main(int argc, char **argv)
{
    double x = 0, loss = 0;
    textfile t = {.path = argc > 1 ? argv[1] : "training.prom"};
    if ((size_t)snprintf(t.tmp, sizeof t.tmp, "%s.tmp", t.path) >= sizeof t.tmp)
        return 1;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_variable(g, "x", HS_DOUBLE, HS_SCALAR, &x);
    hs_graph_value(g, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_hook scalars = hs_scalars(.tensors = HS_NAMES("x", "loss"), .labels = HS_NAMES("x", "train/loss"),
                                 .when = HS_TRIGGER(.every_n_steps = 10, .first = true, .last = true),
                                 .sink = {.ops = &textfile_ops, .self = &t});
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g),
        HS_TRAINING_OPTIONS(.hooks = HS_HOOKS(hs_stop_at_step(.last_step = argc > 2 ? atoll(argv[2]) : 100), scalars)),
        NULL);
    while (hs_step_begin(s)) {
        loss = (x - 3) * (x - 3);
        x -= 0.05 * 2 * (x - 3);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    printf("%.17g\n", loss);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}
