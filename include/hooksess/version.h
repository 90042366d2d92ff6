/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_VERSION_H
#define HOOKSESS_VERSION_H

#include <hooksess/export.h>

/* The version of these headers. The build takes the library's version from here. */
#define HS_VERSION_MAJOR  0
#define HS_VERSION_MINOR  1
#define HS_VERSION_PATCH  0
#define HS_VERSION_STRING "0.1.0"

HS_BEGIN_DECLS

/* The version of the library that is loaded, for example "0.1.0". Static; any thread. */
HS_API const char *hs_version(void);

HS_END_DECLS

#endif
