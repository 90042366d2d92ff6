/* SPDX-License-Identifier: Apache-2.0 */
/* Image summaries, encoded as PNG. Images that are not uint8 are scaled first (scale_image). */
#include <hooksess/summary_values.h>

#include "formats/png.h"
#include "summary/numbers.h"
#include "summary/value.h"

#include <math.h>
#include <string.h>

enum { HEIGHT = 1, WIDTH, CHANNELS, ENCODED }; /* fields of Summary.Image */

enum { MAX_OUTPUTS = 3, MOST_CHANNELS = 4 };

typedef struct {
    const hs_tensor *tensor;
    size_t n;
    hs__pixels one; /* size of each image */
} batch;

/* Scaling. */

typedef struct {
    hs_dtype dtype; /* pixels are scaled in the precision of the elements */
    float scale, offset;
} scaling;

static bool pixel_is_finite(const double *pixel, size_t channels)
{
    for (size_t i = 0; i < channels; i++)
        if (!isfinite(pixel[i]))
            return false;
    return true;
}

/* Reads whole pixels from pixel `first` on, as many as fit in HS__NUMBERS values. Returns their number. */
static size_t read_pixels(const batch *b, size_t image, size_t first, double *values)
{
    size_t pixels = b->one.width * b->one.height, c = b->one.channels, n = pixels - first;
    n = n < HS__NUMBERS / c ? n : HS__NUMBERS / c;
    hs__numbers(b->tensor, (image * pixels + first) * c, n * c, values);
    return n;
}

/* Rounds to the precision of a half, but not to its range: smaller numbers do not change a pixel, and where TensorFlow has
 * infinity, nearly black images keep their scale. */
static float round_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & ~UINT32_C(0x1fff);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* Nearly black images become black. */
static float scale_to(float target, float greatest)
{
    return greatest < 1e-6F ? 0 : target / greatest;
}

static unsigned char scaled(const scaling *s, double value)
{
    double to;
    if (s->dtype == HS_DOUBLE)
        to = value * (double)s->scale + (double)s->offset;
    else if (s->dtype == HS_HALF)
        to = (double)round_to_half(round_to_half((float)value * s->scale) + s->offset);
    else
        to = (double)((float)value * s->scale + s->offset);
    return (unsigned char)(to < 0 ? 0 : to > 255 ? 255 : to);
}

static void scale_image(const batch *b, size_t image, unsigned char *to)
{
    static const unsigned char not_finite[MOST_CHANNELS] = {255, 0, 0, 255};
    double values[HS__NUMBERS];
    size_t c = b->one.channels, pixels = b->one.width * b->one.height;

    /* The range of finite pixels, in floats for all dtypes, as TensorFlow computes it. */
    float min = INFINITY, max = -INFINITY;
    for (size_t first = 0, n; first < pixels; first += n) {
        n = read_pixels(b, image, first, values);
        for (size_t i = 0; i < n * c; i++)
            if (pixel_is_finite(values + i / c * c, c)) {
                float value = (float)values[i];
                min = value < min ? value : min;
                max = value > max ? value : max;
            }
    }

    scaling s = {.dtype = b->tensor->dtype};
    if (min < 0) {
        s.scale = scale_to(127, fmaxf(fabsf(min), fabsf(max)));
        s.offset = 128;
    } else {
        s.scale = scale_to(255, max);
    }
    if (s.dtype == HS_HALF)
        s.scale = round_to_half(s.scale);

    for (size_t first = 0, n; first < pixels; first += n) {
        n = read_pixels(b, image, first, values);
        for (size_t i = 0; i < n * c; i++)
            *to++ = pixel_is_finite(values + i / c * c, c) ? scaled(&s, values[i]) : not_finite[i % c];
    }
}

/* The value. */

static hs_code put_image(hs_summary *summary, size_t index, void *user, hs_error *err)
{
    const batch *b = user;
    hs__pixels pixels = b->one;
    size_t bytes = pixels.width * pixels.height * pixels.channels;
    if (b->tensor->dtype == HS_UINT8) {
        pixels.data = (const unsigned char *)b->tensor->data + index * bytes;
    } else {
        hs__buffer_clear(&summary->scratch);
        unsigned char *to = hs__buffer_room(&summary->scratch, bytes);
        if (!to)
            return hs__no_memory(err, bytes, "the pixels of an image");
        scale_image(b, index, to);
        pixels.data = to;
    }
    hs__buffer *out = &summary->serialized;
    size_t image = hs__begin_field(out, HS__VALUE_IMAGE);
    hs__put_integer(out, HEIGHT, pixels.height);
    hs__put_integer(out, WIDTH, pixels.width);
    hs__put_integer(out, CHANNELS, pixels.channels);
    size_t encoded = hs__begin_field(out, ENCODED);
    hs_code code = hs__png_write(out, &pixels, err);
    hs__end_field(out, encoded);
    hs__end_field(out, image);
    return code;
}

static hs_code check_shape(const char *tag, const hs_tensor *t, batch *b, hs_error *err)
{
    char text[HS_SHAPE_TEXT_SIZE];
    const hs_shape shape = hs_tensor_shape(t);
    const int64_t *d = t->dims + (t->rank == 4);
    int64_t channels = t->rank == 2 ? 1 : d[2];
    if (t->rank < 2 || t->rank > 4 || d[0] < 1 || d[1] < 1 || (channels != 1 && channels != 3 && channels != 4))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': images have shape %s; it must be [height, width], [height, width, channels] or "
                            "[n, height, width, channels] with 1, 3 or 4 channels",
                            tag, hs_shape_text(&shape, text, sizeof text));
    if (d[0] > HS__PNG_MOST_BYTES || d[1] > HS__PNG_MOST_BYTES || d[0] * d[1] > HS__PNG_MOST_BYTES / channels)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': an image of shape %s has more than %d bytes of pixels",
                            tag, hs_shape_text(&shape, text, sizeof text), (int)HS__PNG_MOST_BYTES);
    b->n = t->rank == 4 ? (size_t)t->dims[0] : 1;
    b->one = (hs__pixels){.height = (size_t)d[0], .width = (size_t)d[1], .channels = (size_t)channels};
    return HS_OK;
}

static hs_code check(hs_summary *summary, const char *tag, const hs_tensor *images, const hs_image_options *given,
                     hs_image_options *options, hs_error *err)
{
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (given && (code = HS_STRUCT_TAKE(hs_image_options, max_outputs, options, given, err))))
        return code;
    if (options->max_outputs < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': hs_image_options.max_outputs is %lld; it must be at least 0", tag,
                            (long long)options->max_outputs);
    if (images && images->dtype != HS_UINT8 && !hs__is_floating(images->dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': images have type %s; it must be uint8, float, double, half or bfloat16", tag,
                            hs_dtype_name(images->dtype));
    return HS_OK;
}

hs_code hs_summary_image(hs_summary *summary, const char *tag, const hs_tensor *images, const hs_image_options *given,
                         hs_error *err)
{
    hs_image_options options = HS_INIT(hs_image_options);
    hs_tensor host;
    batch b = {.tensor = &host};
    hs_code code = check(summary, tag, images, given, &options, err);
    if (code || (code = hs__value_tensor(summary, tag, images, &host, err)) || (code = check_shape(tag, &host, &b, err)))
        return code;
    int64_t most = host.rank < 4 ? 1 : options.max_outputs ? options.max_outputs : MAX_OUTPUTS;
    return hs__put_batch(summary, tag, "image", b.n, most, put_image, &b, err);
}
