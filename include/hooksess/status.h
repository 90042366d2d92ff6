/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_STATUS_H
#define HOOKSESS_STATUS_H

#include <hooksess/export.h>

#include <stdarg.h>

/* Codes and errors (docs/conventions.md, docs/errors.md). A function that can fail returns an hs_code, or a pointer that is
 * NULL on failure. Its last parameter is an hs_error of the caller, or NULL. It is set on failure and cleared on success.
 *
 *     hs_error err = {0};
 *     hs_session *session = hs_session_open(backend, NULL, &err);
 *     if (!session)
 *         fprintf(stderr, "%s: %s\n", hs_code_name(err.code), err.message);
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* TensorFlow's canonical codes with the same numbers, HS_STOP, and from HS_USER on the program's own codes, which callbacks
 * may return. */
typedef int hs_code;

enum {
    HS_OK = 0,
    HS_CANCELLED = 1,
    HS_UNKNOWN = 2,
    HS_INVALID_ARGUMENT = 3,
    HS_DEADLINE_EXCEEDED = 4,
    HS_NOT_FOUND = 5,
    HS_ALREADY_EXISTS = 6,
    HS_PERMISSION_DENIED = 7,
    HS_RESOURCE_EXHAUSTED = 8, /* out of memory, or a full disk */
    HS_FAILED_PRECONDITION = 9,
    HS_ABORTED = 10,
    HS_OUT_OF_RANGE = 11, /* the input has ended; ends a session normally */
    HS_UNIMPLEMENTED = 12,
    HS_INTERNAL = 13,
    HS_UNAVAILABLE = 14,
    HS_DATA_LOSS = 15, /* a damaged file */
    HS_UNAUTHENTICATED = 16,
    HS_STOP = 64, /* a stop was requested; ends a session normally */
    HS_USER = 256 /* the first of the program's own codes */
};

/* Bytes of hs_error.message. If a list does not fit, the message ends with the number of the other items, and the log gets
 * the whole list. */
#define HS_MESSAGE_SIZE 1016

/* A failure. Frozen. */
typedef struct hs_error {
    hs_code code;
    /* errno of the failed system call. 0: none. EIO if a file function of the program (env.h) sets none, except with
     * HS_INVALID_ARGUMENT and HS_UNIMPLEMENTED */
    int os_error;
    char message[HS_MESSAGE_SIZE]; /* one line, ended by a zero byte. Control characters are written as \xNN */
} hs_error;

/* Set code and message, with os_error 0, and return the code. Longer messages are cut. */
HS_API hs_code hs_error_set(hs_error *err, hs_code code, const char *format, ...) HS_PRINTF(3, 4);
HS_API hs_code hs_error_vset(hs_error *err, hs_code code, const char *format, va_list arguments) HS_PRINTF(3, 0);

/* Sets os_error and its code (hs_code_from_errno), or HS_UNKNOWN for 0; appends the system's text; returns the code. */
HS_API hs_code hs_error_set_errno(hs_error *err, int os_error, const char *format, ...) HS_PRINTF(3, 4);

/* Inserts text and ": " before the message. */
HS_API void hs_error_prefix(hs_error *err, const char *format, ...) HS_PRINTF(2, 3);

/* Sets the error to HS_OK with an empty message. */
HS_API void hs_error_clear(hs_error *err);

/* Returns "OK", "CANCELLED", ..., "STOP". From HS_USER on: "USER"; other numbers: "UNKNOWN_CODE". */
HS_API const char *hs_code_name(hs_code code);

/* Returns the code of an errno: ENOSPC and ENOMEM are HS_RESOURCE_EXHAUSTED, only ENOENT is HS_NOT_FOUND, many are
 * HS_UNKNOWN. None is HS_ABORTED or HS_UNAVAILABLE: a backend that loses its connection sets HS_UNAVAILABLE itself. */
HS_API hs_code hs_code_from_errno(int os_error);

/* Copies options, or another struct that begins with its size. Fields that the caller's version lacks become 0. For authors
 * of hooks and backends.
 *
 * to_size     sizeof the struct in the reader
 * first_size  size of the struct in its first release
 * what        the struct's type, for the message
 *
 * HS_INVALID_ARGUMENT: `from` is NULL, its size is below first_size (HS_INIT was forgotten), or it sets a field that the
 * reader does not know. In the last case the known fields are copied; in the others `to` is unchanged. */
HS_API hs_code hs_struct_take(void *to, size_t to_size, const void *from, size_t first_size, const char *what,
                              hs_error *err);
/* The same for a struct `type` whose first release ended with the member `last`. */
#define HS_STRUCT_TAKE(type, last, to, from, err)                                                                          \
    hs_struct_take((to), sizeof(type), (from), offsetof(type, last) + sizeof(((type *)0)->last), #type, (err))

HS_END_DECLS

#endif
