#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cluster.sh LOGS TRAIN_GRAPH OPTION...: a parameter server, a chief and two workers on this machine train one graph, which has
# its variables on the job ps. The chief's log is shown, the others' are files in the folder LOGS. Ends with the training, and
# with the chief's status; Ctrl-C and SIGTERM end the training as they end train_graph.
set -eu
[ $# -ge 2 ] || { echo "cluster.sh LOGS TRAIN_GRAPH OPTION..." >&2; exit 2; }
logs=$1 train_graph=$2
shift 2
mkdir -p "$logs"

# Ports that are free: the system's choice, and known to all before the first of them starts.
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
finish() { # PID: its status, whatever signals come meanwhile
    while :; do
        ended=0
        wait "$1" || ended=$?
        kill -0 "$1" 2>/dev/null || return "$ended"
    done
}
end() { # SIGNAL PID...: nothing where they are over
    kill -s "$@" 2>/dev/null || true
}
stop() { # the chief last, so that its checkpoint has every step
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
for worker in $workers; do # they stop at the same step, with the parameter server still there
    finish "$worker" || true
done
workers= chief_task=
exit "$status"
