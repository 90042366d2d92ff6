/* SPDX-License-Identifier: Apache-2.0 */
/* How a process knows that it was started for a trial, though it was not told which. */
#include "drivers/resume.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the file begins with. What a process that finds it leaves there comes behind. */
static const char magic[] = "hooksess: started for a trial of hs_verify_resume\n", lost[] = "it had no order\n";
enum { MAGIC = sizeof magic - 1, LOST = sizeof lost - 1 };

hs_code hs__resume_mark_make(const hs_env *env, const char *directory, int *descriptor, hs_error *err)
{
    char *path = hs__path_join(env, directory, "mark");
    if (!path)
        return hs__no_memory(err, strlen(directory), "a path");
    hs_code code = HS_OK;
    *descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (*descriptor < 0 || write(*descriptor, magic, MAGIC) != MAGIC) {
        code = hs_error_set_errno(err, errno, "%s: cannot write it", path);
        if (*descriptor >= 0)
            close(*descriptor);
    }
    hs__free(env, path);
    return code;
}

bool hs__resume_mark_fits(void)
{
    long limit = sysconf(_SC_OPEN_MAX);
    return limit < 0 || limit > HS__RESUME_MARK;
}

bool hs__resume_mark_is_lost(int descriptor)
{
    struct stat found;
    return fstat(descriptor, &found) == 0 && found.st_size > MAGIC;
}

static bool is_marked(void)
{
    struct stat found;
    char text[MAGIC];
    return fstat(HS__RESUME_MARK, &found) == 0 && S_ISREG(found.st_mode) &&
           pread(HS__RESUME_MARK, text, MAGIC, 0) == MAGIC && memcmp(text, magic, MAGIC) == 0;
}

hs_code hs__resume_mark_check(hs_error *err)
{
    if (!is_marked())
        return HS_OK;
    bool told = write(HS__RESUME_MARK, lost, LOST) == LOST; /* if not, the parent sees that no trial was made */
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "the environment did not reach the trial: this process was started to make one, or makes one, and "
                        "the variable " HS__RESUME_ORDER " is not set%s",
                        told ? "" : " (nor could the process that waits be told)");
}

void hs__resume_mark_keep(void)
{
    if (is_marked())
        fcntl(HS__RESUME_MARK, F_SETFD, FD_CLOEXEC);
}
