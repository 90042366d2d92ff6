# SPDX-License-Identifier: Apache-2.0
"""Errors for names that do not exist."""
from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def unknown(what: str, name: object, where: str, names: Iterable[str]) -> KeyError:
    """The error for an unknown name. It lists the names that are nearest to it."""
    near = difflib.get_close_matches(str(name), names, cutoff=0.5)
    listed = ", ".join(f"'{one}'" for one in near)
    return KeyError(f"no {what} '{name}' in '{where}'" + (f"; near names: {listed}" if near else ""))


class Named(dict[str, T]):
    """A dict whose KeyError names what is missing, where, and near names."""

    def __init__(self, what: str, where: str, items: Iterable[tuple[str, T]]) -> None:
        super().__init__(items)
        self._what, self._where = what, where

    def __missing__(self, name: str) -> T:
        raise unknown(self._what, name, self._where, self)
