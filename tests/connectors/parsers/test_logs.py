"""Logs are read as a terminal shows them, with repeated lines once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from retrieval.ports import Parsed

pytestmark = pytest.mark.service
Read = Callable[[str, bytes], Parsed]

COLOURED = b"2026-03-01 10:00:00 \x1b[1;32mINFO\x1b[0m pump \x1b]0;title\x07started\n"


@pytest.mark.parametrize("name", ["pump.log", "pump.log.3", "pump.txt", "pump"])
def test_codes_of_terminals_are_no_text(read: Read, name: str) -> None:
    assert read(name, COLOURED).text == "2026-03-01 10:00:00 INFO pump started\n"


def test_progress_is_its_last_state(read: Read) -> None:
    assert read("a.log", b"Load 1%\rLoad 50%\rLoad 100%\r\nDone\r\n").text == "Load 100%\nDone\n"


@pytest.mark.parametrize("name", ["a.log", "a.txt"])
def test_repeated_lines_stand_once(read: Read, name: str) -> None:
    lines = [f"2026-03-01 10:00:{second:02} WARN no pressure\n" for second in range(40)]
    text = read(name, "".join([*lines, "2026-03-01 10:01:00 INFO pressure 5 bar\n"]).encode()).text
    assert text == (
        f"{lines[0]}(39 more of this line, the last at 2026-03-01 10:00:39)\n2026-03-01 10:01:00 INFO pressure 5 bar\n"
    )


def test_plain_text_stays_verbatim(read: Read) -> None:
    verse = "Row\nRow\nRow\nRow\n10:00:00 your boat\n"
    assert read("a.txt", verse.encode()).text == verse
