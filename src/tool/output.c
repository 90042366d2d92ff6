/* SPDX-License-Identifier: Apache-2.0 */
/* Text output: escapes names, styles text on terminals, notices lost output. */
#include "output.h"
#include "command.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The first failure to write to standard output. */
static struct {
    bool failed;
    int cause;
} lost;

void output_begin(void)
{
    signal(SIGPIPE, SIG_IGN);
    /* Opens /dev/null for closed descriptors, in the mode in which using it fails. */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) == -1)
            return;
}

static void note_failure(void)
{
    if (!lost.failed)
        lost.cause = errno;
    lost.failed = true;
}

bool output_works(void)
{
    if (ferror(stdout))
        note_failure();
    return !lost.failed;
}

int output_end(int status)
{
    output_works();
    if (fflush(stdout) != 0)
        note_failure();
    if (fclose(stdout) != 0)
        note_failure();
    if (lost.failed)
        say("cannot write the output: %s", strerror(lost.cause));
    return lost.failed ? TROUBLE : status;
}

bool has_styles(void)
{
    static int known = -1; /* isatty sets errno, which must keep the cause of lost output */
    if (known < 0) {
        const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
        known = isatty(STDOUT_FILENO) && !(no_color && *no_color) && terminal && strcmp(terminal, "dumb") != 0;
    }
    return known;
}

int terminal_width(void)
{
    struct winsize window = {.ws_col = 0};
    const char *columns = getenv("COLUMNS");
    const long width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col
                       : columns                                                           ? strtol(columns, NULL, 10)
                                                                                           : 0;
    return width == 0 ? 80 : width < 1 ? 1 : width > INT16_MAX ? INT16_MAX : (int)width;
}

void put_style(style chosen)
{
    static const char *const codes[] = {"0", "32", "33", "31", "2"};
    if (has_styles())
        printf("\x1b[%sm", codes[chosen]);
}

void put_series_style(size_t line)
{
    static const int colors[] = {36, 35, 33, 32, 34, 31};
    if (has_styles())
        printf("\x1b[%dm", colors[line % (sizeof colors / sizeof *colors)]);
}

size_t utf8_length(const char *text)
{
    enum { LONGEST = 4 };
    size_t bytes = 0;
    while (bytes < LONGEST && text[bytes])
        bytes++;
    return bytes ? hs__utf8_length(text, bytes) : 0;
}

/* The length of the first character. 0: it must be escaped. */
static size_t plain_length(const char *s)
{
    unsigned char first = (unsigned char)s[0];
    if (first < 0x20 || first == 0x7f)
        return 0;
    if (first == 0xc2 && (unsigned char)s[1] < 0xa0)
        return 0; /* the control characters of ISO 8859 */
    return utf8_length(s);
}

/* Prints to `to`, which may be NULL. Returns the number of columns, one per character. */
static int put_escaped(FILE *to, const char *text, bool backslashes)
{
    int columns = 0;
    while (*text) {
        size_t run = 0, n;
        while ((n = plain_length(text + run)) && !(backslashes && text[run] == '\\')) {
            run += n;
            columns++;
        }
        if (to)
            fwrite(text, 1, run, to);
        text += run;
        bool is_backslash = *text == '\\';
        if (to && *text)
            fprintf(to, is_backslash ? "\\\\" : "\\x%02x", (unsigned)(unsigned char)*text);
        columns += !*text ? 0 : is_backslash ? 2 : 4;
        text += *text != '\0';
    }
    return columns;
}

void say(const char *format, ...)
{
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fflush(stdout); /* keeps the order of the two streams on a terminal */
    fputs("hooksess: ", stderr);
    put_escaped(stderr, text, false);
    fputs("\n", stderr);
}

const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

void put_name(const char *name)
{
    put_escaped(stdout, name, true);
}

void put_padded(const char *name, int width)
{
    int columns = put_escaped(stdout, name, true);
    printf("%*s", columns < width ? width - columns : 0, "");
}

int name_width(const char *name)
{
    return put_escaped(NULL, name, true);
}
