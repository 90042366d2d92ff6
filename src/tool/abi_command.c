/* SPDX-License-Identifier: Apache-2.0 */
/* `abi`: prints structs, enums and functions of the headers. cmake/reference/abi.py makes abi.inc from the headers, and the
 * compiler adds sizes, offsets and numbers. */
#include "command.h"
#include "json_output.h"
#include "output.h"

#ifdef HOOKSESS_ABI
#define ABI_HEADERS
#include "abi.inc"
#undef ABI_HEADERS

#include <stddef.h>
#include <stdio.h>

/* Each begin_* opens an object, and a list in it, which ABI_END closes. `out` NULL: prints text. */

static void begin_list(hs__json_writer *out, const char *name)
{
    if (out)
        hs__json_open(out, name, '[');
}

static void end_list(hs__json_writer *out)
{
    if (out)
        hs__json_close(out, ']');
}

static void begin(hs__json_writer *out, const char *name, const char *header)
{
    hs__json_open(out, NULL, '{');
    js_text(out, "name", name);
    js_text(out, "header", header);
}

static void end(hs__json_writer *out)
{
    if (!out)
        return;
    hs__json_close(out, ']');
    hs__json_close(out, '}');
}

static void begin_struct(hs__json_writer *out, const char *name, const char *header, const char *kind, bool grows,
                         size_t bytes)
{
    if (!out) {
        printf("%s %s: %zu bytes%s\n", kind, name, bytes, grows ? ", grows" : "");
        return;
    }
    begin(out, name, header);
    js_text(out, "kind", kind);
    hs__json_put_bool(out, "grows", grows);
    js_count(out, "bytes", bytes);
    hs__json_open(out, "fields", '[');
}

/* count  of the array's elements. 0: the field is no array */
static void put_field(hs__json_writer *out, const char *name, const char *type, size_t offset, size_t bytes, size_t count,
                      const char *by_default, const char *comment)
{
    if (!out) {
        printf("  %5zu %5zu  %s %s\n", offset, bytes, type, name);
        return;
    }
    hs__json_open(out, NULL, '{');
    js_text(out, "name", name);
    js_text(out, "type", type);
    if (count)
        js_count(out, "count", count);
    js_count(out, "offset", offset);
    js_count(out, "bytes", bytes);
    if (by_default)
        js_text(out, "default", by_default);
    if (comment)
        js_text(out, "comment", comment);
    hs__json_close(out, '}');
}

static void begin_enum(hs__json_writer *out, const char *name, const char *header)
{
    if (!out) {
        printf("enum %s\n", name ? name : "");
        return;
    }
    begin(out, name, header);
    hs__json_open(out, "constants", '[');
}

static void put_constant(hs__json_writer *out, const char *name, const char *header, int64_t value)
{
    if (!out) {
        printf("  %s = %lld\n", name, (long long)value);
        return;
    }
    hs__json_open(out, NULL, '{');
    js_text(out, "name", name);
    if (header)
        js_text(out, "header", header);
    hs__json_put_int(out, "value", value);
    hs__json_close(out, '}');
}

static void put_type(hs__json_writer *out, const char *name, const char *header, const char *declaration)
{
    if (!out) {
        printf("typedef %s\n", declaration);
        return;
    }
    begin(out, name, header);
    js_text(out, "declaration", declaration);
    hs__json_close(out, '}');
}

static void begin_function(hs__json_writer *out, const char *name, const char *header, const char *library,
                           const char *returns)
{
    if (!out) {
        printf("%s %s\n", returns, name);
        return;
    }
    begin(out, name, header);
    js_text(out, "library", library);
    js_text(out, "returns", returns);
    hs__json_open(out, "parameters", '[');
}

static void put_parameter(hs__json_writer *out, const char *name, const char *type)
{
    if (!out) {
        printf("  %s %s\n", type, name);
        return;
    }
    hs__json_open(out, NULL, '{');
    js_text(out, "name", name);
    js_text(out, "type", type);
    hs__json_close(out, '}');
}

/* clang-format off */
#define ABI_STRUCTS begin_list(out, "structs");
#define ABI_STRUCT(type, header, kind, grows) begin_struct(out, #type, header, kind, grows, sizeof(type));
#define ABI_FIELD(of, name, type, by_default, comment)                                                                     \
    put_field(out, #name, type, offsetof(of, name), sizeof(((of *)0)->name), 0, by_default, comment);
#define ABI_ARRAY(of, name, type, by_default, comment)                                                                     \
    put_field(out, #name, type, offsetof(of, name), sizeof(((of *)0)->name),                                               \
              sizeof(((of *)0)->name) / sizeof(((of *)0)->name[0]), by_default, comment);
#define ABI_ENUMS begin_list(out, "enums");
#define ABI_ENUM(name, header) begin_enum(out, name, header);
#define ABI_CONSTANT(name) put_constant(out, #name, NULL, name);
#define ABI_MACROS begin_list(out, "macros");
#define ABI_MACRO(name, header) put_constant(out, #name, header, name);
#define ABI_TYPES begin_list(out, "types");
#define ABI_TYPE(name, header, declaration) put_type(out, name, header, declaration);
#define ABI_FUNCTIONS begin_list(out, "functions");
#define ABI_FUNCTION(name, header, library, returns) begin_function(out, name, header, library, returns);
#define ABI_PARAMETER(name, type) put_parameter(out, name, type);
#define ABI_END end(out);
#define ABI_END_LIST end_list(out);
/* clang-format on */

static void put_all(hs__json_writer *out)
{
#include "abi.inc"
}

int abi_command(const struct call *call)
{
    if (!call->given[OPTION_JSON]) {
        put_all(NULL);
        return FINE;
    }
    hs__json_writer out = js_begin(2);
    hs__json_open(&out, NULL, '{');
    js_text(&out, "version", HS_VERSION_STRING);
    put_all(&out);
    hs__json_close(&out, '}');
    js_end();
    return FINE;
}
#else
int abi_command(const struct call *call)
{
    (void)call;
    say("this build has no description of the ABI; build it again where Python 3.9 or later is found");
    return TROUBLE;
}
#endif
