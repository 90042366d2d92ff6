/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "difference.h"
#include "json_output.h"
#include "checkpoint_open.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    checkpoint a, b;
    bool json;
    uint64_t equal, different, only_a, only_b;
    bool trouble;
} comparison;

/* "float [2,3]" */
static void put_type(const hs_tensor *info)
{
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(info);
    printf("%s %s", hs_dtype_name(info->dtype), hs_shape_text(&shape, text, sizeof text));
}

static json_t *js_type(const hs_tensor *info)
{
    hs_shape shape = hs_tensor_shape(info);
    json_t *object = json_object();
    js_set(object, "dtype", js_text(hs_dtype_name(info->dtype)));
    js_set(object, "shape", js_dims(&shape));
    return object;
}

static void report_single(const comparison *c, const checkpoint *in, const char *name, const hs_tensor *info)
{
    if (c->json) {
        json_t *object = js_tensor(name, info);
        js_set(object, "difference", js_text(in == &c->a ? "only_in_a" : "only_in_b"));
        js_list_add(object);
        return;
    }
    fputs("only in ", stdout);
    put_name(in->prefix);
    fputs(": ", stdout);
    put_name(name);
    fputs(": ", stdout);
    put_type(info);
    puts("");
}

static void report_type(const comparison *c, const char *name, const hs_tensor *a, const hs_tensor *b)
{
    if (c->json) {
        json_t *object = json_object();
        js_set(object, "name", js_text(name));
        js_set(object, "difference", js_text(a->dtype != b->dtype ? "dtype" : "shape"));
        js_set(object, "a", js_type(a));
        js_set(object, "b", js_type(b));
        js_list_add(object);
        return;
    }
    put_name(name);
    fputs(": ", stdout);
    put_type(a);
    fputs(" against ", stdout);
    put_type(b);
    puts("");
}

static json_t *js_values(const char *name, const hs_tensor *info, const difference *d, const hs_shape *first)
{
    json_t *object = js_tensor(name, info);
    js_set(object, "difference", js_text("values"));
    js_set(object, "elements", js_number((long double)d->elements, true));
    js_set(object, "differing", js_number((long double)d->differing, true));
    js_set(object, "first_index", js_dims(first));
    if (info->dtype != HS_STRING) {
        js_set(object, "largest_absolute", js_number(d->absolute, false));
        js_set(object, "largest_relative", js_number(d->relative, false));
    }
    return object;
}

static void report_values(const comparison *c, const char *name, const hs_tensor *info, const difference *d)
{
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(info), first = index_in(&shape, d->first);
    if (c->json) {
        js_list_add(js_values(name, info, d, &first));
        return;
    }
    put_name(name);
    fputs(": ", stdout);
    put_type(info);
    printf(": %llu of %llu elements differ, the first at %s", (unsigned long long)d->differing,
           (unsigned long long)d->elements, hs_shape_text(&first, text, sizeof text));
    if (info->dtype != HS_STRING)
        printf(", by at most %.6Lg, relative %.6Lg", d->absolute, d->relative);
    puts("");
}

static void compare_values(comparison *c, const char *name, hs_tensor *a, hs_tensor *b)
{
    if (!read_tensor(&c->a, name, a) || !read_tensor(&c->b, name, b)) {
        c->trouble = true;
        return;
    }
    difference d = difference_of(a, b);
    if (d.differing) {
        c->different++;
        report_values(c, name, a, &d);
    } else {
        c->equal++;
    }
}

static void compare(comparison *c, const char *name, hs_tensor *a, hs_tensor *b)
{
    hs_shape of_a = hs_tensor_shape(a), of_b = hs_tensor_shape(b);
    if (a->dtype != b->dtype || (!hs_shape_equal(&of_a, &of_b) && (of_a.rank >= 0 || of_b.rank >= 0))) {
        c->different++;
        report_type(c, name, a, b);
        return;
    }
    compare_values(c, name, a, b);
    free(a->data);
    free(b->data);
}

/* Both lists are in the order of names: they are gone through side by side. */
static void compare_all(comparison *c)
{
    const char *name_a, *name_b;
    hs_tensor a, b;
    size_t i = 0, k = 0;
    while (output_works()) {
        bool has_a = hs_checkpoint_tensor(c->a.reader, i, &name_a, &a);
        bool has_b = hs_checkpoint_tensor(c->b.reader, k, &name_b, &b);
        if (!has_a && !has_b)
            return;
        int order = !has_b ? -1 : !has_a ? 1 : strcmp(name_a, name_b);
        if (order < 0) {
            c->only_a++;
            report_single(c, &c->a, name_a, &a);
        } else if (order > 0) {
            c->only_b++;
            report_single(c, &c->b, name_b, &b);
        } else {
            compare(c, name_a, &a, &b);
        }
        i += order <= 0;
        k += order >= 0;
    }
}

static int conclude(const comparison *c)
{
    if (!c->json)
        printf("%llu tensors equal, %llu different, %llu only in the first, %llu only in the second\n",
               (unsigned long long)c->equal, (unsigned long long)c->different, (unsigned long long)c->only_a,
               (unsigned long long)c->only_b);
    if (c->trouble || !js_works())
        return TROUBLE;
    return c->different || c->only_a || c->only_b ? FOUND : FINE;
}

int checkpoint_diff(const struct call *call)
{
    comparison c = {.json = call->given[OPTION_JSON] != NULL};
    if (!open_checkpoint(&c.a, call->operands[0]))
        return TROUBLE;
    int status = TROUBLE;
    if (open_checkpoint(&c.b, call->operands[1])) {
        if (c.json)
            js_list_begin();
        compare_all(&c);
        if (c.json) {
            js_list_end();
            puts("");
        }
        status = conclude(&c);
        close_checkpoint(&c.b);
    }
    close_checkpoint(&c.a);
    return status;
}
