/* SPDX-License-Identifier: Apache-2.0 */
/* Adding events to an event-file writer. Each function begins an event, which locks the writer and makes room in its queue;
 * appends the fields of an Event; and ends it, which unlocks. */
#include <hooksess/summary_values.h>

#include "summary/writer_inside.h"

#include "base/error.h"
#include "base/proto.h"
#include "formats/records.h"
#include "summary/event_encode.h"
#include "summary/event_check.h"
#include "summary/value.h"

#include <string.h>

/* An event that is being added. */
typedef struct {
    hs_summary_writer *writer;
    bool is_kept;    /* add it even if the queue is full */
    hs__buffer *out; /* NULL: dropped */
    size_t begun;
    int64_t now_ns;
} addition;

/* Begins an event. If it succeeds and the event is not dropped, the lock is held and a record is begun. */
static hs_code begin(addition *event, hs_summary_writer *writer, hs_error *err)
{
    *event = (addition){.writer = writer, .is_kept = event->is_kept};
    if (!writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the event writer is NULL");
    if (hs__is_inherited(writer->generation))
        return hs__refuse_inherited("event writer", err);
    event->now_ns = hs_env_realtime_ns(&writer->env);
    pthread_mutex_lock(&writer->lock);
    bool is_dropped = false;
    while (!event->is_kept && !is_dropped && writer->pending.size >= writer->limit) {
        is_dropped = writer->when_full == HS_WRITER_DROPS || writer->status.failing;
        if (!is_dropped) {
            hs__writer_wake(writer);
            pthread_cond_wait(&writer->room, &writer->lock);
        }
    }
    if (writer->on_error == HS_WRITER_FAILS && writer->status.failing) {
        hs_code code = hs__error_copy(err, &writer->status.last_error);
        pthread_mutex_unlock(&writer->lock);
        return code;
    }
    writer->status.events++;
    if (is_dropped) {
        bool is_first = !writer->status.failing && writer->status.dropped == 0;
        writer->status.dropped++;
        pthread_mutex_unlock(&writer->lock);
        if (is_first) /* without the lock, as the logger may call the writer */
            hs_log(&writer->env, HS_LOG_WARNING, "event file in %s: the queue is full; events are lost", writer->directory);
        hs__clear(err);
        return HS_OK;
    }
    event->out = &writer->pending;
    event->begun = hs__record_begin(event->out);
    return HS_OK;
}

/* Ends the record, or removes it if memory is out. Unlocks. */
static hs_code end(const addition *event, hs_error *err)
{
    hs_summary_writer *writer = event->writer;
    hs__buffer *out = event->out;
    hs__record_end_unsealed(out, event->begun);
    hs_code code = hs__buffer_check(out, "an event", err);
    if (code) {
        out->size = event->begun;
        out->failed = false;
        writer->status.events--;
    }
    writer->added += out->size - event->begun;
    if (event->now_ns - writer->flushed_ns >= writer->flush_ns) {
        writer->flush_wanted = true;
        writer->flushed_ns = event->now_ns;
    }
    hs__writer_wake(writer);
    pthread_mutex_unlock(&writer->lock);
    if (!code)
        hs__clear(err);
    return code;
}

/* Adds an event with one field of bytes. */
static hs_code add_field(hs_summary_writer *writer, uint32_t field, hs_bytes data, int64_t step, hs_error *err)
{
    addition event = {.writer = NULL};
    if (data.size && !data.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "data of an event of %zu bytes is NULL", data.size);
    hs_code code = begin(&event, writer, err);
    if (code || !event.out)
        return code;
    hs__encode_event_head(event.out, event.now_ns, step);
    hs__proto_put_bytes(event.out, field, data.data, data.size);
    return end(&event, err);
}

hs_code hs_summary_writer_scalar(hs_summary_writer *writer, const char *tag, double value, int64_t step, hs_error *err)
{
    addition event = {.writer = NULL};
    size_t tag_bytes = tag ? strlen(tag) : 0;
    if (!tag_bytes)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the tag of a summary value is missing");
    hs_code code = hs__check_text(tag, "the tag of a summary value", err);
    if (code || (code = begin(&event, writer, err)) || !event.out)
        return code;
    hs__buffer *out = event.out;
    unsigned char *to = hs__buffer_room(out, hs__scalar_event_bytes_at_most(tag_bytes) + HS__RECORD_FOOTER);
    if (to)
        out->size += (size_t)(hs__put_scalar_event(to, event.now_ns, step, tag, tag_bytes, value) - to);
    return end(&event, err);
}

hs_code hs_summary_writer_summary(hs_summary_writer *writer, hs_string summary, int64_t step, hs_error *err)
{
    if (writer && summary.data && !hs__is_summary(summary.data, summary.bytes))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%zu bytes are not a serialized Summary", summary.bytes);
    return add_field(writer, HS__EVENT_SUMMARY, (hs_bytes){summary.data, summary.bytes}, step, err);
}

hs_code hs_summary_writer_graph(hs_summary_writer *writer, hs_bytes graph_def, int64_t step, hs_error *err)
{
    return add_field(writer, HS__EVENT_GRAPH_DEF, graph_def, step, err);
}

hs_code hs_summary_writer_meta_graph(hs_summary_writer *writer, hs_bytes meta_graph_def, int64_t step, hs_error *err)
{
    return add_field(writer, HS__EVENT_META_GRAPH_DEF, meta_graph_def, step, err);
}

hs_code hs_summary_writer_event(hs_summary_writer *writer, hs_bytes data, hs_error *err)
{
    addition event = {.writer = NULL};
    if (writer && (!data.size || !data.data || !hs__is_event(data.data, data.size)))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%zu bytes are not a serialized Event", data.size);
    hs_code code = begin(&event, writer, err);
    if (code || !event.out)
        return code;
    hs__buffer_append(event.out, data.data, data.size);
    return end(&event, err);
}

/* Adds the message in `log` to the event, and ends it. The message needs its own buffer, as its length comes first. */
static hs_code end_with_log(const addition *event, uint32_t field, int64_t step, hs_error *err)
{
    hs__buffer *log = &event->writer->log;
    hs__encode_event_head(event->out, event->now_ns, step);
    hs__proto_put_bytes(event->out, field, log->data, log->size);
    event->out->failed |= log->failed;
    hs__writer_shrink(event->writer, log);
    return end(event, err);
}

hs_code hs_summary_writer_run_metadata(hs_summary_writer *writer, const char *tag, hs_bytes run_metadata, int64_t step,
                                       hs_error *err)
{
    addition event = {.writer = NULL};
    if (!tag || !*tag)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the tag of run metadata is missing");
    if (run_metadata.size && !run_metadata.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "data of run metadata of %zu bytes is NULL", run_metadata.size);
    hs_code code = hs__check_text(tag, "the tag of run metadata", err);
    if (code || (code = begin(&event, writer, err)) || !event.out)
        return code;
    hs__buffer_clear(&writer->log);
    hs__proto_put_bytes(&writer->log, 1, tag, strlen(tag));
    hs__proto_put_bytes(&writer->log, 2, run_metadata.data, run_metadata.size);
    return end_with_log(&event, HS__EVENT_TAGGED_RUN_METADATA, step, err);
}

hs_code hs_summary_writer_session_log(hs_summary_writer *writer, hs_session_log_status status, const char *checkpoint_path,
                                      const char *message, int64_t step, hs_error *err)
{
    addition event = {.is_kept = status == HS_SESSION_LOG_START}; /* later events have no meaning without START */
    hs_code code = begin(&event, writer, err);
    if (code || !event.out)
        return code;
    hs__buffer_clear(&writer->log);
    hs__encode_session_log(&writer->log, status, checkpoint_path, message);
    return end_with_log(&event, HS__EVENT_SESSION_LOG, step, err);
}

/* Events with a single value. */

/* Adds the summary as an event, unless making it failed, and frees it. */
static hs_code add_summary(hs_summary_writer *writer, hs_summary *summary, hs_code code, int64_t step, hs_error *err)
{
    if (!code)
        code = hs_summary_writer_summary(writer, hs_summary_serialized(summary), step, err);
    hs_summary_free(summary);
    return code;
}

hs_code hs_summary_writer_histogram(hs_summary_writer *writer, const char *tag, const hs_tensor *values, int64_t step,
                                    hs_error *err)
{
    hs_summary *summary = hs_summary_new(writer ? &writer->env : NULL);
    return add_summary(writer, summary, hs_summary_histogram(summary, tag, values, err), step, err);
}

hs_code hs_summary_writer_image(hs_summary_writer *writer, const char *tag, const hs_tensor *images, int64_t step,
                                hs_error *err)
{
    hs_summary *summary = hs_summary_new(writer ? &writer->env : NULL);
    return add_summary(writer, summary, hs_summary_image(summary, tag, images, NULL, err), step, err);
}

hs_code hs_summary_writer_text(hs_summary_writer *writer, const char *tag, const char *text, int64_t step, hs_error *err)
{
    hs_summary *summary = hs_summary_new(writer ? &writer->env : NULL);
    return add_summary(writer, summary, hs_summary_text(summary, tag, text, err), step, err);
}
