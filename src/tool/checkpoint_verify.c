/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint verify`: verifies the index, then each tensor; reports damage while it reads, and the totals at the end. */
#include "checkpoint_open.h"
#include "command.h"
#include "json_output.h"
#include "output.h"

#include "base/text.h"

typedef struct {
    size_t tensors, damaged, unread;
    uint64_t bytes;
    bool index_damaged, json;
    hs__json_writer out; /* with `json`: in the array of the damage */
} findings;

/* `tensor` NULL: the index. */
static void report_damage(findings *found, const char *tensor, const char *message)
{
    if (found->json) {
        hs__json_open(&found->out, NULL, '{');
        js_text(&found->out, "tensor", tensor);
        hs__json_put_text(&found->out, "message", message);
        hs__json_close(&found->out, '}');
        return;
    }
    fputs("damaged: ", stdout);
    put_name(tensor ? tensor : "the index");
    fputs(": ", stdout);
    put_name(message);
    puts("");
}

/* A missing or invalid file is damage. A file that cannot be read or is not supported counts as not verified. */
static bool is_damage(hs_code code)
{
    return code == HS_DATA_LOSS || code == HS_NOT_FOUND;
}

static void report_index(findings *found, const hs_error *err)
{
    found->index_damaged = is_damage(err->code);
    if (!found->index_damaged) {
        found->unread++;
        say("%s", err->message);
        return;
    }
    report_damage(found, NULL, err->message);
}

static void verify_tensor(checkpoint *of, const char *name, const hs_tensor *info, findings *found)
{
    hs_error err = {0};
    hs_code code = hs_checkpoint_verify(of->reader, name, &err);
    found->tensors++;
    found->bytes += stored_bytes(info);
    if (!code)
        return;
    if (!is_damage(code)) {
        found->unread++;
        say("cannot verify '%s': %s", name, err.message);
        return;
    }
    found->damaged++;
    report_damage(found, name, err.message);
}

static void verify_all(checkpoint *of, findings *found)
{
    hs_error err = {0};
    const char *name;
    hs_tensor info;
    if (hs_checkpoint_verify(of->reader, NULL, &err) != HS_OK)
        report_index(found, &err);
    if (err.code == HS_UNIMPLEMENTED) /* a safetensors file */
        return;
    for (size_t i = 0; output_works() && hs_checkpoint_tensor(of->reader, i, &name, &info); i++)
        verify_tensor(of, name, &info, found);
}

/* Prints the totals. Returns the exit status: damage has precedence over tensors that could not be verified. */
static int conclude(const char *prefix, findings *found)
{
    char size[HS__NUMBER_TEXT];
    if (found->json) {
        hs__json_close(&found->out, ']');
        js_count(&found->out, "tensors", found->tensors);
        js_count(&found->out, "bytes", found->bytes);
        js_count(&found->out, "not_verified", found->unread);
        hs__json_close(&found->out, '}');
        js_end();
    } else if (found->damaged || found->index_damaged) {
        put_name(prefix);
        printf(": damaged:%s%s", found->index_damaged ? " the index" : "",
               found->index_damaged && found->damaged ? " and" : "");
        if (found->damaged)
            printf(" %zu of %zu tensor%s", found->damaged, found->tensors, plural(found->tensors));
        puts("");
    } else {
        put_name(prefix);
        if (found->unread)
            puts(": some tensors could not be verified");
        else
            printf(": %zu tensor%s, %s, no damage\n", found->tensors, plural(found->tensors),
                   hs__bytes_text(size, found->bytes));
    }
    return found->damaged || found->index_damaged ? FOUND : found->unread ? TROUBLE : FINE;
}

int checkpoint_verify(const struct call *call)
{
    findings found = {.json = call->given[OPTION_JSON]};
    hs_error err = {0};
    checkpoint of = {.prefix = find_checkpoint(call->operands[0])};
    if (!of.prefix)
        return TROUBLE;
    of.reader = hs_checkpoint_open(tool_env(), of.prefix, &err);
    int status = TROUBLE;
    if (of.reader || err.code == HS_DATA_LOSS) {
        if (found.json) {
            found.out = js_begin(0);
            hs__json_open(&found.out, NULL, '{');
            hs__json_put_text(&found.out, "checkpoint", of.prefix);
            hs__json_open(&found.out, "damaged", '[');
        }
        if (of.reader)
            verify_all(&of, &found);
        else
            report_index(&found, &err);
        status = conclude(of.prefix, &found);
    } else {
        say("%s", err.message); /* the checkpoint does not exist, or cannot be read */
    }
    close_checkpoint(&of);
    return status;
}
