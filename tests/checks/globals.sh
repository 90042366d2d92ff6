#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# globals.sh STATIC: the library has no variables of static storage that can change, but for these.
set -eu
. "$(dirname "$0")/allowed.sh"
allowed="
forks.c.o:hs__forks         the number of forks
forks.c.o:once
locks_posix.c.o:holds             the locks of the process, as the kernel's locks are the process's
locks_posix.c.o:mutex
locks_posix.c.o:once
terminal.c.o:hs__stderr_line  the line without a newline on stderr, which is the process's
redirect_posix.c.o:newest         where files are in a trial of a resume, a process that the tool has started
session.c.o:n_open         how many sessions are open, for a warning when the program ends
session.c.o:opened_in
signals.c.o:installed          the sessions that handle signals, and what was installed before them
signals.c.o:listeners
signals.c.o:lock
signals.c.o:n_listeners
signals.c.o:n_running
signals.c.o:owner_pid
signals.c.o:previous
signals.c.o:replaced_by
make.c.o:memory           what the hooks that a thread makes get their memory from
raw_session.c.o:opened            how many sessions were opened
writer.c.o:shared          the event files that are shared
writer.c.o:shared_lock
histogram_buckets.c.o:made        a table of constants, which is computed
histogram_buckets.c.o:tables
"
used=$(objdump -t "$1" | awk '
    /file format/ { object = $1; sub(/:$/, "", object) }
    /^[0-9a-f]+ ....... (\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ {
        if ($0 ~ /\.data\.rel\.ro|DW\.ref\./ || $(NF - 1) ~ /^0*$/ || object ~ /\.pb-c\.c\.o$/)
            next
        name = $NF
        sub(/\.[0-9]+$/, "", name)
        sub(/^.*\./, "", name) # clang: FUNCTION.NAME
        print object ":" name
    }' | sort -u)
check_allowed "$used"
