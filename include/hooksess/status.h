/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_STATUS_H
#define HOOKSESS_STATUS_H

#include <hooksess/export.h>

#include <stdarg.h>

/* Codes and errors.
 *
 * A function that can fail returns an hs_code (or NULL, for one that makes something) and takes an hs_error * last.
 * The error is the caller's, usually on its stack, and may be NULL. It is written on failure and cleared on success. The
 * few exceptions: docs/conventions.md. What is stable from release to release: docs/abi.md.
 *
 * Threads: any. */

HS_BEGIN_DECLS

/* TensorFlow's canonical codes under the same numbers, and two ranges beyond them. An int, so that a program's own codes
 * (256 and up) pass through every callback; the library never makes one of those. */
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
    HS_OUT_OF_RANGE = 11, /* the input has ended: a clean end of training, not a failure */
    HS_UNIMPLEMENTED = 12,
    HS_INTERNAL = 13,
    HS_UNAVAILABLE = 14,
    HS_DATA_LOSS = 15, /* a damaged file */
    HS_UNAUTHENTICATED = 16,
    HS_STOP = 64, /* the loop was asked to end (a step function's stop iteration), not a failure */
    HS_USER = 256 /* the first of the program's own codes */
};

/* The size of hs_error.message. A list that does not fit (every mis-shaped tensor of a checkpoint, say) is cut with a count
 * of what is left out, and goes to the log whole. */
#define HS_MESSAGE_SIZE 1016

/* What went wrong. Frozen: this layout does not change. */
typedef struct hs_error {
    hs_code code;
    /* errno of the system call that failed, or 0; EIO if a file system's function failed without one, unless with
     * HS_INVALID_ARGUMENT or HS_UNIMPLEMENTED */
    int os_error;
    char message[HS_MESSAGE_SIZE]; /* one line, always ended by a zero byte; control characters are written as \xNN */
} hs_error;

/* Sets code and message, and returns the code, so that a failing line is one line. `err` may be NULL.
 * os_error is set to 0. Longer messages are cut. */
HS_API hs_code hs_error_set(hs_error *err, hs_code code, const char *format, ...) HS_PRINTF(3, 4);
HS_API hs_code hs_error_vset(hs_error *err, hs_code code, const char *format, va_list arguments) HS_PRINTF(3, 0);

/* Sets an error from errno: its code by hs_code_from_errno, os_error, and the system's text after the message. An os_error
 * of 0, as after a short write, which sets none, is HS_UNKNOWN. */
HS_API hs_code hs_error_set_errno(hs_error *err, int os_error, const char *format, ...) HS_PRINTF(3, 4);

/* Puts text and ": " before the message that is there; code and os_error stay. */
HS_API void hs_error_prefix(hs_error *err, const char *format, ...) HS_PRINTF(2, 3);

/* Back to HS_OK and an empty message. */
HS_API void hs_error_clear(hs_error *err);

/* "OK", "CANCELLED", ..., "STOP"; "USER" from 256 on and "UNKNOWN_CODE" for any other number. Static. */
HS_API const char *hs_code_name(hs_code code);

/* ENOENT is HS_NOT_FOUND, ENOSPC and ENOMEM HS_RESOURCE_EXHAUSTED, EACCES HS_PERMISSION_DENIED, and so on, mostly as in
 * TensorFlow; 0 is HS_OK, others are HS_UNKNOWN. No errno gives HS_ABORTED or HS_UNAVAILABLE, as these report a lost
 * session (hs_recovery): a backend that has lost its connection sets HS_UNAVAILABLE itself. */
HS_API hs_code hs_code_from_errno(int os_error);

/* Copies a struct that begins with its size into `to`, as the reader knows it. Fields that the caller's version does not
 * have are 0. For code that takes options: the library, and hooks and backends of others.
 *
 * to_size     bytes of the struct as the reader was compiled
 * first_size  bytes of the struct in its first release
 * what        the struct's type, for the message
 *
 * HS_INVALID_ARGUMENT: the size is smaller than in the first release, or 0 because HS_INIT was forgotten; or a field is set
 * that the reader does not know. */
HS_API hs_code hs_struct_take(void *to, size_t to_size, const void *from, size_t first_size, const char *what,
                              hs_error *err);
/* The same for a struct of this type, whose first release ended with the member `last`. */
#define HS_STRUCT_TAKE(type, last, to, from, err)                                                                          \
    hs_struct_take((to), sizeof(type), (from), offsetof(type, last) + sizeof(((type *)0)->last), #type, (err))

HS_END_DECLS

#endif
