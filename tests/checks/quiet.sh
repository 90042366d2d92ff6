#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# quiet.sh STATIC: the library ends no process and prints nothing: its objects use no such functions but for these. Its
# writes go through write_posix.c, so that no signal of a write ends the process.
set -eu
. "$(dirname "$0")/allowed.sh"
allowed="
env.c.o:fprintf          the default logger
env.c.o:stderr           the default logger
env.c.o:hs__block_write_signals  the default logger
files_posix.c.o:hs__write   files
group_tcp_detector.c.o:_exit     the end of a process whose session has agreed to it (hs_group_ops.set_abandon)
group_tcp_rendezvous.c.o:hs__write   the rendezvous file
locks_posix.c.o:hs__write   who has a lock
progress.c.o:hs__write   the progress line, to the descriptor that the program gave
write_posix.c.o:write    all of these but the logger
signals.c.o:write        the answers to Ctrl-C in a terminal, in the handler
signals.c.o:raise        a signal that was caught, to what was there before
resume_trial.c.o:raise   the end of a trial of a resume, a process that the tool has started
"
never="exit _exit _Exit quick_exit abort __assert_fail __assert raise kill err errx verr verrx warn warnx vwarn vwarnx perror psignal \
printf vprintf puts putchar putchar_unlocked putc fputc fputs fwrite fprintf vfprintf dprintf vdprintf write writev pwrite pwritev hs__write hs__block_write_signals stdout stderr syslog \
__printf_chk __vprintf_chk __fprintf_chk __vfprintf_chk __dprintf_chk __vdprintf_chk"
used=$(nm -A --undefined-only "$1" 2>/dev/null | awk -v never="$never" '
    BEGIN { split(never, list, " "); for (i in list) is[list[i]] = 1 }
    $NF in is { n = split($1, parts, ":"); print parts[n - 1] ":" $NF }' | sort -u |
    grep -v '\.pb-c\.c\.o:__assert_fail$' || true) # generated code has assertions in debug builds
check_allowed "$used"
