/* SPDX-License-Identifier: Apache-2.0 */
/* Makes hs_queue_runners from the graph's QueueRunnerDefs. */
#include "tensorflow/queue_closers.h"

#include <hooksess/queue_runner.h>

#include "variable.pb-c.h"

#include "base/proto.h"

/* The field queue_closed_exception_types: numbers, packed or not. */
enum { CLOSED_CODES = 5, MAX_CODES = 16 };

static void release_runner(void *runner)
{
    hs_queue_runner_free(runner);
}

/* Reads the codes from the unknown fields: their type is in a package of protos that we do not have. */
static size_t closed_codes(const Hs__Pb__QueueRunnerDef *def, hs_code codes[MAX_CODES + 1])
{
    size_t n = 0;
    for (unsigned i = 0; i < def->base.n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &def->base.unknown_fields[i];
        const unsigned char *at = field->data, *end = at + field->len;
        uint64_t number;
        if (field->tag != CLOSED_CODES ||
            (field->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED && !hs__get_varint(&at, end, &number)))
            continue;
        while (n < MAX_CODES && at < end && hs__get_varint(&at, end, &number))
            if (number > HS_OK && number <= HS_UNAUTHENTICATED)
                codes[n++] = (hs_code)number;
    }
    codes[n] = HS_OK;
    return n;
}

static hs_code add_runner(hs__tf_backend *backend, const Hs__Pb__QueueRunnerDef *def, bool remote, hs_error *err)
{
    hs_code codes[MAX_CODES + 1];
    size_t n = closed_codes(def, codes);
    const char **ops = hs__alloc(&backend->env, def->n_enqueue_op_name + 1, sizeof *ops);
    if (!ops)
        return hs__no_memory(err, def->n_enqueue_op_name * sizeof *ops, "a queue runner");
    for (size_t i = 0; i < def->n_enqueue_op_name; i++)
        ops[i] = def->enqueue_op_name[i];
    const char *cancel_op = *def->cancel_op_name ? def->cancel_op_name : NULL;
    hs_error error = {0};
    hs_queue_runner *runner = NULL;
    if (!hs__tf_make_cancel_op(backend, ops, cancel_op, remote, &cancel_op, &error))
        runner = hs_queue_runner_new(HS_QUEUE_RUNNER_OPTIONS(.queue = def->queue_name, .enqueue_ops = ops,
                                                             .close_op = *def->close_op_name ? def->close_op_name : NULL,
                                                             .cancel_op = cancel_op, .closed_codes = n ? codes : NULL,
                                                             .env = &backend->env),
                                     &error);
    hs__free(&backend->env, (void *)ops);
    if (!runner)
        return hs__error_copy(err, &error);
    const hs__tf_item item = {.key = (char *)HS_QUEUE_RUNNERS, .item = runner, .release = release_runner};
    hs_code code = hs__tf_add_item(backend, &item, err);
    if (code)
        hs_queue_runner_free(runner);
    return code;
}

static hs_code read_def(hs__tf_backend *backend, const hs__tf_item *item, bool remote, hs_error *err)
{
    ProtobufCAllocator allocator = hs__proto_allocator(&backend->env);
    bool no_memory;
    ProtobufCMessage *def =
        hs__proto_unpack(&hs__pb__queue_runner_def__descriptor, &backend->env, item->data, item->bytes, &no_memory);
    if (!def)
        return no_memory ? hs__no_memory(err, item->bytes, "a QueueRunnerDef")
                         : hs_error_set(err, HS_DATA_LOSS, "the meta graph has an invalid QueueRunnerDef");
    hs_code code = add_runner(backend, (const void *)def, remote, err);
    protobuf_c_message_free_unpacked(def, &allocator);
    return code;
}

hs_code hs__tf_make_queue_runners(hs__tf_backend *backend, bool remote, hs_error *err)
{
    hs_code code = HS_OK;
    const hs__tf_item *item;
    while (!code && (item = hs__tf_find_item(backend, HS_QUEUE_RUNNERS, backend->n_queue_runners)))
        if (!(code = read_def(backend, item, remote, err)))
            backend->n_queue_runners++;
    return code;
}
