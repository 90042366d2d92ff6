/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_EXPORT_H
#define HOOKSESS_EXPORT_H

/* What every public header starts from: linkage, visibility, checked format strings.
 * Programs that link the static library need no macro: on ELF systems the attribute is harmless there. */

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

/* Bytes that somebody else owns. Frozen. */
typedef struct hs_bytes {
    const void *data;
    size_t size;
} hs_bytes;

/* Switches an option off, or removes a limit, where leaving it zero would mean the default. If 0 means no limit, so does
 * HS_NEVER. Such options are signed. */
#define HS_NEVER (-1)

#endif
