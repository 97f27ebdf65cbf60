"""Irrelevant query parameters and session ids in paths, learned from the pages of a crawl."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

# Equal texts required before a value is dropped, without any different text.
MIN_TEXTS: Final = 3
# Values required before each value is dropped: `page=1` may be the page without it, `page=2` is not.
MIN_VALUES: Final = 3
_TOKEN_PATTERN: Final = re.compile(r"(?=.*\d)(?=.*[a-z])([0-9a-f]{8,}|[0-9a-z_-]{16,})", re.IGNORECASE)


@dataclass(slots=True)
class _Observation:
    values: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    is_relevant: bool = False


class IdleParameters:
    """Learn irrelevant parts of addresses, in one thread."""

    def __init__(self) -> None:
        self._marks = dict[tuple[str, str], tuple[str, str]]()
        self._by_name = defaultdict[str, _Observation](_Observation)
        self._by_value = defaultdict[tuple[str, str], _Observation](_Observation)

    def observe(self, address: str, mark: str) -> None:
        """Compare the text's digest with pages at addresses with one different part."""
        self._marks["", address] = address, mark
        for name, value, remainder in _each_left_out(address):
            earlier = self._marks.get((name, remainder)) or self._marks.get(("", remainder))
            self._marks.setdefault((name, remainder), (address, mark))
            if earlier is None or earlier[0] == address:
                continue
            for observation in (self._by_name[name], self._by_value[name, value]):
                observation.values.add(value)
                observation.texts.add(mark)
                observation.is_relevant = observation.is_relevant or earlier[1] != mark

    def strip(self, address: str) -> str:
        """Return the address without irrelevant parameters, or the page's known address with another session id."""
        for name, value, remainder in _each_left_out(address):
            if self._is_idle(name, value):
                if not name.startswith("/"):
                    return self.strip(remainder)
                if (name, remainder) in self._marks:
                    return self._marks[name, remainder][0]
        return address

    def _is_idle(self, name: str, value: str) -> bool:
        by_name, by_value = self._by_name.get(name), self._by_value.get((name, value))
        if by_name and not by_name.is_relevant and len(by_name.values) >= MIN_VALUES:
            return len(by_name.texts) >= MIN_TEXTS
        return bool(by_value and not by_value.is_relevant and len(by_value.texts) >= MIN_TEXTS)


def _each_left_out(address: str) -> Iterator[tuple[str, str, str]]:
    """Yield name and value of each parameter, or path prefix and session id, with the address without them."""
    base, _, query = address.partition("?")
    parameters = query.split("&") if query else []
    for name in dict.fromkeys(parameter.partition("=")[0] for parameter in parameters):
        remainder = "&".join(parameter for parameter in parameters if parameter.partition("=")[0] != name)
        value = "&".join(parameter.partition("=")[2] for parameter in parameters if parameter.partition("=")[0] == name)
        yield name, value, f"{base}?{remainder}" if remainder else base
    # An invalid address passes here, too: no parsing.
    segments = ["", *base.split("/")[3:]]
    for number, segment in enumerate(segments):
        if _TOKEN_PATTERN.fullmatch(segment):
            prefix = "/".join(segments[:number]) + "/"
            yield prefix, segment, address.replace(f"{prefix}{segment}", f"{prefix}*", 1)
