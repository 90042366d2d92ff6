/* SPDX-License-Identifier: Apache-2.0 */
/* Codes, and errors: setting one (all through hs_error_vset), a prefix, copying one; and hs_struct_take, which copies a
 * struct of the program. */
#include "base/error.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <hooksess/version.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *hs_version(void)
{
    return HS_VERSION_STRING;
}

const char *hs_code_name(hs_code code)
{
    static const char *const names[] = {
        "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED",
    };
    if (code >= 0 && code < (int)(sizeof names / sizeof *names))
        return names[code];
    if (code == HS_STOP)
        return "STOP";
    return code >= HS_USER ? "USER" : "UNKNOWN_CODE";
}

hs_code hs_code_from_errno(int os_error)
{
    switch (os_error) {
    case 0:
        return HS_OK;
    case EINVAL:
    case ENAMETOOLONG:
    case E2BIG:
    case EDESTADDRREQ:
    case EDOM:
    case EFAULT:
    case EILSEQ:
    case ENOPROTOOPT:
    case ENOSTR:
    case ENOTSOCK:
    case ENOTTY:
    case EOVERFLOW:
    case ERANGE:
    case EPROTOTYPE:
    case ESPIPE:
        return HS_INVALID_ARGUMENT;
    case ETIMEDOUT:
    case ETIME:
        return HS_DEADLINE_EXCEEDED;
    case ENOENT: /* TensorFlow has ENODEV, ENXIO and ESRCH here: a failing disk, whose files exist */
        return HS_NOT_FOUND;
    case EEXIST:
    case EADDRNOTAVAIL:
    case EALREADY:
        return HS_ALREADY_EXISTS;
    case EPERM:
    case EACCES:
    case EROFS:
        return HS_PERMISSION_DENIED;
    case ENOTEMPTY:
    case EISDIR:
    case ENOTDIR:
    case EADDRINUSE:
    case EBADF:
    case EBUSY:
    case ECHILD:
    case EISCONN:
    case ENOTBLK:
    case ENOTCONN:
    case EPIPE:
    case ESHUTDOWN:
    case ETXTBSY:
    case EDEADLK:
        return HS_FAILED_PRECONDITION;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: /* TensorFlow has OUT_OF_RANGE, which here means the end of the input */
    case EMFILE:
    case EMLINK:
    case ENFILE:
    case ENOBUFS:
    case ENODATA:
    case ENOMEM:
    case ENOSR:
    case EUSERS:
    case EAGAIN:
    case ENOLCK:
        return HS_RESOURCE_EXHAUSTED;
    case ENOSYS:
    case ENOTSUP:
    case EAFNOSUPPORT:
    case EPFNOSUPPORT:
    case EPROTONOSUPPORT:
    case ESOCKTNOSUPPORT:
    case EXDEV:
        return HS_UNIMPLEMENTED;
    case ECANCELED:
        return HS_CANCELLED;
    default:
        return HS_UNKNOWN;
    }
}

static void format_message(char *message, const char *format, va_list arguments)
{
    char text[HS_MESSAGE_SIZE];
    int length = format ? hs__vsnprintf(text, sizeof text, format, arguments) : -1;
    hs__one_line(message, HS_MESSAGE_SIZE, length < 0 ? "" : text, length >= HS_MESSAGE_SIZE);
}

hs_code hs_error_vset(hs_error *err, hs_code code, const char *format, va_list arguments)
{
    if (err) {
        char message[HS_MESSAGE_SIZE]; /* an argument may be err->message itself */
        format_message(message, format, arguments);
        err->code = code;
        err->os_error = 0;
        memcpy(err->message, message, strlen(message) + 1);
    }
    return code;
}

hs_code hs_error_set(hs_error *err, hs_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    hs_error_vset(err, code, format, arguments);
    va_end(arguments);
    return code;
}

hs_code hs_error_set_errno(hs_error *err, int os_error, const char *format, ...)
{
    hs_code code = hs_code_from_errno(os_error);
    if (code == HS_OK)
        code = HS_UNKNOWN;
    if (err) {
        va_list arguments;
        va_start(arguments, format);
        hs_error_vset(err, code, format, arguments);
        va_end(arguments);
        size_t used = strlen(err->message);
        char text[128];
        hs__c_locale locale = hs__c_locale_begin();
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
        const char *found = strerror_r(os_error, text, sizeof text);
#else
        const char *found = strerror_r(os_error, text, sizeof text) == 0 ? text : "unknown error";
#endif
        snprintf(err->message + used, HS_MESSAGE_SIZE - used, ": %s", found);
        hs__c_locale_end(locale);
        err->os_error = os_error;
    }
    return code;
}

void hs_error_prefix(hs_error *err, const char *format, ...)
{
    if (!err)
        return;
    char before[HS_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    format_message(before, format, arguments);
    va_end(arguments);
    int os_error = err->os_error;
    hs_error_set(err, err->code, "%s: %s", before, err->message);
    err->os_error = os_error;
}

void hs_error_clear(hs_error *err)
{
    hs__clear(err);
}

hs_code hs__no_memory(hs_error *err, size_t bytes, const char *what)
{
    return bytes ? hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %s (%zu bytes)", what, bytes)
                 : hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %s", what);
}

hs_code hs__error_copy(hs_error *to, const hs_error *from)
{
    if (!from) {
        hs_error_clear(to);
        return HS_OK;
    }
    if (to && to != from) {
        to->code = from->code;
        to->os_error = from->os_error;
        memcpy(to->message, from->message, strlen(from->message) + 1);
    }
    return from->code;
}

hs_code hs__normalize_failure(hs_code code, const char *what, hs_error *err)
{
    if (err) {
        int os_error = err->os_error;
        if (err->code == HS_OK || !err->message[0])
            return hs_error_set(err, code, "%s failed with %s", what, hs_code_name(code));
        hs_error_set(err, code, "%s", err->message);
        err->os_error = os_error;
    }
    return code;
}

hs_code hs_struct_take(void *to, size_t to_size, const void *from, size_t first_size, const char *what, hs_error *err)
{
    hs_error_clear(err);
    size_t from_size;
    if (!from || !to)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is NULL", what);
    memcpy(&from_size, from, sizeof from_size);
    if (from_size < first_size)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s.size is %zu, but must be at least %zu: initialize the struct with HS_INIT(%s, ...)", what,
                            from_size, first_size, what);
    memset(to, 0, to_size);
    memcpy(to, from, from_size < to_size ? from_size : to_size);
    memcpy(to, &to_size, sizeof to_size);
    const unsigned char *bytes = from;
    for (size_t i = to_size; i < from_size; i++)
        if (bytes[i] != 0)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s sets a field that version %s of the library does not have",
                                what, HS_VERSION_STRING);
    return HS_OK;
}
