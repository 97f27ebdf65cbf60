"""Irrelevant query parameters, learned from the pages of a crawl."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

# Equal texts required before a parameter is dropped, without any different text.
MIN_TEXTS: Final = 3


class IdleParameters:
    """Learn irrelevant query parameters, in one thread."""

    def __init__(self) -> None:
        self._marks = dict[tuple[str, str], str]()
        self._equal = defaultdict[str, set[str]](set)
        self._different = set[str]()

    def observe(self, address: str, mark: str) -> None:
        """Compare the text's digest with pages that differ in one parameter."""
        self._compare("", address, mark)
        for name, remainder in _each_left_out(address):
            self._compare(name, remainder, mark)

    def strip(self, address: str) -> str:
        """Return the address without irrelevant parameters."""
        for name, remainder in _each_left_out(address):
            if len(self._equal[name]) >= MIN_TEXTS and name not in self._different:
                return self.strip(remainder)
        return address

    def _compare(self, name: str, remainder: str, mark: str) -> None:
        earlier_mark = self._marks.get((name, remainder)) or (self._marks.get(("", remainder)) if name else None)
        self._marks[name, remainder] = mark
        if not name or earlier_mark is None:
            return
        if earlier_mark == mark:
            self._equal[name].add(mark)
        else:
            self._different.add(name)


def _each_left_out(address: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters with the address without the parameter."""
    base, _, query = address.partition("?")
    parameters = query.split("&") if query else []
    for name in dict.fromkeys(parameter.partition("=")[0] for parameter in parameters):
        remainder = "&".join(parameter for parameter in parameters if parameter.partition("=")[0] != name)
        yield name, f"{base}?{remainder}" if remainder else base
