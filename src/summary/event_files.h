/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_EVENT_FILES_H
#define HS_SUMMARY_EVENT_FILES_H

#include "base/files.h"

/* The event files of a directory, sorted by name; or a single file. */
typedef struct hs__event_files {
    const hs_env *env;
    char *directory; /* NULL: a single file */
    char **paths;
    size_t n, capacity;
} hs__event_files;

hs_code hs__event_files_open(hs__event_files *files, const hs_env *env, const char *path, hs_error *err);
void hs__event_files_free(hs__event_files *files);
/* Adds the files of the directory whose names sort after the last known one. */
hs_code hs__event_files_update(hs__event_files *files, hs_error *err);

#endif
