/* SPDX-License-Identifier: Apache-2.0 */
#include "fresh.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Kinds of files, in the order of deletion. The file that names the newest checkpoint is first: if the deletion is
 * interrupted, the directory has either a whole run or none that would be resumed. */
enum kind { STATE_FILE, INDEX, PART, EVENTS, OTHER, KINDS, NOT_OURS };

/* Returns the kind of a file of a checkpoint; `part` is the name after "model.ckpt-STEP". */
static enum kind kind_of_part(const char *part)
{
    int end = strncmp(part, ".index", 6) == 0 ? 6 : strncmp(part, ".meta", 5) == 0 ? 5 : 0;
    if (!end)
        sscanf(part, ".data-%*5d-of-%*5d%n", &end);
    if (strcmp(part, ".index") == 0)
        return INDEX;
    return end && (!part[end] || strcmp(part + end, ".tmp") == 0) ? PART : NOT_OURS;
}

static enum kind kind_of(const char *name)
{
    int end = 0;
    if (strcmp(name, "checkpoint") == 0)
        return STATE_FILE;
    if (strncmp(name, "events.out.tfevents.", 20) == 0)
        return EVENTS;
    if (strcmp(name, "status.json") == 0 || strcmp(name, "outcome.json") == 0 || strcmp(name, "heartbeat.json") == 0 ||
        strcmp(name, "checkpoint.tmp") == 0 || strcmp(name, "graph.pbtxt") == 0 || strcmp(name, "graph.pbtxt.tmp") == 0)
        return OTHER;
    sscanf(name, "model.ckpt-%*[0-9]%n", &end);
    return end ? kind_of_part(name + end) : NOT_OURS;
}

/* Deletes the files of one kind. Returns their number; -1 with errno if it fails. */
static int delete_kind(DIR *directory, enum kind kind)
{
    int n = 0;
    const struct dirent *entry;
    rewinddir(directory);
    while (errno = 0, (entry = readdir(directory)))
        if (kind_of(entry->d_name) == kind) {
            if (unlinkat(dirfd(directory), entry->d_name, 0) != 0 && errno != ENOENT)
                return -1;
            n++;
        }
    return errno ? -1 : n;
}

hs_code fresh_start(const hs_env *env, const char *path, hs_error *err)
{
    int n[KINDS] = {0};
    DIR *directory = opendir(path);
    if (!directory)
        return errno == ENOENT ? HS_OK : hs_error_set_errno(err, errno, "%s", path);
    hs_code code = HS_OK;
    for (int kind = STATE_FILE; !code && kind < KINDS; kind++)
        if ((n[kind] = delete_kind(directory, (enum kind)kind)) < 0)
            code = hs_error_set_errno(err, errno, "%s: cannot delete the previous run", path);
    closedir(directory);
    if (!code && n[STATE_FILE] + n[INDEX] + n[PART] + n[EVENTS] + n[OTHER])
        hs_log(env, HS_LOG_INFO, "%s: deleted the previous run: %d checkpoints, %d event files, %d other files", path,
               n[INDEX], n[EVENTS], n[STATE_FILE] + n[OTHER]);
    return code;
}
