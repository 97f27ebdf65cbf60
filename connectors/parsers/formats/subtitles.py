"""Subtitles and transcripts (SRT, WebVTT, SBV, SSA) as running text with a time about every minute."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from connectors.parsers import detect
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.messages import Task

_TIME: Final = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}"
_CUE: Final = re.compile(
    rf"^[ \t]*{_TIME}[ \t]*(?:-->|,)[ \t]*{_TIME.replace('(', '(?:').replace('(?:?:', '(?:')}[^\n]*", re.MULTILINE
)
_DIALOGUE: Final = re.compile(
    rf"^Dialogue:[^,\n]*,{_TIME},(?:[^,\n]*,){{2}}([^,\n]*),(?:[^,\n]*,){{4}}([^\n]*)", re.MULTILINE
)
_VOICE: Final = re.compile(r"<v(?:\.[^\s<>]{0,200})?\s{1,20}([^<>]{1,200})>")
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]{0,200}>|<[\d:.]+>|\{\\[^{}]{0,200}\}")
_SILENT_BLOCKS: Final = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_SENTENCE_END: Final = re.compile(r"""[.!?…。！？:]["'”’»)\]]*$""")  # noqa: RUF001 - signs of East Asian sentences
_PARAGRAPH_SECONDS, _LONGEST_SECONDS = 60, 120


class _Cue(NamedTuple):
    seconds: int
    speaker: str
    text: str


def read_document(kind: Kind, path: Path, task: Task) -> Document:  # noqa: ARG001 - the signature of a reader
    """The cues as sentences. A file without a cue is kept as it is."""
    source = detect.text_of(path.read_bytes(), task.media_type)
    cues = list(_dialogues(source) if "\nDialogue:" in source else _cues(source))
    if not cues:
        return Document(source)
    return Document(strip_invisible("\n\n".join(_paragraphs(cues)) + "\n"))


def _cues(source: str) -> Iterator[_Cue]:
    starts = list(_CUE.finditer(source))
    for match, following in zip(starts, [*starts[1:], None], strict=True):
        end = len(source) if following is None else following.start()
        lines = source[match.end() : end].strip("\n").split("\n\n")[0].split("\n")
        if (
            following is not None
            and len(lines) > 1
            and source.endswith(f"\n{lines[-1]}\n", 0, end)
            and lines[-1].isdigit()
        ):
            lines.pop()  # the number of the next cue, which no blank line separates
        for speaker, text in _voices("\n".join(lines)):
            yield _Cue(_seconds(match), speaker, text)


def _voices(text: str) -> Iterator[tuple[str, str]]:
    """The speakers of a cue, "" where it names none, and their words."""
    first, *parts = _VOICE.split(text)
    for speaker, words in (("", first), *zip(parts[::2], parts[1::2], strict=True)):
        if line := _plain(words):
            yield detect.one_line(speaker), line


def _dialogues(source: str) -> Iterator[_Cue]:
    for match in _DIALOGUE.finditer(source):
        if words := _plain(re.sub(r"\\[Nnh]", " ", match[5])):
            yield _Cue(_seconds(match), detect.one_line(match[4]), words)


def _plain(text: str) -> str:
    lines = html.unescape(_TAG.sub("", text)).split("\n")
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))


def _seconds(match: re.Match[str]) -> int:
    return int(match[1] or 0) * 3600 + int(match[2]) * 60 + int(match[3])


def _paragraphs(cues: list[_Cue]) -> Iterator[str]:
    """Sentences of a minute, each paragraph with the time of its first words; a new speaker begins a line."""
    start, speaker = cues[0].seconds, ""
    words: list[str] = []
    previous: frozenset[str] = frozenset()
    for cue in cues:
        passed = cue.seconds - start
        if words and (passed >= _LONGEST_SECONDS or (passed >= _PARAGRAPH_SECONDS and _SENTENCE_END.search(words[-1]))):
            yield f"[{_clock(start)}] {''.join(words)}"
            start, speaker, words = cue.seconds, "", []
        # Captions that roll repeat the lines before.
        lines = cue.text.split("\n")
        text = " ".join(line for line in lines if line not in previous)
        previous = frozenset(lines)
        if text and cue.speaker and cue.speaker != speaker:
            words += ["\n"] * bool(words) + [f"{cue.speaker}: {text}"]
            speaker = cue.speaker
        elif text:
            words += [" "] * bool(words) + [text]
    if words:
        yield f"[{_clock(start)}] {''.join(words)}"


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
