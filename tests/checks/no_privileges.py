#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""no_privileges.py NM INCLUDE OBJECT...: built-in hooks have no privileges. An object of hooks/ may refer to functions that the
public headers declare, to symbols of other objects in hooks/, and to base/. So a program's hook can do the same as a built-in hook.
The exceptions are listed below (session/services.h, session/status_files.h)."""
import pathlib
import re
import subprocess
import sys


EXCEPTIONS = {
    ("checkpoint_saver.c.o", "hs__cancel_save"),
    ("checkpoint_saver.c.o", "hs__run_context_acted"),
    ("checkpoint_saver.c.o", "hs__run_context_is_due"),
    ("checkpoint_saver.c.o", "hs__run_context_is_requested"),
    ("checkpoint_saver.c.o", "hs__raw_session_grace_secs"),
    ("checkpoint_saver.c.o", "hs__raw_session_may_save"),
    ("checkpoint_saver.c.o", "hs__raw_session_poll_save"),
    ("checkpoint_saver.c.o", "hs__raw_session_save_failed"),
    ("checkpoint_saver.c.o", "hs__raw_session_saves_fail"),
    ("checkpoint_saver.c.o", "hs__raw_session_set_save_secs"),
    ("checkpoint_saver.c.o", "hs__raw_session_warn_of_unset_metric"),
    ("checkpoint_saver.c.o", "hs__raw_session_watch_save"),
    ("early_stopping.c.o", "hs__raw_session_return_to"),
    ("early_stopping.c.o", "hs__raw_session_warn_of_unset_metric"),
    ("finite_guard.c.o", "hs__raw_session_want_last_good"),
    ("finite_guard.c.o", "hs__raw_session_roll_back"),
    ("logging_tensor.c.o", "hs__raw_session_interval_has_begun"),
    ("profiler.c.o", "hs__run_context_record_spans"),
    ("profiler.c.o", "hs__run_context_write_trace"),
    ("replica_check.c.o", "hs__next_shared"),
    ("replica_check.c.o", "hs__rank_sums_compare"),
    ("replica_check.c.o", "hs__rank_sums_compute"),
    ("replica_check.c.o", "hs__rank_sums_free"),
    ("replica_check.c.o", "hs__rank_sums_init"),
    ("run_status.c.o", "hs__raw_session_set_save_secs"),
    ("run_status.c.o", "hs__write_status"),
    ("run_status.c.o", "hs__write_outcome"),
    ("run_status.c.o", "hs__record_abandonment_in"),
    ("scalar_rows.c.o", "hs__raw_session_warn_of_unset_metric"),
    ("step_counter.c.o", "hs__raw_session_interval_has_begun"),
    ("step_counter.c.o", "hs__raw_session_warn_of_stalls"),
}


def symbols(nm, flag, objects):
    """The library's symbols: a list of (object, symbol)."""
    lines = subprocess.run([nm, "-A", flag, *objects], check=True, capture_output=True, text=True).stdout.splitlines()
    pairs = [(line.split(":")[0], line.split()[-1]) for line in lines]
    return [(path, name) for path, name in pairs if name.startswith("hs_")]


def declared(include):
    text = "\n".join(path.read_text() for path in sorted(include.rglob("*.h")))
    return set(re.findall(r"\bHS_API\b[^;(]*\b(hs_[a-z0-9_]+)\s*\(", text))


def main(nm, include, objects):
    folder = {path: pathlib.Path(path).parent.name for path in objects}
    hooks = [path for path in objects if folder[path] == "hooks"]
    base = [path for path in objects if folder[path] == "base"]
    if not hooks or not base:
        sys.exit("no objects of hooks/, or none of base/")
    allowed = declared(pathlib.Path(include)) | {name for _, name in symbols(nm, "--defined-only", hooks + base)}
    used = symbols(nm, "--undefined-only", hooks)
    wrong = sorted({f"hooks/{pathlib.Path(path).name} refers to {name}" for path, name in used
                    if name not in allowed and (pathlib.Path(path).name, name) not in EXCEPTIONS})
    if wrong or not used:
        sys.exit("\n".join(wrong) or "hooks/ refers to nothing")
    print(f"{len(hooks)} objects refer to {len({name for _, name in used})} symbols that are public, or of hooks/ or base/")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
