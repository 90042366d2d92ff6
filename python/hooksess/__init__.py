# SPDX-License-Identifier: Apache-2.0
"""Reads what a training with libhooksess writes: checkpoints, event files, status.json and outcome.json.

    import hooksess

    with hooksess.Checkpoint("run") as checkpoint:
        weights = checkpoint["weights"]
    loss = hooksess.scalars("run", "loss")
    print(loss.step, loss.value, hooksess.status("run"))

Nothing is ever written. Checkpoints and event files are read by the installed C library.
"""
from hooksess._checkpoint import Checkpoint, State, TensorInfo, latest
from hooksess._events import Damage, Event, Scalars, Value, all_scalars, events, frame, scalars
from hooksess._library import Error, NotFoundError, load, version
from hooksess._messages import Histogram
from hooksess._status import Failure, HookFailures, Outcome, Status, outcome, status

__version__ = "0.1.0"

__all__ = [
    "Checkpoint",
    "Damage",
    "Error",
    "Event",
    "Failure",
    "Histogram",
    "HookFailures",
    "NotFoundError",
    "Outcome",
    "Scalars",
    "State",
    "Status",
    "TensorInfo",
    "Value",
    "all_scalars",
    "events",
    "frame",
    "latest",
    "load",
    "outcome",
    "scalars",
    "status",
    "version",
]
