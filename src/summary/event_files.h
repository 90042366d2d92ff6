/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_EVENT_FILES_H
#define HS_SUMMARY_EVENT_FILES_H

#include "base/files.h"

/* The event files of a directory, in the order of their names; or one file, named itself. */
typedef struct hs__event_files {
    const hs_env *env;
    char *directory; /* NULL: one file */
    char **paths;
    size_t n, capacity;
} hs__event_files;

hs_code hs__event_files_open(hs__event_files *files, const hs_env *env, const char *path, hs_error *err);
void hs__event_files_free(hs__event_files *files);
/* Adds what came into the directory after the last one that is known. */
hs_code hs__event_files_update(hs__event_files *files, hs_error *err);

#endif
