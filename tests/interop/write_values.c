/* SPDX-License-Identifier: Apache-2.0 */
/* write_values DIRECTORY: writes an event file. Each line of standard input is a value, KIND TAG DTYPE DIMS FILE: the
 * number of a dtype, dimensions separated by commas ("-" for a scalar), and a file with the elements. Each value is a
 * separate event, with step 1, 2, .... Prints the file's path. */
#include <hooksess/hooksess.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 24, MOST_STRINGS = 100 };

static char loaded[3][MOST_BYTES];
static hs_string strings[MOST_STRINGS];

/* Reads a file's bytes, and appends a zero. */
static size_t load(int slot, const char *path, const char *suffix)
{
    char name[1024];
    if (snprintf(name, sizeof name, "%s%s", path, suffix) >= (int)sizeof name)
        exit(1);
    FILE *file = fopen(name, "rb");
    if (!file) {
        perror(name);
        exit(1);
    }
    size_t n = fread(loaded[slot], 1, MOST_BYTES - 1, file);
    loaded[slot][n] = '\0';
    fclose(file);
    return n;
}

static hs_shape parse_dims(const char *text)
{
    hs_shape shape = {.rank = 0};
    for (; *text && *text != '-'; text += *text == ',')
        shape.dims[shape.rank++] = strtoll(text, (char **)&text, 10);
    return shape;
}

/* One element per line. */
static const hs_string *split(char *text)
{
    size_t n = 0;
    for (char *line = strtok(text, "\n"); line && n < MOST_STRINGS; line = strtok(NULL, "\n"))
        strings[n++] = (hs_string){line, strlen(line)};
    return strings;
}

static hs_code put_pr_curve(hs_summary *s, const char *tag, hs_dtype dtype, hs_shape shape, const char *path, hs_error *err)
{
    load(0, path, ".labels");
    load(1, path, ".predictions");
    load(2, path, ".weights");
    const hs_tensor labels = hs_tensor_of(HS_BOOL, shape, loaded[0]), predictions = hs_tensor_of(dtype, shape, loaded[1]),
                    weights = hs_tensor_of(HS_FLOAT, shape, loaded[2]);
    return hs_summary_pr_curve(s, tag, HS_PR_CURVE(&labels, &predictions, &weights, .thresholds = 11), err);
}

static hs_code put_layout(hs_summary *s, hs_error *err)
{
    const hs_chart *charts =
        HS_CHARTS({.title = "losses", .tags = HS_NAMES("loss", "validation/.*")},
                  {.title = "with a band", .margins = HS_CHART_MARGINS({"loss/mean", "loss/low", "loss/high"})});
    return hs_summary_chart_layout(
        s, HS_CHART_CATEGORIES({.title = "training", .charts = charts, .closed = true}, {.title = "empty"}), err);
}

static hs_code put_hparams(hs_summary *s, const char *what, hs_error *err)
{
    const hs_hparam optimizers[] = {{.type = HS_HPARAM_STRING, .string = "sgd"},
                                    {.type = HS_HPARAM_STRING, .string = "adam"},
                                    {.type = HS_HPARAM_UNSET}};
    const hs_hparam_info infos[] = {
        {.name = "optimizer", .type = HS_HPARAM_STRING, .values = optimizers},
        {.name = "rate", .display_name = "learning rate", .type = HS_HPARAM_NUMBER, .min = 0.01, .max = 1},
        {.name = "nesterov", .description = "look *ahead*", .type = HS_HPARAM_BOOL},
        {.name = NULL},
    };
    const hs_hparams_metric metrics[] = {
        {.tag = "loss", .display_name = "the loss"},
        {.tag = "accuracy", .group = "validation", .dataset = HS_HPARAMS_DATASET_VALIDATION},
        {.tag = NULL},
    };
    const hs_hparam values[] = {
        HS_HPARAM("optimizer", STRING, .string = "adam"),
        HS_HPARAM("rate", NUMBER, .number = 0),
        HS_HPARAM("nesterov", BOOL, .flag = false),
        {.type = HS_HPARAM_UNSET},
    };
    if (strcmp(what, "config") == 0)
        return hs_hparams_config(s, HS_HPARAMS_CONFIG_OPTIONS(infos, metrics, .created_secs = 1.5), err);
    if (strcmp(what, "start") == 0)
        return hs_hparams_start(s, HS_HPARAMS_START_OPTIONS(values, "group", .start_secs = 2.5), err);
    return hs_hparams_end(s, HS_HPARAMS_SUCCESS, 3.5, err);
}

static hs_code put(hs_summary *s, const char *kind, const char *tag, hs_dtype dtype, hs_shape shape, const char *path,
                   hs_error *err)
{
    if (strcmp(kind, "pr_curve") == 0)
        return put_pr_curve(s, tag, dtype, shape, path, err);
    if (strcmp(kind, "layout") == 0)
        return put_layout(s, err);
    if (strcmp(kind, "hparams") == 0)
        return put_hparams(s, tag, err);
    size_t bytes = load(0, path, "");
    const hs_tensor tensor = hs_tensor_of(dtype, shape, dtype == HS_STRING ? (const void *)split(loaded[0]) : loaded[0]);
    if (strcmp(kind, "merge") == 0)
        return hs_summary_merge(s, (hs_string){loaded[0], bytes}, err);
    if (strcmp(kind, "histogram") == 0)
        return hs_summary_histogram(s, tag, &tensor, err);
    if (strcmp(kind, "uniform") == 0)
        return hs_summary_histogram_uniform(s, tag, &tensor, NULL, err);
    if (strcmp(kind, "image") == 0)
        return hs_summary_image(s, tag, &tensor, NULL, err);
    if (strcmp(kind, "audio") == 0)
        return hs_summary_audio(s, tag, &tensor, HS_AUDIO_OPTIONS(.sample_rate = 8000.7), err);
    if (strcmp(kind, "text") == 0)
        return hs_summary_text(s, tag, loaded[0], err);
    if (strcmp(kind, "strings") == 0)
        return hs_summary_text_tensor(s, tag, &tensor, err);
    return hs_summary_tensor(s, tag, &tensor, HS_SUMMARY_PLUGIN(.name = "mine", .content = {"c", 1}), err);
}

static hs_code serve(hs_summary_writer *w, hs_summary *s, hs_error *err)
{
    char line[2048], kind[32], tag[256], dims[256], path[1024];
    int dtype;
    hs_code code = HS_OK;
    for (int64_t step = 1; !code && fgets(line, sizeof line, stdin); step++) {
        if (sscanf(line, "%31s %255s %d %255s %1023s", kind, tag, &dtype, dims, path) != 5)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "not understood: %s", line);
        hs_summary_clear(s);
        code = put(s, kind, tag, (hs_dtype)dtype, parse_dims(dims), path, err);
        if (!code)
            code = hs_summary_writer_summary(w, hs_summary_serialized(s), step, err);
    }
    return code;
}

int main(int argc, char **argv)
{
    hs_error err = {0};
    hs_summary_writer *w = argc == 2 ? hs_summary_writer_open(argv[1], NULL, &err) : NULL;
    hs_summary *s = hs_summary_new(NULL);
    hs_code code = w ? serve(w, s, &err) : HS_INVALID_ARGUMENT;
    if (w)
        puts(hs_summary_writer_path(w));
    hs_summary_free(s);
    if (w)
        code = hs_summary_writer_close(w, code ? NULL : &err) || code;
    if (code)
        fprintf(stderr, "%s\n", err.message);
    return code != HS_OK;
}
