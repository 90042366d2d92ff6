/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_EXPORT_H
#define HOOKSESS_EXPORT_H

/* The base of all public headers. Programs need not include it. */

#include <hooksess/init.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define HS_BEGIN_DECLS extern "C" {
#define HS_END_DECLS   }
#else
#define HS_BEGIN_DECLS
#define HS_END_DECLS
#endif

#if defined(__GNUC__) || defined(__clang__)
#define HS_API                                  __attribute__((visibility("default")))
#define HS_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define HS_API
#define HS_PRINTF(format_index, first_argument)
#endif

/* Borrowed bytes. Frozen. */
typedef struct hs_bytes {
    const void *data;
    size_t size;
} hs_bytes;

/* In an option where 0 is the default: switches the option off, or removes the limit. Where 0 means no limit, so does
 * HS_NEVER. */
#define HS_NEVER (-1)

#endif
