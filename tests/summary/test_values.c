/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "event.pb-c.h"

#include <math.h>

static test_env used;
static hs_summary *summary;
static hs_error err;

static int setup(void **state)
{
    (void)state;
    test_env_init(&used);
    summary = hs_summary_new(&used.env);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hs_summary_free(summary);
    return used.live ? -1 : 0;
}

static Hs__Pb__Summary *parse(const hs_summary *of)
{
    hs_string bytes = hs_summary_serialized(of);
    Hs__Pb__Summary *parsed = hs__pb__summary__unpack(NULL, bytes.bytes, (const uint8_t *)bytes.data);
    assert_non_null(parsed);
    return parsed;
}

/* The tags, separated by blanks. Valid until the next call. */
static const char *tags(void)
{
    static char text[256];
    Hs__Pb__Summary *parsed = parse(summary);
    *text = '\0';
    for (size_t i = 0; i < parsed->n_value; i++) {
        strcat(text, i ? " " : "");
        strcat(text, parsed->value[i]->tag);
    }
    hs__pb__summary__free_unpacked(parsed, NULL);
    return text;
}

static void tags_of_images(void **state)
{
    (void)state;
    const uint8_t pixels[4] = {0};
    const hs_tensor one = hs_tensor_of(HS_UINT8, HS_SHAPE(2, 2), pixels),
                    four = hs_tensor_of(HS_UINT8, HS_SHAPE(4, 1, 1, 1), pixels);
    assert_ok(hs_summary_image(summary, "a", &one, NULL, &err), &err);
    assert_ok(hs_summary_image(summary, "b", &four, NULL, &err), &err);
    assert_ok(hs_summary_image(summary, "c", &four, HS_IMAGE_OPTIONS(.max_outputs = 1), &err), &err);
    assert_string_equal(tags(), "a/image b/image/0 b/image/1 b/image/2 c/image");
}

/* As in TensorFlow, they get the bad color, 255. */
static void pixels_that_are_not_finite(void **state)
{
    (void)state;
    const float pixels[] = {1, NAN}, others[] = {1, 1};
    const hs_tensor with = hs_tensor_of(HS_FLOAT, HS_SHAPE(1, 1, 2, 1), pixels),
                    without = hs_tensor_of(HS_FLOAT, HS_SHAPE(1, 1, 2, 1), others);
    assert_ok(hs_summary_image(summary, "i", &without, NULL, &err), &err);
    hs_string bytes = hs_summary_serialized(summary);
    size_t length = bytes.bytes;
    char *expected = malloc(length);
    memcpy(expected, bytes.data, length);
    hs_summary_clear(summary);
    hs_code code = hs_summary_image(summary, "i", &with, NULL, &err);
    bytes = hs_summary_serialized(summary);
    bool same = bytes.bytes == length && memcmp(bytes.data, expected, length) == 0;
    free(expected);
    assert_ok(code, &err);
    assert_true(same);
}

static void invalid_images_are_refused(void **state)
{
    (void)state;
    const float pixels[8] = {0};
    const hs_shape wrong[] = {HS_SHAPE(8),       HS_SHAPE(2, 2, 2),       HS_SHAPE(0, 1),
                              HS_SHAPE(0, 1, 3), HS_SHAPE(1, 1, 1, 1, 1), HS_SCALAR};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const hs_tensor tensor = hs_tensor_of(HS_FLOAT, wrong[i], pixels);
        assert_fails(hs_summary_image(summary, "i", &tensor, NULL, &err), HS_INVALID_ARGUMENT, &err, "shape");
    }
    const hs_tensor ints = hs_tensor_of(HS_INT32, HS_SHAPE(2, 2), pixels),
                    sound = hs_tensor_of(HS_UINT8, HS_SHAPE(2, 2), pixels);
    const hs_tensor huge = hs_tensor_of(HS_UINT8, HS_SHAPE((int64_t)1 << 31, (int64_t)1 << 31), pixels);
    assert_fails(hs_summary_image(summary, "i", &ints, NULL, &err), HS_INVALID_ARGUMENT, &err, "int32");
    assert_fails(hs_summary_image(summary, "i", &huge, NULL, &err), HS_INVALID_ARGUMENT, &err, "bytes");
    assert_fails(hs_summary_image(summary, "i", NULL, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_fails(hs_summary_image(summary, "", &sound, NULL, &err), HS_INVALID_ARGUMENT, &err, "tag");
    assert_fails(hs_summary_image(summary, "i", &sound, HS_IMAGE_OPTIONS(-1), &err), HS_INVALID_ARGUMENT, &err,
                 "max_outputs");
    assert_fails(hs_summary_image(summary, "i", &sound, &(hs_image_options){.max_outputs = 1}, &err), HS_INVALID_ARGUMENT,
                 &err, "HS_INIT(hs_image_options");
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
}

static void tags_of_audio(void **state)
{
    (void)state;
    const float samples[8] = {0};
    const hs_tensor mono = hs_tensor_of(HS_FLOAT, HS_SHAPE(8), samples),
                    stereo = hs_tensor_of(HS_FLOAT, HS_SHAPE(4, 2), samples),
                    two = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 4, 1), samples);
    assert_ok(hs_summary_audio(summary, "a", &mono, NULL, &err), &err);
    assert_ok(hs_summary_audio(summary, "b", &stereo, NULL, &err), &err);
    assert_ok(hs_summary_audio(summary, "c", &two, NULL, &err), &err);
    assert_string_equal(tags(), "a/audio b/audio c/audio/0 c/audio/1");
}

static void invalid_audio_is_refused(void **state)
{
    (void)state;
    const float samples[8] = {0};
    const hs_shape wrong[] = {HS_SCALAR, HS_SHAPE(2, 0), HS_SHAPE(1, 2, 2, 2)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const hs_tensor tensor = hs_tensor_of(HS_FLOAT, wrong[i], samples);
        assert_fails(hs_summary_audio(summary, "s", &tensor, NULL, &err), HS_INVALID_ARGUMENT, &err, "shape");
    }
    const hs_tensor fine = hs_tensor_of(HS_FLOAT, HS_SHAPE(8), samples),
                    bytes = hs_tensor_of(HS_UINT8, HS_SHAPE(8), samples);
    const double rates[] = {-1, 0.5, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        assert_fails(hs_summary_audio(summary, "s", &fine, HS_AUDIO_OPTIONS(.sample_rate = rates[i]), &err),
                     HS_INVALID_ARGUMENT, &err, "sample_rate");
    assert_fails(hs_summary_audio(summary, "s", &bytes, NULL, &err), HS_INVALID_ARGUMENT, &err, "uint8");
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
}

static void invalid_text_is_refused(void **state)
{
    (void)state;
    const char *wrong[] = {"\x80", "a\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xff"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(hs_summary_text(summary, "t", wrong[i], &err), HS_INVALID_ARGUMENT, &err, "UTF-8");
    assert_fails(hs_summary_text(summary, "t", NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    const hs_string no_data = {NULL, 1};
    const hs_tensor strings = hs_tensor_of(HS_STRING, HS_SCALAR, &no_data),
                    number = hs_tensor_of(HS_FLOAT, HS_SHAPE(0), NULL);
    assert_fails(hs_summary_text_tensor(summary, "t", &strings, &err), HS_INVALID_ARGUMENT, &err, "is NULL");
    assert_fails(hs_summary_tensor(summary, "t", &strings, NULL, &err), HS_INVALID_ARGUMENT, &err, "is NULL");
    assert_fails(hs_summary_text_tensor(summary, "t", &number, &err), HS_INVALID_ARGUMENT, &err, "float");
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
}

static void the_tag_of_a_scalar_must_be_utf_8(void **state)
{
    (void)state;
    assert_fails(hs_summary_scalar(summary, "\xff", 1, &err), HS_INVALID_ARGUMENT, &err, "UTF-8");
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
}

static void text_beyond_ascii(void **state)
{
    (void)state;
    assert_ok(hs_summary_text(summary, "größe",
                              "\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf", &err),
              &err);
    assert_string_equal(tags(), "größe");
}

static void invalid_plugins_are_refused(void **state)
{
    (void)state;
    const hs_tensor number = hs_tensor_of(HS_FLOAT, HS_SHAPE(0), NULL);
    const struct {
        hs_summary_plugin plugin;
        const char *says;
    } wrong[] = {
        {HS_INIT(hs_summary_plugin, .content = {"x", 1}), "the plugin's name is NULL"},
        {HS_INIT(hs_summary_plugin, .name = "x", .content = {NULL, 1}), "is NULL"},
        {HS_INIT(hs_summary_plugin, .name = "\xff"), "hs_summary_plugin.name is not UTF-8"},
        {HS_INIT(hs_summary_plugin, .display_name = "\xff"), "hs_summary_plugin.display_name is not UTF-8"},
        {HS_INIT(hs_summary_plugin, .description = "\xff"), "hs_summary_plugin.description is not UTF-8"},
        {{.name = "x"}, "HS_INIT(hs_summary_plugin"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(hs_summary_tensor(summary, "t", &number, &wrong[i].plugin, &err), HS_INVALID_ARGUMENT, &err,
                     wrong[i].says);
    assert_fails(hs_summary_tensor(summary, "t", NULL, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
}

static void invalid_precision_recall_curves_are_refused(void **state)
{
    (void)state;
    float predictions[] = {0.5f, 1};
    const uint8_t flags[] = {0, 1, 2};
    const hs_tensor labels = hs_tensor_of(HS_BOOL, HS_SHAPE(2), flags),
                    p = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), predictions),
                    fewer = hs_tensor_of(HS_FLOAT, HS_SHAPE(1), predictions),
                    twos = hs_tensor_of(HS_UINT8, HS_SHAPE(2), flags + 1);
    const struct {
        hs_pr_curve curve;
        const char *says;
    } wrong[] = {
        {HS_INIT(hs_pr_curve), "labels"},
        {HS_INIT(hs_pr_curve, &labels), "predictions"},
        {HS_INIT(hs_pr_curve, &labels, &fewer), "shape"},
        {HS_INIT(hs_pr_curve, &labels, &p, &fewer), "shape"},
        {HS_INIT(hs_pr_curve, &labels, &labels), "bool"},
        {HS_INIT(hs_pr_curve, &twos, &p), "label 2"},
        {HS_INIT(hs_pr_curve, &labels, &p, .thresholds = 1), "thresholds"},
        {HS_INIT(hs_pr_curve, &labels, &p, .thresholds = (1 << 20) + 1), "thresholds"},
        {HS_INIT(hs_pr_curve, &labels, &p, .display_name = "\xff"), "hs_pr_curve.display_name is not UTF-8"},
        {HS_INIT(hs_pr_curve, &labels, &p, .description = "\xff"), "hs_pr_curve.description is not UTF-8"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(hs_summary_pr_curve(summary, "p", &wrong[i].curve, &err), HS_INVALID_ARGUMENT, &err, wrong[i].says);
    predictions[1] = NAN;
    assert_fails(hs_summary_pr_curve(summary, "p", HS_PR_CURVE(&labels, &p), &err), HS_INVALID_ARGUMENT, &err, "element 1");
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
}

static void invalid_layouts_are_refused(void **state)
{
    (void)state;
    const hs_chart_margin *half = HS_CHART_MARGINS({.value = "v"});
    const hs_chart charts[] = {
        {.title = "neither"},
        {.title = "both", .tags = (const char *const[]){"x", NULL}, .margins = half},
        {.title = "half", .margins = half},
        {.title = "\xff", .tags = (const char *const[]){"x", NULL}},
        {.title = "tags", .tags = (const char *const[]){"x", "\xff", "y", NULL}},
        {.title = "half", .margins = HS_CHART_MARGINS({.value = "v", .lower = "l"})},
        {.title = "value", .margins = HS_CHART_MARGINS({"\xff", "l", "u"})},
        {.title = "lower", .margins = HS_CHART_MARGINS({"v", "\xff", "u"})},
        {.title = "upper", .margins = HS_CHART_MARGINS({"v", "l", "\xff"}, {"v", "l", "u"})},
    };
    const char *says[] = {
        "exactly one of tags and margins",    "exactly one of tags and margins",    "lower and upper",
        "hs_chart.title is not UTF-8",        "hs_chart.tags is not UTF-8",         "lower and upper",
        "hs_chart_margin.value is not UTF-8", "hs_chart_margin.lower is not UTF-8", "hs_chart_margin.upper is not UTF-8"};
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++) {
        const hs_chart_category category = {.title = "c", .charts = HS_CHARTS(charts[i])};
        assert_fails(hs_summary_chart_layout(summary, HS_CHART_CATEGORIES(category), &err), HS_INVALID_ARGUMENT, &err,
                     says[i]);
    }
    assert_fails(hs_summary_chart_layout(summary, HS_CHART_CATEGORIES({.title = NULL}), &err), HS_INVALID_ARGUMENT, &err,
                 "categories");
    assert_fails(hs_summary_chart_layout(summary, HS_CHART_CATEGORIES({.title = "\xff"}), &err), HS_INVALID_ARGUMENT, &err,
                 "hs_chart_category.title is not UTF-8");
    assert_fails(hs_summary_chart_layout(summary, NULL, &err), HS_INVALID_ARGUMENT, &err, "categories");
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
}

static size_t layout_bytes(const char *const *tags)
{
    const hs_chart chart = {.title = "c", .tags = tags};
    hs_summary_clear(summary);
    assert_ok(hs_summary_chart_layout(summary, HS_CHART_CATEGORIES({.title = "l", .charts = HS_CHARTS(chart)}), &err),
              &err);
    return hs_summary_serialized(summary).bytes;
}

static void a_layout_keeps_empty_tags(void **state)
{
    (void)state;
    size_t one = layout_bytes((const char *const[]){"x", NULL});
    assert_int_equal(layout_bytes((const char *const[]){"", "x", "", NULL}), one + 2 * 2); /* each has a key and a length */
}

static void merging_a_summary_into_itself_doubles_it(void **state)
{
    (void)state;
    hs_summary_scalar(summary, "a", 1, NULL);
    hs_summary_scalar(summary, "b", 2, NULL);
    assert_ok(hs_summary_merge(summary, hs_summary_serialized(summary), &err), &err);
    hs_string all = hs_summary_serialized(summary);
    assert_ok(hs_summary_merge(summary, (hs_string){all.data + all.bytes / 4, all.bytes / 4}, &err), &err);
    assert_string_equal(tags(), "a b a b b");
}

static void bytes_that_are_not_a_summary_are_not_merged(void **state)
{
    (void)state;
    const hs_string wrong[] = {{"\x0a", 1},
                               {"\x0a\x05x", 3},
                               {"\x0d\0\0\0\0", 5},
                               {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
                               {"\x0a\x02\xff\xff", 4},
                               {"\x0a\x02\x0a\x05", 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(hs_summary_merge(summary, wrong[i], &err), HS_DATA_LOSS, &err,
                     "bytes: they are not a serialized Summary");
    assert_fails(hs_summary_merge(summary, (hs_string){NULL, 3}, &err), HS_INVALID_ARGUMENT, &err, "is NULL");
    assert_fails(hs_summary_merge(NULL, wrong[0], &err), HS_RESOURCE_EXHAUSTED, &err, "NULL");
    assert_ok(hs_summary_merge(summary, (hs_string){NULL, 0}, &err), &err);
    assert_int_equal(hs_summary_serialized(summary).bytes, 0);
}

static void values_are_added_through_the_writer(void **state)
{
    (void)state;
    char *directory = test_make_directory();
    hs_summary_writer *w = hs_summary_writer_open(directory, NULL, &err);
    const float values[] = {1, 2};
    const hs_tensor tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(1, 2), values);
    assert_ok(hs_summary_writer_histogram(w, "h", &tensor, 1, &err), &err);
    assert_ok(hs_summary_writer_image(w, "i", &tensor, 2, &err), &err);
    assert_ok(hs_summary_writer_text(w, "t", "x", 3, &err), &err);
    assert_fails(hs_summary_writer_text(w, "t", NULL, 3, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_fails(hs_summary_writer_text(NULL, "t", "x", 3, &err), HS_INVALID_ARGUMENT, &err, "writer");
    assert_ok(hs_summary_writer_close(w, &err), &err);
    test_remove_directory(directory);
}

/* Rows of true positives, false positives, true negatives, false negatives, precision and recall. */
static void a_curve_of_two_thresholds(void **state)
{
    (void)state;
    const float predictions[] = {0, 1}, wanted[12] = {1, 1, 1, 0, 0, 1, 0, 0, 0.5f, 1, 1, 1};
    const uint8_t flags[] = {0, 1};
    const hs_tensor labels = hs_tensor_of(HS_BOOL, HS_SHAPE(2), flags),
                    p = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), predictions);
    const hs_pr_curve curve = HS_INIT(hs_pr_curve, &labels, &p, .thresholds = 2);
    assert_ok(hs_summary_pr_curve(summary, "p", &curve, &err), &err);
    hs_string bytes = hs_summary_serialized(summary);
    size_t at = 0; /* offset of the numbers, on a little-endian machine */
    while (at + sizeof wanted <= bytes.bytes && memcmp(bytes.data + at, wanted, sizeof wanted) != 0)
        at++;
    assert_true(at + sizeof wanted <= bytes.bytes);
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *e)
{
    if (user)
        return hs_error_set(e, HS_UNAVAILABLE, "the device is away");
    memcpy(host, device, bytes);
    return HS_OK;
}

static void tensors_of_a_device_are_copied(void **state)
{
    (void)state;
    const float values[] = {0, 1};
    const hs_memory here = HS_INIT(hs_memory, .to_host = to_host),
                    away = HS_INIT(hs_memory, .to_host = to_host, .user = &err);
    hs_tensor tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), values);
    tensor.memory = &here;
    assert_ok(hs_summary_histogram(summary, "h", &tensor, &err), &err);
    assert_ok(hs_summary_pr_curve(summary, "p", HS_PR_CURVE(&tensor, &tensor, &tensor), &err), &err);
    tensor.memory = &away;
    const hs_tensor here_too = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), values);
    assert_fails(hs_summary_histogram(summary, "h", &tensor, &err), HS_UNAVAILABLE, &err, "away");
    assert_fails(hs_summary_histogram_uniform(summary, "u", &tensor, NULL, &err), HS_UNAVAILABLE, &err, "'u': ");
    assert_fails(hs_summary_tensor(summary, "t", &tensor, NULL, &err), HS_UNAVAILABLE, &err, "'t': ");
    assert_fails(hs_summary_pr_curve(summary, "p", HS_PR_CURVE(&tensor, &here_too), &err), HS_UNAVAILABLE, &err,
                 "labels: ");
    assert_fails(hs_summary_pr_curve(summary, "p", HS_PR_CURVE(&here_too, &tensor), &err), HS_UNAVAILABLE, &err,
                 "predictions: ");
    assert_fails(hs_summary_pr_curve(summary, "p", HS_PR_CURVE(&here_too, &here_too, &tensor), &err), HS_UNAVAILABLE, &err,
                 "weights: ");
    assert_string_equal(tags(), "h p/pr_curves");
}

static hs_code to_host_in_pieces(void *user, void *host, const void *device, size_t bytes, hs_error *e)
{
    size_t *largest = user;
    *largest = bytes > *largest ? bytes : *largest;
    return to_host(NULL, host, device, bytes, e);
}

static void a_histogram_of_a_device_is_counted_in_pieces(void **state)
{
    (void)state;
    enum { N = (20 << 20) / (int)sizeof(float) };
    size_t largest = 0;
    const hs_memory device = HS_INIT(hs_memory, .to_host = to_host_in_pieces, .user = &largest);
    float *values = malloc(N * sizeof *values);
    for (int i = 0; i < N; i++)
        values[i] = i % 1000 == 0 ? (float)NAN : (float)(i % 977 - 400) * 0.37F;
    hs_tensor tensor = hs_tensor_of(HS_FLOAT, HS_SHAPE(N), values);
    assert_ok(hs_summary_histogram(summary, "h", &tensor, &err), &err);
    const size_t n = hs_summary_serialized(summary).bytes;
    tensor.memory = &device;
    assert_ok(hs_summary_histogram(summary, "h", &tensor, &err), &err);
    const hs_string both = hs_summary_serialized(summary);
    assert_int_equal(both.bytes, 2 * n);
    assert_memory_equal(both.data, both.data + n, n);
    assert_in_range(largest, 1, 8 << 20);
    free(values);
}

static hs_code fill(test_env *t, void *user)
{
    const uint8_t pixels[12] = {1, 2, 3};
    const float samples[12] = {0, 1, 0.5f};
    const hs_string strings[2] = {{"a", 1}, {"b", 1}};
    const hs_tensor image = hs_tensor_of(HS_UINT8, HS_SHAPE(2, 2, 2, 1), pixels),
                    floats = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 2), samples),
                    text = hs_tensor_of(HS_STRING, HS_SHAPE(2), strings),
                    labels = hs_tensor_of(HS_BOOL, HS_SHAPE(2, 2), pixels + 4);
    const hs_chart chart = {.title = "c", .tags = (const char *const[]){"x", NULL}};
    (void)user;
    hs_summary *s = hs_summary_new(&t->env);
    if (!s)
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = HS_OK;
    for (int i = 0; i < 7 && !code; i++) {
        size_t before = hs_summary_serialized(s).bytes;
        code = i == 0   ? hs_summary_image(s, "i", &image, NULL, NULL)
               : i == 1 ? hs_summary_image(s, "f", &floats, NULL, NULL)
               : i == 2 ? hs_summary_audio(s, "a", &floats, NULL, NULL)
               : i == 3 ? hs_summary_text_tensor(s, "t", &text, NULL)
               : i == 4 ? hs_summary_pr_curve(s, "p", HS_PR_CURVE(&labels, &floats), NULL)
               : i == 5 ? hs_summary_chart_layout(s, HS_CHART_CATEGORIES({.title = "l", .charts = HS_CHARTS(chart)}), NULL)
                        : hs_summary_merge(s, hs_summary_serialized(s), NULL);
        if (code)
            assert_int_equal(hs_summary_serialized(s).bytes, before);
    }
    hs__pb__summary__free_unpacked(parse(s), NULL);
    hs_summary_free(s);
    return code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(fill, NULL);
}

#define TEST(NAME) cmocka_unit_test_setup_teardown(NAME, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tags_of_images),
        TEST(pixels_that_are_not_finite),
        TEST(invalid_images_are_refused),
        TEST(tags_of_audio),
        TEST(invalid_audio_is_refused),
        TEST(invalid_text_is_refused),
        TEST(the_tag_of_a_scalar_must_be_utf_8),
        TEST(text_beyond_ascii),
        TEST(invalid_plugins_are_refused),
        TEST(invalid_precision_recall_curves_are_refused),
        TEST(invalid_layouts_are_refused),
        TEST(a_layout_keeps_empty_tags),
        TEST(merging_a_summary_into_itself_doubles_it),
        TEST(bytes_that_are_not_a_summary_are_not_merged),
        TEST(values_are_added_through_the_writer),
        TEST(tensors_of_a_device_are_copied),
        TEST(a_histogram_of_a_device_is_counted_in_pieces),
        TEST(a_curve_of_two_thresholds),
        TEST(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
