# SPDX-License-Identifier: Apache-2.0
"""Reads status.json and outcome.json, which a training writes into its directory."""
from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, TypeVar

from hooksess._library import existing_directory

T = TypeVar("T")


@dataclass(frozen=True)
class Status:
    """The state of a training when it last wrote status.json."""

    step: int  # the global step; -1: it cannot be read
    last_durable_step: int  # the newest step that survives a crash; -1: none
    phase: str  # "init", "step" or "end"
    save_secs: float  # duration of a save; 0: unknown
    time: datetime
    host: str
    pid: int


@dataclass(frozen=True)
class Failure:
    """An error of a training."""

    code: str  # such as "DATA_LOSS"
    number: int
    message: str


@dataclass(frozen=True)
class HookFailures:
    """Failures of a hook that did not end the training."""

    hook: str
    failures: int
    first_step: int
    last_step: int
    muted: bool
    last: Failure | None


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    reason: str  # "failed", "closed", "stopped", "end of input" or "already done"
    interrupted: bool  # stopped before the training was complete
    signal: int  # that ended it; 0: none
    step: int
    last_saved_step: int
    hook: str  # that requested the stop, or that failed; "": none
    error: Failure | None
    cause_rank: int  # the rank whose failure ended the training; -1: none
    exit_code: int
    failures: tuple[HookFailures, ...]
    time: datetime
    host: str
    pid: int


def _open_regular(path: str, flags: int) -> int:
    """Opens a file. Does not wait for the other end of a FIFO."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise ValueError("it is not a regular file")


def _read(directory: str | os.PathLike[str], name: str, make: Callable[[dict[str, Any]], T]) -> T | None:
    """Returns what `make` makes of the fields of a file. None: there is no such file."""
    path = os.path.join(existing_directory(directory), name)
    try:
        with open(path, encoding="utf-8", opener=_open_regular) as file:
            found = json.load(file)
        if not isinstance(found, dict):
            raise ValueError("it holds no object")
        return make(found)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged: {error}") from None


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _failure(found: dict[str, Any] | None) -> Failure | None:
    return None if found is None else Failure(found["code"], found["number"], found["message"])


def _make_status(found: dict[str, Any]) -> Status:
    return Status(
        found["step"],
        found["last_durable_step"],
        found["phase"],
        found["save_secs"],
        _time(found["time"]),
        found["host"],
        found["pid"],
    )


def status(directory: str | os.PathLike[str]) -> Status | None:
    """Returns the state of the training in a directory. None: it has written none.

    Raises FileNotFoundError if there is no directory, and ValueError for a damaged file.
    """
    return _read(directory, "status.json", _make_status)


def _make_outcome(found: dict[str, Any]) -> Outcome:
    return Outcome(
        found["reason"],
        found["interrupted"],
        found["signal"],
        found["step"],
        found["last_saved_step"],
        found["hook"],
        _failure(found["error"]),
        found["cause_rank"],
        found["exit_code"],
        tuple(
            HookFailures(
                one["hook"], one["failures"], one["first_step"], one["last_step"], one["muted"], _failure(one["last"])
            )
            for one in found["failures"]
        ),
        _time(found["time"]),
        found["host"],
        found["pid"],
    )


def outcome(directory: str | os.PathLike[str]) -> Outcome | None:
    """Returns how the training in a directory ended. None: it runs, or it was killed.

    Raises FileNotFoundError if there is no directory, and ValueError for a damaged file.
    """
    return _read(directory, "outcome.json", _make_outcome)
