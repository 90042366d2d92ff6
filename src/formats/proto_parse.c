/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing protobuf's text format: parse_fields parses the fields of a message with parse_single or parse_repeated, which
 * call parse_value, which calls parse_fields for a message inside. */
#include "formats/proto_text.h"

#include "base/c_locale.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 100, MAX_WORD = 64 };

typedef struct {
    const char *at, *end;
    int line;
    ProtobufCAllocator *allocator;
    hs_error *err;
} parser;

static hs_code parse_fields(parser *p, ProtobufCMessage *message, char closing, int depth);

static hs_code fail(parser *p, const char *what, const char *name)
{
    return hs_error_set(p->err, HS_INVALID_ARGUMENT, "line %d: %s%s%s", p->line, what, *name ? " " : "", name);
}

static hs_code no_memory(parser *p, size_t bytes)
{
    return hs__no_memory(p->err, bytes, "a parsed message");
}

static void skip_blanks(parser *p)
{
    while (p->at < p->end) {
        if (*p->at == '\n')
            p->line++;
        if (*p->at == '#')
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        else if (isspace((unsigned char)*p->at))
            p->at++;
        else
            return;
    }
}

static char peek(parser *p)
{
    skip_blanks(p);
    return p->at < p->end ? *p->at : '\0';
}

static bool accept(parser *p, char wanted)
{
    if (p->at >= p->end || peek(p) != wanted)
        return false;
    p->at++;
    return true;
}

/* Reads a name, a number or a word such as true: letters, digits and the other characters of numbers. */
static hs_code read_word(parser *p, char word[MAX_WORD])
{
    skip_blanks(p);
    size_t n = 0;
    while (p->at < p->end &&
           (isalnum((unsigned char)*p->at) || *p->at == '_' || *p->at == '.' || *p->at == '-' || *p->at == '+')) {
        if (n == MAX_WORD - 1)
            return fail(p, "word too long", "");
        word[n++] = *p->at++;
    }
    word[n] = '\0';
    return n ? HS_OK : fail(p, "missing word", "");
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Reads up to `most` digits after a backslash as one byte. */
static hs_code read_code(parser *p, int base, int most, hs__buffer *out)
{
    int value = 0, n = 0;
    while (n < most && p->at < p->end && digit(*p->at) < base) {
        value = value * base + digit(*p->at++);
        n++;
    }
    if (!n || value > 255)
        return fail(p, "invalid number in an escape", "");
    unsigned char byte = (unsigned char)value;
    hs__buffer_append(out, &byte, 1);
    return HS_OK;
}

static hs_code read_escape(parser *p, hs__buffer *out)
{
    static const char from[] = "abfnrtv\\'\"?", to[] = "\a\b\f\n\r\t\v\\'\"?";
    if (p->at == p->end)
        return fail(p, "unterminated string", "");
    char c = *p->at;
    if (c >= '0' && c <= '7')
        return read_code(p, 8, 3, out);
    p->at++;
    if (c == 'x' || c == 'X')
        return read_code(p, 16, 2, out);
    const char *found = strchr(from, c);
    if (!found || !c)
        return fail(p, "unknown escape", "");
    hs__buffer_append(out, &to[found - from], 1);
    return HS_OK;
}

/* Reads one or more quoted strings and concatenates them. */
static hs_code read_string(parser *p, hs__buffer *out)
{
    hs_code code = HS_OK;
    char quote = peek(p);
    if (quote != '"' && quote != '\'')
        return fail(p, "missing string", "");
    while (!code && (quote = peek(p), quote == '"' || quote == '\'')) {
        p->at++;
        while (!code && p->at < p->end && *p->at != quote && *p->at != '\n') {
            char c = *p->at++;
            if (c == '\\')
                code = read_escape(p, out);
            else
                hs__buffer_append(out, &c, 1);
        }
        if (!code && (p->at == p->end || *p->at++ != quote))
            code = fail(p, "unterminated string", "");
    }
    return code ? code : hs__buffer_check(out, "a parsed string", p->err);
}

static hs_code parse_text(parser *p, const ProtobufCFieldDescriptor *field, void *to)
{
    hs__buffer text;
    hs__buffer_init(&text, p->allocator->allocator_data);
    hs_code code = read_string(p, &text);
    if (!code && field->type == PROTOBUF_C_TYPE_STRING && text.size && memchr(text.data, 0, text.size))
        code = fail(p, "zero byte in a string", ""); /* protobuf-c's strings end there */
    unsigned char *copy = code ? NULL : p->allocator->alloc(p->allocator->allocator_data, text.size + 1);
    if (!code && !copy) {
        code = no_memory(p, text.size);
    } else if (!code) {
        if (text.size)
            memcpy(copy, text.data, text.size);
        copy[text.size] = '\0';
        if (field->type == PROTOBUF_C_TYPE_STRING)
            *(char **)to = (char *)copy;
        else
            *(ProtobufCBinaryData *)to = (ProtobufCBinaryData){.len = text.size, .data = copy};
    }
    hs__buffer_free(&text);
    return code;
}

static hs_code parse_integer(parser *p, const char *word, int64_t low, uint64_t high, uint64_t *value)
{
    char *end;
    errno = 0;
    bool negative = word[0] == '-';
    long long signed_value = negative ? strtoll(word, &end, 0) : 0;
    unsigned long long unsigned_value = negative ? 0 : strtoull(word, &end, 0);
    if (*end || end == word)
        return fail(p, "not a number:", word);
    if (errno || (negative ? signed_value < low : unsigned_value > high))
        return fail(p, "number out of range:", word);
    *value = negative ? (uint64_t)signed_value : unsigned_value;
    return HS_OK;
}

static hs_code parse_real(parser *p, const char *word, double *value)
{
    char *end;
    *value = strtod(word, &end);
    if (*end == 'f' && end > word)
        end++;
    return *end || end == word ? fail(p, "not a number:", word) : HS_OK;
}

static hs_code parse_bool(parser *p, const char *word, protobuf_c_boolean *value)
{
    if (!strcmp(word, "true") || !strcmp(word, "True") || !strcmp(word, "t") || !strcmp(word, "1"))
        *value = 1;
    else if (!strcmp(word, "false") || !strcmp(word, "False") || !strcmp(word, "f") || !strcmp(word, "0"))
        *value = 0;
    else
        return fail(p, "not a boolean:", word);
    return HS_OK;
}

static hs_code parse_enum(parser *p, const ProtobufCEnumDescriptor *of, const char *word, int *value)
{
    const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value_by_name(of, word);
    if (named) {
        *value = named->value;
        return HS_OK;
    }
    uint64_t number;
    if (isalpha((unsigned char)word[0]) || parse_integer(p, word, INT32_MIN, INT32_MAX, &number))
        return fail(p, "not a value of its enum:", word);
    *value = (int)(int64_t)number;
    return HS_OK;
}

static hs_code parse_scalar(parser *p, const ProtobufCFieldDescriptor *field, void *to)
{
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES)
        return parse_text(p, field, to);
    char word[MAX_WORD];
    hs_code code = read_word(p, word);
    int64_t low = 0;
    uint64_t high, number;
    double real = 0;
    if (code)
        return code;
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        low = INT32_MIN;
        high = INT32_MAX;
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        high = UINT32_MAX;
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        low = INT64_MIN;
        high = INT64_MAX;
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        high = UINT64_MAX;
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        if (!(code = parse_real(p, word, &real)))
            *(float *)to = strtof(word, NULL); /* strtod would round twice */
        return code;
    case PROTOBUF_C_TYPE_DOUBLE:
        return parse_real(p, word, to);
    case PROTOBUF_C_TYPE_BOOL:
        return parse_bool(p, word, to);
    case PROTOBUF_C_TYPE_ENUM:
        return parse_enum(p, field->descriptor, word, to);
    default:
        return fail(p, "field of unknown type:", field->name);
    }
    code = parse_integer(p, word, low, high, &number);
    if (code)
        return code;
    const uint32_t narrow = (uint32_t)number;
    memcpy(to, hs__proto_element_size(field) == 4 ? (const void *)&narrow : &number, hs__proto_element_size(field));
    return HS_OK;
}

static hs_code parse_value(parser *p, const ProtobufCFieldDescriptor *field, void *to, int depth)
{
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return parse_scalar(p, field, to);
    const ProtobufCMessageDescriptor *of = field->descriptor;
    char closing = accept(p, '{') ? '}' : accept(p, '<') ? '>' : '\0';
    if (!closing)
        return fail(p, "missing '{' after", field->name);
    if (depth == MAX_DEPTH)
        return fail(p, "messages nested too deeply", "");
    ProtobufCMessage *message = p->allocator->alloc(p->allocator->allocator_data, of->sizeof_message);
    if (!message)
        return no_memory(p, of->sizeof_message);
    protobuf_c_message_init(of, message);
    *(ProtobufCMessage **)to = message; /* the caller frees it with the whole message, also after a failure */
    return parse_fields(p, message, closing, depth + 1);
}

/* Appends one element. The capacity of the array is the number of its elements, rounded up to a power of two. */
static hs_code parse_element(parser *p, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int depth)
{
    char *base = (char *)message;
    size_t *n = (size_t *)(void *)(base + field->quantifier_offset), size = hs__proto_element_size(field);
    char **items = (char **)(void *)(base + field->offset);
    if ((*n & (*n - 1)) == 0) {
        size_t capacity = *n ? *n * 2 : 1;
        char *grown = p->allocator->alloc(p->allocator->allocator_data, capacity * size);
        if (!grown)
            return no_memory(p, capacity * size);
        if (*n)
            memcpy(grown, *items, *n * size);
        p->allocator->free(p->allocator->allocator_data, *items);
        *items = grown;
    }
    char *element = *items + *n * size;
    memset(element, 0, size);
    hs_code code = parse_value(p, field, element, depth);
    /* a submessage is counted even if parsing it failed, so that it is freed; a scalar only if it was parsed */
    if (!code || (field->type == PROTOBUF_C_TYPE_MESSAGE && *(void **)(void *)element))
        ++*n;
    return code;
}

static hs_code parse_repeated(parser *p, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, int depth)
{
    if (!accept(p, '['))
        return parse_element(p, message, field, depth);
    if (accept(p, ']'))
        return HS_OK;
    do {
        hs_code code = parse_element(p, message, field, depth);
        if (code)
            return code;
    } while (accept(p, ','));
    return accept(p, ']') ? HS_OK : fail(p, "missing ']' after", field->name);
}

static hs_code parse_single(parser *p, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, bool *seen,
                            int depth)
{
    char *base = (char *)message;
    if (*seen)
        return fail(p, "field given twice:", field->name);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t *which = (uint32_t *)(void *)(base + field->quantifier_offset);
        if (*which)
            return fail(p, "another field of the same oneof was given before", field->name);
        hs_code code = parse_value(p, field, base + field->offset, depth);
        if (!code || (field->type == PROTOBUF_C_TYPE_MESSAGE && *(void **)(void *)(base + field->offset)))
            *which = field->id;
        return code;
    }
    *seen = true;
    return parse_value(p, field, base + field->offset, depth);
}

static hs_code parse_fields(parser *p, ProtobufCMessage *message, char closing, int depth)
{
    const ProtobufCMessageDescriptor *of = message->descriptor;
    bool seen[64] = {false}; /* our messages have fewer fields */
    for (;;) {
        if (closing ? accept(p, closing) : !peek(p) && p->at >= p->end)
            return HS_OK;
        char name[MAX_WORD];
        hs_code code = read_word(p, name);
        if (code)
            return code;
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(of, name);
        if (!field)
            return fail(p, "not a field of its message:", name);
        if (!accept(p, ':') && field->type != PROTOBUF_C_TYPE_MESSAGE)
            return fail(p, "missing ':' after", name);
        code = field->label == PROTOBUF_C_LABEL_REPEATED
                   ? parse_repeated(p, message, field, depth)
                   : parse_single(p, message, field, &seen[(size_t)(field - of->fields) % 64], depth);
        if (code)
            return code;
        if (!accept(p, ';'))
            accept(p, ',');
    }
}

hs_code hs__proto_parse_text(const ProtobufCMessageDescriptor *of, const char *text, size_t bytes,
                             ProtobufCAllocator *allocator, ProtobufCMessage **out, hs_error *err)
{
    parser p = {.at = text, .end = text + bytes, .line = 1, .allocator = allocator, .err = err};
    ProtobufCMessage *message = allocator->alloc(allocator->allocator_data, of->sizeof_message);
    if (!message)
        return no_memory(&p, of->sizeof_message);
    protobuf_c_message_init(of, message);
    hs__c_locale locale = hs__c_locale_begin();
    hs_code code = parse_fields(&p, message, '\0', 0);
    hs__c_locale_end(locale);
    if (code)
        protobuf_c_message_free_unpacked(message, allocator);
    else
        *out = message;
    return code;
}
