/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_VERSION_H
#define HOOKSESS_VERSION_H

#include <hooksess/export.h>

/* The version of these headers, for #if, and of the loaded library.
 *
 * Threads: any thread, at any time. */
#define HS_VERSION_MAJOR  0
#define HS_VERSION_MINOR  1
#define HS_VERSION_PATCH  0
#define HS_VERSION_STRING "0.1.0"

/* For comparisons: 100 for 0.1.0, 10203 for 1.2.3. */
#define HS_VERSION_NUMBER (HS_VERSION_MAJOR * 10000 + HS_VERSION_MINOR * 100 + HS_VERSION_PATCH)

/* #if HS_VERSION_AT_LEAST(0, 2, 0) */
#define HS_VERSION_AT_LEAST(major, minor, patch) (HS_VERSION_NUMBER >= (major)*10000 + (minor)*100 + (patch))

HS_BEGIN_DECLS

/* The version of the loaded library, such as "0.1.0". */
HS_API const char *hs_version(void);

/* Returns the size in bytes that the struct `type`, such as "hs_session_options", has in the loaded library, or 0 for an
 * unknown name. For bindings of other languages (docs/abi.md). */
HS_API size_t hs_struct_size(const char *type);

HS_END_DECLS

#endif
