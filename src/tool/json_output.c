/* SPDX-License-Identifier: Apache-2.0 */
#include "json_output.h"
#include "output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 17 }; /* enough for every double */

static bool out_of_memory;
static bool first_of_list;

static json_t *made(json_t *value)
{
    if (!value)
        out_of_memory = true;
    return value;
}

json_t *js_text(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t length = strlen(text), used = 0;
    char *sound = length < SIZE_MAX / 3 ? malloc(3 * length + 1) : NULL;
    while (sound && *text) {
        size_t n = utf8_length(text);
        memcpy(sound + used, n ? text : replacement, n ? n : 3);
        used += n ? n : 3;
        text += n ? n : 1;
    }
    json_t *value = sound ? json_stringn(sound, used) : NULL;
    free(sound);
    return made(value);
}

json_t *js_number(long double value, bool whole)
{
    /* INT64_MAX may round up to 2^63, which does not fit */
    if (whole && value >= (long double)INT64_MIN && value < 0x1p63L)
        return made(json_integer((json_int_t)value));
    return made(isfinite((double)value) ? json_real((double)value) : json_null());
}

json_t *js_dims(const hs_shape *dims)
{
    if (dims->rank < 0)
        return json_null();
    json_t *list = made(json_array());
    for (int32_t i = 0; i < dims->rank; i++)
        js_add(list, json_integer(dims->dims[i]));
    return list;
}

json_t *js_tensor(const char *name, const hs_tensor *info)
{
    json_t *object = made(json_object());
    hs_shape shape = hs_tensor_shape(info);
    js_set(object, "name", js_text(name));
    js_set(object, "dtype", js_text(hs_dtype_name(info->dtype)));
    js_set(object, "shape", js_dims(&shape));
    return object;
}

void js_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        out_of_memory = true;
}

void js_add(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        out_of_memory = true;
}

void js_write(json_t *value)
{
    if (value && json_dumpf(value, stdout, JSON_REAL_PRECISION(DIGITS)) != 0 && !ferror(stdout))
        out_of_memory = true;
    json_decref(value);
}

void js_free(json_t *value)
{
    json_decref(value);
}

void js_list_begin(void)
{
    fputs("[", stdout);
    first_of_list = true;
}

void js_list_add(json_t *value)
{
    fputs(first_of_list ? "\n  " : ",\n  ", stdout);
    first_of_list = false;
    js_write(value);
}

void js_list_end(void)
{
    fputs(first_of_list ? "]" : "\n]", stdout);
}

bool js_works(void)
{
    if (out_of_memory)
        say("out of memory");
    return !out_of_memory;
}
