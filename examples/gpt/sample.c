/* SPDX-License-Identifier: Apache-2.0 */
/* Draws tokens with the probabilities that the model gives them, sharpened by a temperature below 1. */
#include "sample.h"

#include <hooksess/summary_values.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_BYTES = 240 };
static const double temperature = 0.8;

static int32_t draw_token(const float *logits, struct rng *rng)
{
    double weights[VOCABULARY], most = -INFINITY, sum = 0;
    for (int i = 0; i < VOCABULARY; i++)
        most = fmax(most, (double)logits[i]);
    for (int i = 0; i < VOCABULARY; i++)
        sum += weights[i] = exp(((double)logits[i] - most) / temperature);
    double at = (double)(rng_next(rng) >> 11) * 0x1p-53 * sum;
    int32_t token = 0;
    while (token < VOCABULARY - 1 && (at -= weights[token]) >= 0)
        token++;
    return token;
}

hs_code sample_load(struct gpt *model, hs_checkpoint_reader *reader, hs_error *err)
{
    hs_code code = HS_OK;
    for (int i = 0; i < model->n_tensors && !code; i++) {
        const struct gpt_tensor *tensor = &model->tensors[i];
        size_t n = (size_t)(tensor->rows ? tensor->rows : 1) * (size_t)tensor->columns;
        code = hs_checkpoint_read(reader, tensor->name, model->parameters + tensor->at, n * sizeof(float), err);
    }
    return code;
}

hs_code sample_text(struct gpt *model, unsigned char *text, size_t length, size_t total, struct rng *rng, hs_error *err)
{
    int context = model->context, n = 0, computed = 0; /* tokens in the context */
    int32_t *tokens = malloc((size_t)context * sizeof *tokens);
    if (!tokens)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for %d tokens", context);
    size_t first = length > (size_t)context ? length - (size_t)context : 0;
    for (size_t i = first; i < length; i++)
        tokens[n++] = text[i];
    for (; length < total; length++) {
        gpt_forward(model, tokens, 1, computed, n, 0);
        computed = n;
        int32_t token = draw_token(model->logits + (size_t)(n - 1) * VOCABULARY, rng);
        text[length] = (unsigned char)token;
        if (n == context) { /* continue with the newer half, whose positions change */
            n = context / 2;
            computed = 0;
            memmove(tokens, tokens + context - n, (size_t)n * sizeof *tokens);
        }
        tokens[n++] = token;
    }
    free(tokens);
    return HS_OK;
}

/* Returns the length of the UTF-8 character at `text`, or 0 if it is invalid or cut off by the end. */
static size_t character_length(const unsigned char *text, size_t bytes)
{
    size_t n = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : text[0] < 0xf5 ? 4 : 0;
    if (n > bytes)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (text[i] >> 6 != 2)
            return 0;
    uint32_t start = n > 2 ? (uint32_t)text[0] << 8 | text[1] : 0xffff;
    bool is_valid = start >= 0xe0a0 && (start < 0xeda0 || start >= 0xee80) && (start < 0xf000 || start >= 0xf090) &&
                    (start < 0xf490 || n < 4);
    return is_valid ? n : 0;
}

/* Indents each line by four spaces, so that Markdown shows the text unchanged. A tab becomes a space, and a byte that is
 * not printable UTF-8 a question mark. `to` has room for 5 times the bytes and 6 more. */
static void indent(char *to, const unsigned char *text, size_t bytes)
{
    to += strlen(strcpy(to, "    "));
    for (size_t i = 0, n; i < bytes; i += n ? n : 1) {
        n = text[i] < ' ' && text[i] != '\n' ? 0 : character_length(text + i, bytes - i);
        memcpy(to, n ? text + i : (const unsigned char *)(text[i] == '\t' ? " " : "?"), n ? n : 1);
        to += n ? n : 1;
        if (text[i] == '\n')
            to += strlen(strcpy(to, "    "));
    }
    *to = '\0';
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    struct sampler *sampler = self;
    (void)coordinator;
    return hs_raw_session_event_writer(session, hs_raw_session_summary_dir(session), NULL, &sampler->writer, err);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    struct sampler *sampler = self;
    const hs_env *env = hs_backend_env(hs_raw_session_backend(hs_run_context_session(run)));
    unsigned char text[SAMPLE_BYTES + 1] = "\n";
    char lines[5 * sizeof text + 6];
    struct rng rng;
    int64_t step = hs_run_context_global_step(run, err);
    (void)values;
    if (step < 0)
        return err->code;
    rng_seed(&rng, sampler->seed, (uint64_t)step << 8 | 4); /* a function of the step, so it need not be saved */
    hs_code code = sample_text(sampler->model, text, 1, sizeof text, &rng, err);
    if (code)
        return code;
    indent(lines, text + 1, sizeof text - 1);
    if ((code = hs_summary_writer_text(sampler->writer, "sample", lines, step, err)))
        return code;
    hs_log(env, HS_LOG_INFO, "step %lld: sample:", (long long)step);
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"))
        hs_log(env, HS_LOG_INFO, "%s", line);
    return HS_OK;
}

hs_hook sampler_hook(struct sampler *sampler, int64_t every_n_steps)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "sampler", .after_create_session = after_create_session, .after_run = after_run);
    return HS_HOOK(.ops = &ops, .self = sampler, .flags = HS_HOOK_TRAIN | HS_HOOK_CHIEF_ONLY,
                   .when = HS_TRIGGER(.every_n_steps = every_n_steps, .last = true));
}
