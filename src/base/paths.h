/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_PATHS_H
#define HS_BASE_PATHS_H

#include "base/env.h"

/* Paths as text. Nothing here reads a disk. New paths are freed with hs__free; NULL: out of memory. */

/* "DIRECTORY/NAME". The slashes at the end of DIRECTORY are replaced by one. Just NAME if DIRECTORY is "" or NAME is
 * absolute. */
char *hs__path_join(const hs_env *env, const char *directory, const char *name);
/* The part before the last '/', without slashes at its end: "." if the path has no slash, "/" for "/x". */
char *hs__path_directory(const hs_env *env, const char *path);
/* The part after the last '/'. Points into `path`. */
const char *hs__path_base(const char *path);
/* True if both paths name the same file of the same directory: "a" and "./a", "d/a" and "d//a". Links are not resolved. */
bool hs__path_same(const char *path, const char *other);
/* True if `directory` is that of the file `path`: "a" is in ".", "d//a" in "d". */
bool hs__path_is_in(const char *path, const char *directory);
/* The length of `path` without the slashes at its end: "run/" and "run" are one directory. */
size_t hs__path_length_without_slashes(const char *path);

#endif
