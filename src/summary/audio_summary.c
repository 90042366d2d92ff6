/* SPDX-License-Identifier: Apache-2.0 */
/* Audio summaries, encoded as WAV. */
#include <hooksess/summary_values.h>

#include "summary/numbers.h"
#include "summary/value.h"

#include <math.h>
#include <string.h>

enum { SAMPLE_RATE = 1, CHANNELS, FRAMES, ENCODED, CONTENT_TYPE }; /* fields of Summary.Audio */

enum { MAX_OUTPUTS = 3, MOST_CHANNELS = 65535, SAMPLE_BYTES = 2, WAV_HEADER = 44, PCM = 1 };

typedef struct {
    const hs_tensor *tensor;
    size_t n, frames, channels;
    double sample_rate;
} batch;

static void put16(unsigned char *to, size_t value)
{
    to[0] = (unsigned char)value;
    to[1] = (unsigned char)(value >> 8);
}

static void put_header(hs__buffer *out, const batch *b)
{
    size_t frame = b->channels * SAMPLE_BYTES, data = b->frames * frame;
    uint64_t sample_rate = (uint64_t)lrintf((float)b->sample_rate);
    unsigned char header[WAV_HEADER];
    memcpy(header, "RIFF....WAVEfmt ....................data....", WAV_HEADER);
    hs__put32(header + 4, (uint32_t)(WAV_HEADER - 8 + data));
    hs__put32(header + 16, 16); /* size of the format chunk */
    put16(header + 20, PCM);
    put16(header + 22, b->channels);
    hs__put32(header + 24, (uint32_t)sample_rate);
    hs__put32(header + 28, (uint32_t)(sample_rate * frame));
    put16(header + 32, frame);
    put16(header + 34, 8 * SAMPLE_BYTES);
    hs__put32(header + 40, (uint32_t)data);
    hs__buffer_append(out, header, sizeof header);
}

static void put_samples(hs__buffer *out, const batch *b, size_t index)
{
    size_t samples = b->frames * b->channels;
    const char *from = (const char *)b->tensor->data + index * samples * sizeof(float);
    unsigned char *to = samples ? hs__buffer_room(out, samples * SAMPLE_BYTES) : NULL;
    if (!to)
        return;
    for (size_t i = 0; i < samples; i++) {
        float value;
        memcpy(&value, from + i * sizeof value, sizeof value);
        float at = roundf(value * 32768);
        int sample = isnan(at) ? 0 : at < -32768 ? -32768 : at > 32767 ? 32767 : (int)at;
        put16(to + i * SAMPLE_BYTES, (size_t)sample);
    }
    out->size += samples * SAMPLE_BYTES;
}

static hs_code put_audio(hs_summary *summary, size_t index, void *user, hs_error *err)
{
    const batch *b = user;
    hs__buffer *out = &summary->serialized;
    (void)err;
    size_t audio = hs__begin_field(out, HS__VALUE_AUDIO);
    hs__put_float(out, SAMPLE_RATE, (float)b->sample_rate);
    hs__put_integer(out, CHANNELS, b->channels);
    hs__put_integer(out, FRAMES, b->frames);
    size_t encoded = hs__begin_field(out, ENCODED);
    put_header(out, b);
    put_samples(out, b, index);
    hs__end_field(out, encoded);
    hs__put_string(out, CONTENT_TYPE, "audio/wav");
    hs__end_field(out, audio);
    return HS_OK;
}

static hs_code check_shape(const char *tag, const hs_tensor *t, batch *b, hs_error *err)
{
    char text[HS_SHAPE_TEXT_SIZE];
    const hs_shape shape = hs_tensor_shape(t);
    const int64_t *d = t->dims + (t->rank == 3);
    int64_t channels = t->rank == 1 ? 1 : d[1], most_frames = (INT32_MAX - WAV_HEADER) / SAMPLE_BYTES;
    if (t->rank < 1 || t->rank > 3 || channels < 1 || channels > MOST_CHANNELS)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': audio has shape %s; it must be [frames], [frames, channels] or [n, frames, "
                            "channels] with 1 to %d channels",
                            tag, hs_shape_text(&shape, text, sizeof text), MOST_CHANNELS);
    if (d[0] > most_frames / channels)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': audio of shape %s is too long for a WAV file", tag,
                            hs_shape_text(&shape, text, sizeof text));
    b->n = t->rank == 3 ? (size_t)t->dims[0] : 1;
    b->frames = (size_t)d[0];
    b->channels = (size_t)channels;
    return HS_OK;
}

static hs_code check(hs_summary *summary, const char *tag, const hs_tensor *audio, const hs_audio_options *given,
                     hs_audio_options *o, hs_error *err)
{
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (given && (code = HS_STRUCT_TAKE(hs_audio_options, max_outputs, o, given, err))))
        return code;
    if (o->max_outputs < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': hs_audio_options.max_outputs is %lld; it must be at least 0", tag,
                            (long long)o->max_outputs);
    if (o->sample_rate != 0 && !hs__is_sample_rate(o->sample_rate))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': hs_audio_options.sample_rate is %g; it must be from 1 to 1e6", tag,
                            o->sample_rate);
    if (audio && audio->dtype != HS_FLOAT)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': audio has type %s; it must be float", tag,
                            hs_dtype_name(audio->dtype));
    return HS_OK;
}

hs_code hs_summary_audio(hs_summary *summary, const char *tag, const hs_tensor *audio, const hs_audio_options *given,
                         hs_error *err)
{
    hs_audio_options options = HS_INIT(hs_audio_options);
    hs_tensor host;
    batch b = {.tensor = &host};
    hs_code code = check(summary, tag, audio, given, &options, err);
    if (code || (code = hs__value_tensor(summary, tag, audio, &host, err)) || (code = check_shape(tag, &host, &b, err)))
        return code;
    b.sample_rate = options.sample_rate != 0 ? options.sample_rate : 44100;
    int64_t most = host.rank < 3 ? 1 : options.max_outputs ? options.max_outputs : MAX_OUTPUTS;
    return hs__put_batch(summary, tag, "audio", b.n, most, put_audio, &b, err);
}
