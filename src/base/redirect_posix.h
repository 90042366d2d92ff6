/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_REDIRECT_POSIX_H
#define HS_BASE_REDIRECT_POSIX_H

#include "base/env.h"

#include <limits.h>

/* Directories whose files are elsewhere in this process. A trial of a resume (resume_trial.h) redirects the program's
 * checkpoint_dir and summary_dir, so that no hook or saver writes to a real run. Threads: any. */

/* Makes the operating system's file system (hs__posix_files) use `to` instead of the directory `from` and everything in it,
 * until the process ends. Paths in `except` are not redirected. `from` may be relative; the two others are absolute. */
hs_code hs__redirect_files(const char *from, const char *to, const char *except, hs_error *err);

/* The path to use for `path`: `path` itself, or one in `buffer`. "" if that is too long. */
const char *hs__redirected(const char *path, char buffer[PATH_MAX]);

#endif
