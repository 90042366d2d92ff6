# SPDX-License-Identifier: Apache-2.0
"""Reads what a training with libhooksess writes: checkpoints, event files, status.json and outcome.json.

    import hooksess

    with hooksess.Checkpoint("run") as checkpoint:
        weights = checkpoint["weights"]
    loss = hooksess.scalars("run", "loss")
    print(loss.steps, loss.values, hooksess.status("run"))

Nothing is ever written. Checkpoints and event files are read by the installed C library.
"""
from hooksess._checkpoint import Checkpoint, State, TensorInfo, latest
from hooksess._events import Damage, Event, Scalars, Value, all_scalars, events, scalars
from hooksess._library import Error, load, version
from hooksess._status import Failure, HookFailures, Outcome, Status, outcome, status

__all__ = [
    "Checkpoint",
    "Damage",
    "Error",
    "Event",
    "Failure",
    "HookFailures",
    "Outcome",
    "Scalars",
    "State",
    "Status",
    "TensorInfo",
    "Value",
    "all_scalars",
    "events",
    "latest",
    "load",
    "outcome",
    "scalars",
    "status",
    "version",
]
