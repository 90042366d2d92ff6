/* SPDX-License-Identifier: Apache-2.0 */
#include "base/terminal.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

atomic_int hs__stderr_line;

bool hs__is_stderr_terminal(int descriptor)
{
    struct stat of_stderr, of_descriptor;
    return isatty(STDERR_FILENO) == 1 && isatty(descriptor) == 1 && fstat(STDERR_FILENO, &of_stderr) == 0 &&
           fstat(descriptor, &of_descriptor) == 0 && of_stderr.st_rdev == of_descriptor.st_rdev;
}

int hs__terminal_columns(int descriptor)
{
    enum { USUAL_COLUMNS = 80 };
    int found = 0;
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(descriptor, TIOCGWINSZ, &size) == 0)
        found = size.ws_col;
#endif
    if (found <= 0)
        found = USUAL_COLUMNS;
    return found < HS__MOST_COLUMNS ? found : HS__MOST_COLUMNS;
}

size_t hs__blank_line(char text[HS__BLANKS], int descriptor, int shown)
{
    enum { ECHO_COLUMNS = 2 }; /* a terminal prints "^C" behind the line */
    const int width = shown ? hs__terminal_columns(descriptor) - 1 : 0;
    size_t n = 0;
    if (shown) {
        text[n++] = '\r';
        for (int i = 0; i < shown + ECHO_COLUMNS && i < width; i++)
            text[n++] = ' ';
        text[n++] = '\r';
    }
    text[n] = '\0';
    return n;
}
