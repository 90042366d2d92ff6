/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the records of two trials step by step, and compares the lines of each step. */
#define _POSIX_C_SOURCE 200809L /* getline */
#include "record.h"

#include "memory.h"
#include "output.h"
#include "statistics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A parsed line of a record. */
typedef struct {
    int64_t step;
    char *text;                                 /* the line, into which the others point */
    const char *kind, *content, *number, *name; /* content: checksum, type and shape */
} line;

typedef struct record {
    const char *path;
    FILE *file;
    line *lines; /* of the current step */
    size_t n;
    line next; /* the first line of the next step; text NULL: end of the record */
    bool failed;
} record;

/* Reading. */

/* Terminates the word at *at and moves *at to the next word. NULL: no blank follows. */
static char *next_word(char **at)
{
    char *word = *at, *end = strchr(word, ' ');
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return word;
}

static bool parse(char *text, line *out)
{
    char *at = text, *rest, *step = next_word(&at), *kind = step ? next_word(&at) : NULL, *words[3], *number;
    out->text = text;
    for (int i = 0; i < 3; i++)
        words[i] = kind && (i == 0 || words[i - 1]) ? next_word(&at) : NULL;
    number = words[2] ? next_word(&at) : NULL;
    if (!number || !*at)
        return false;
    words[1][-1] = words[2][-1] = ' '; /* joins the three words of `content` */
    out->step = strtoll(step, &rest, 10);
    out->kind = kind;
    out->content = words[0];
    out->number = number;
    out->name = at;
    return rest > step && !*rest;
}

static bool is_listed(const char *name, const char *list)
{
    const size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (!at[length] || at[length] == ','))
            return true;
    return false;
}

/* Reads the next line that is not ignored. */
static void read_line(record *r, const char *ignore)
{
    do {
        char *text = NULL;
        size_t capacity = 0;
        free(r->next.text);
        r->next.text = NULL;
        ssize_t length = getline(&text, &capacity, r->file);
        if (length <= 0) {
            r->failed = ferror(r->file);
            if (r->failed)
                say("%s: cannot read it: %s", r->path, strerror(errno));
            free(text);
            return;
        }
        bool whole = text[length - 1] == '\n';
        text[length - whole] = '\0';
        if (!whole || !parse(text, &r->next)) {
            say("%s: damaged at '%s'", r->path, text);
            r->failed = true;
            free(text);
            r->next.text = NULL;
            return;
        }
    } while (is_listed(r->next.name, ignore));
}

static void clear_lines(record *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->lines[i].text);
    r->n = 0;
}

/* Reads the lines of the next step after `after`. No lines: the step is beyond `last`, or the record ends. */
static void next_step(record *r, int64_t after, int64_t last, const char *ignore)
{
    clear_lines(r);
    while (r->next.text && r->next.step <= after)
        read_line(r, ignore);
    for (int64_t step = r->next.step; r->next.text && r->next.step == step && step <= last; read_line(r, ignore)) {
        r->lines = must_grow(r->lines, r->n, sizeof *r->lines);
        r->lines[r->n++] = r->next;
        r->next.text = NULL;
    }
}

static bool open_record(record *r, const char *path, const char *ignore)
{
    *r = (record){.path = path, .file = fopen(path, "re")};
    if (!r->file)
        say("%s: cannot read it: %s", path, strerror(errno));
    else
        read_line(r, ignore);
    return r->file && !r->failed;
}

static void close_record(record *r)
{
    clear_lines(r);
    free(r->lines);
    free(r->next.text);
    if (r->file)
        fclose(r->file);
}

/* Comparing. */

/* Finds the line of the same variable, state or value. Usually it has the same index in both records. */
static const line *find(const record *in, const line *like, size_t guess)
{
    for (size_t i = 0; i < in->n; i++) {
        const line *at = &in->lines[(guess + i) % in->n];
        if (strcmp(at->name, like->name) == 0 && strcmp(at->kind, like->kind) == 0)
            return at;
    }
    return NULL;
}

static void note(comparison *c, const line *uninterrupted, const line *resumed)
{
    const line *either = uninterrupted ? uninterrupted : resumed;
    c->differences = must_grow(c->differences, c->n, sizeof *c->differences);
    c->differences[c->n++] =
        (record_difference){either->kind, either->name, either->content, uninterrupted ? uninterrupted->number : NULL,
                            resumed ? resumed->number : NULL};
}

static void compare_step(comparison *c)
{
    const record *a = &c->runs[0], *b = &c->runs[1];
    c->things = a->n;
    for (size_t i = 0; i < a->n; i++) {
        const line *other = find(b, &a->lines[i], i);
        if (!other || strcmp(other->content, a->lines[i].content) != 0)
            note(c, &a->lines[i], other);
    }
    for (size_t i = 0; i < b->n; i++)
        if (!find(a, &b->lines[i], i))
            note(c, NULL, &b->lines[i]);
}

static void compare(comparison *c, int64_t after, int64_t last, const char *ignore)
{
    record *a = &c->runs[0], *b = &c->runs[1];
    for (;;) {
        next_step(a, after, last, ignore);
        next_step(b, after, last, ignore);
        if (a->failed || b->failed || (!a->n && !b->n))
            return;
        int64_t x = a->n ? a->lines[0].step : INT64_MAX, y = b->n ? b->lines[0].step : INT64_MAX;
        if (x == y)
            compare_step(c);
        if (x != y || c->n) {
            c->step = x < y ? x : y;
            return;
        }
        c->same++;
    }
}

bool compare_records(comparison *c, const char *uninterrupted, const char *resumed, int64_t after, int64_t last,
                     const char *ignore)
{
    *c = (comparison){.step = -1, .runs = must_allocate(NULL, 2, sizeof *c->runs)};
    c->runs[0] = c->runs[1] = (record){.file = NULL};
    if (!open_record(&c->runs[0], uninterrupted, ignore) || !open_record(&c->runs[1], resumed, ignore))
        return false;
    compare(c, after, last, ignore);
    return !c->runs[0].failed && !c->runs[1].failed;
}

void free_comparison(comparison *c)
{
    close_record(&c->runs[0]);
    close_record(&c->runs[1]);
    free(c->runs);
    free(c->differences);
}

/* Bytes. */

static unsigned char byte_at(const char *hexadecimal, size_t i)
{
    const char pair[3] = {hexadecimal[2 * i], hexadecimal[2 * i + 1]};
    return (unsigned char)strtoul(pair, NULL, 16);
}

/* True if the 8 bytes are an address of the stack, the heap or a library in a process of Linux with 48-bit addresses. */
static bool is_address(const char *hexadecimal, size_t at)
{
    uint64_t word = 0;
    for (size_t i = 8; i-- > 0;)
        word = word << 8 | byte_at(hexadecimal, at + i);
    return word >> 40 == 0x55 || word >> 40 == 0x56 || word >> 40 == 0x7f;
}

/* The dtype in "CHECKSUM DTYPE SHAPE". */
static hs_dtype dtype_of(const char *content)
{
    enum { MOST = 64 };
    const char *blank = strchr(content, ' ');
    for (int i = 1; blank && i < MOST; i++) {
        const char *known = hs_dtype_name((hs_dtype)i);
        if (strncmp(known, blank + 1, strlen(known)) == 0 && blank[1 + strlen(known)] == ' ')
            return (hs_dtype)i;
    }
    return HS_DTYPE_NONE;
}

static double element_at(const char *hexadecimal, hs_dtype dtype, size_t i)
{
    const size_t size = hs_dtype_size(dtype);
    unsigned char bytes[sizeof(uint64_t)];
    for (size_t k = 0; k < size; k++)
        bytes[k] = byte_at(hexadecimal, i * size + k);
    const hs_tensor one = hs_tensor_of(dtype, HS_SCALAR, bytes);
    return hs_tensor_number(&one, 0);
}

bool find_first_byte(const record_difference *of, first_byte *found)
{
    const char *runs[2] = {of->uninterrupted, of->resumed};
    if (!runs[0] || !runs[1] || *runs[0] != 'x' || *runs[1] != 'x' || strlen(runs[0]) != strlen(runs[1]))
        return false;
    const hs_dtype dtype = dtype_of(of->content);
    *found = (first_byte){.n = strlen(runs[0]) / 2, .size = hs_dtype_size(dtype)};
    for (size_t i = 0; i < 2; i++)
        runs[i]++;
    while (found->at < found->n && byte_at(runs[0], found->at) == byte_at(runs[1], found->at))
        found->at++;
    const size_t word = found->at / 8 * 8;
    found->is_number =
        found->size > 1 && found->size <= sizeof(uint64_t) && found->n % found->size == 0 && !is_complex(dtype);
    found->may_be_pointer = word + 8 <= found->n && is_address(runs[0], word) && is_address(runs[1], word);
    for (size_t i = 0; i < 2 && found->at < found->n; i++) {
        found->bytes[i] = byte_at(runs[i], found->at);
        found->numbers[i] = found->is_number ? element_at(runs[i], dtype, found->at / found->size) : 0;
    }
    return found->at < found->n;
}
