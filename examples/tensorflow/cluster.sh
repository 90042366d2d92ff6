#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cluster.sh LOGS TRAIN_GRAPH OPTION...: a parameter server, a chief and two workers on this machine train one graph. The graph's
# variables must be on the job ps. The chief logs to stderr, the others to files in the directory LOGS. Exits with the chief's
# status when the training ends. Ctrl-C and SIGTERM save and stop the training, as with train_graph.
set -eu
[ $# -ge 2 ] || { echo "cluster.sh LOGS TRAIN_GRAPH OPTION..." >&2; exit 2; }
logs=$1 train_graph=$2
shift 2
mkdir -p "$logs"

# The system chooses four free ports before the first process starts, because each process needs all addresses.
ports=$(python3 -c 'import socket
all = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(one.getsockname()[1] for one in all))')
read -r ps chief first second <<END
$ports
END
cluster="ps=127.0.0.1:$ps;chief=127.0.0.1:$chief;worker=127.0.0.1:$first,127.0.0.1:$second"

start() { # LOG JOB:N OPTION...
    log=$1 task=$2
    shift 2
    "$train_graph" --cluster "$cluster" --task "$task" "$@" >"$log" 2>&1 &
}
finish() { # PID: waits for it, also if signals interrupt the wait; returns its status
    while :; do
        ended=0
        wait "$1" || ended=$?
        kill -0 "$1" 2>/dev/null || return "$ended"
    done
}
end() { # SIGNAL PID...: sends the signal; ignores processes that have ended
    kill -s "$@" 2>/dev/null || true
}
stop() { # stops the chief last, so that its checkpoint includes the steps of the workers
    end TERM $workers
    for worker in $workers; do
        finish "$worker" || true
    done
    end TERM $chief_task
}
server= workers= chief_task=
trap 'end KILL $server $workers $chief_task; wait' EXIT
trap stop INT TERM

start "$logs/ps-0.log" ps:0 "$@"
server=$!
start "$logs/worker-0.log" worker:0 "$@"
workers=$!
start "$logs/worker-1.log" worker:1 "$@"
workers="$workers $!"
"$train_graph" --cluster "$cluster" --task chief:0 "$@" &
chief_task=$!

status=0
finish "$chief_task" || status=$?
[ "$status" = 0 ] || end TERM $workers
for worker in $workers; do # the workers stop at the same step; the parameter server must run until then
    finish "$worker" || true
done
workers= chief_task=
exit "$status"
