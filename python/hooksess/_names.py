# SPDX-License-Identifier: Apache-2.0
"""Errors for names that do not exist."""
from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")
MOST = 3  # names in an error


def _near(name: str, names: list[str]) -> list[str]:
    """The nearest names, and then those whose last component is near: for "los" also "curves/loss"."""
    last = {one: one.rsplit("/", 1)[-1] for one in names}
    near = difflib.get_close_matches(name, names, cutoff=0.5)
    for end in difflib.get_close_matches(name, set(last.values()), cutoff=0.5):
        near += [one for one in names if last[one] == end]
    return list(dict.fromkeys(near))[:MOST]


def unknown(what: str, name: object, where: str, names: Iterable[str]) -> KeyError:
    """The error for an unknown name. It lists the names that are nearest to it."""
    near = _near(str(name), list(names))
    listed = ", ".join(f"'{one}'" for one in near)
    return KeyError(f"no {what} '{name}' in '{where}'" + (f"; near names: {listed}" if near else ""))


class Named(dict[str, T]):
    """A dict whose KeyError names what is missing, where, and near names."""

    def __init__(self, what: str, where: str, items: Iterable[tuple[str, T]]) -> None:
        super().__init__(items)
        self._what, self._where = what, where

    def __missing__(self, name: str) -> T:
        raise unknown(self._what, name, self._where, self)
