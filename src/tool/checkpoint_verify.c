/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_open.h"
#include "command.h"
#include "output.h"

typedef struct {
    size_t tensors, damaged, unread;
    uint64_t bytes;
    bool index_damaged;
} findings;

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
    fputs("damaged: the index: ", stdout);
    put_name(err->message);
    puts("");
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
    fputs("damaged: ", stdout);
    put_name(name);
    fputs(": ", stdout);
    put_name(err.message);
    puts("");
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

/* Damage has precedence over tensors that could not be verified. */
static int conclude(const char *prefix, const findings *found)
{
    put_name(prefix);
    if (found->damaged || found->index_damaged) {
        printf(": damaged:%s%s", found->index_damaged ? " the index" : "",
               found->index_damaged && found->damaged ? " and" : "");
        if (found->damaged)
            printf(" %zu of %zu tensors", found->damaged, found->tensors);
        puts("");
        return FOUND;
    }
    if (found->unread) {
        puts(": some tensors could not be verified");
        return TROUBLE;
    }
    printf(": %zu tensors, %llu bytes, no damage\n", found->tensors, (unsigned long long)found->bytes);
    return FINE;
}

int checkpoint_verify(const struct call *call)
{
    findings found = {0, 0, 0, 0, false};
    hs_error err = {0};
    checkpoint of = {.prefix = find_checkpoint(call->operands[0])};
    if (!of.prefix)
        return TROUBLE;
    of.reader = hs_checkpoint_open(tool_env(), of.prefix, &err);
    bool opened = of.reader;
    int status = TROUBLE;
    if (opened)
        verify_all(&of, &found);
    else if (err.code == HS_NOT_FOUND)
        say("%s", err.message); /* the checkpoint does not exist */
    else
        report_index(&found, &err);
    if (opened || found.index_damaged)
        status = conclude(of.prefix, &found);
    close_checkpoint(&of);
    return status;
}
