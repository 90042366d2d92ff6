/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_VERSION_H
#define HOOKSESS_VERSION_H

#include <hooksess/export.h>

/* The version of these headers. The build takes the library's version from here.
 *
 * Threads: any. */
#define HS_VERSION_MAJOR  0
#define HS_VERSION_MINOR  1
#define HS_VERSION_PATCH  0
#define HS_VERSION_STRING "0.1.0"

/* To compare: 100 for 0.1.0, 10203 for 1.2.3. */
#define HS_VERSION_NUMBER (HS_VERSION_MAJOR * 10000 + HS_VERSION_MINOR * 100 + HS_VERSION_PATCH)

/* #if HS_VERSION_AT_LEAST(0, 2, 0) */
#define HS_VERSION_AT_LEAST(major, minor, patch) (HS_VERSION_NUMBER >= (major)*10000 + (minor)*100 + (patch))

HS_BEGIN_DECLS

/* The version of the library that is loaded, for example "0.1.0". Static. */
HS_API const char *hs_version(void);

/* The size in bytes of a struct in the library that is loaded. For bindings of other languages, which declare the structs
 * themselves (docs/abi.md).
 *
 * type   the name of a struct that begins with its size, "hs_session_options" for example
 *
 * Returns 0 if the library has no such struct. */
HS_API size_t hs_struct_size(const char *type);

HS_END_DECLS

#endif
