"""Convert subtitles, lyrics and transcripts to running text with a time about every minute."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from connectors.parsers import detect
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document, strip_invisible
from connectors.parsers.messages import Task

_TIME_PATTERN: Final = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}"
_CUE_PATTERN: Final = re.compile(
    rf"^[ \t]*{_TIME_PATTERN}[ \t]*(?:-->|,)[ \t]*{_TIME_PATTERN.replace('(', '(?:').replace('(?:?:', '(?:')}[^\n]*",
    re.MULTILINE,
)
_DIALOGUE_PATTERN: Final = re.compile(
    rf"^Dialogue:[^,\n]*,{_TIME_PATTERN},(?:[^,\n]*,){{2}}([^,\n]*),(?:[^,\n]*,){{4}}([^\n]*)", re.MULTILINE
)
# MicroDVD counts frames, MPL2 tenths of a second.
_FRAME_PATTERN: Final = re.compile(r"^([{\[])(\d{1,7})[}\]][{\[]\d{0,7}[}\]]([^\n]*)", re.MULTILINE)
_FRAME_CODES: Final = re.compile(r"\{[a-zA-Z]:[^{}\n]{0,80}\}|(?:^|(?<=\|))/")
_DEFAULT_FRAME_RATE: Final = 23.976
_LYRICS_PATTERN: Final = re.compile(r"^\[(\d{1,3}):(\d\d)(?:[.:]\d{1,3})?\]([^\n]*)", re.MULTILINE)
_SYNC_PATTERN: Final = re.compile(
    r"<SYNC\s{1,20}Start\s{0,20}=\s{0,20}[\"']?(\d{1,9})[^<>]{0,200}>((?:[^<]|<(?!SYNC|/BODY))*)", re.IGNORECASE
)
_VOICE_PATTERN: Final = re.compile(r"<v(?:\.[^\s<>]{0,200})?\s{1,20}([^<>]{1,200})>")
_TAG_PATTERN: Final = re.compile(r"</?[A-Za-z][^<>]{0,200}>|<[\d:.]+>|\{\\[^{}]{0,200}\}")
_SILENT_BLOCKS: Final = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_SENTENCE_END: Final = re.compile(r"""[.!?…。！？:]["'”’»)\]]*$""")  # noqa: RUF001 - signs of East Asian sentences
_PARAGRAPH_SECONDS, _MAX_PARAGRAPH_SECONDS = 60, 120


class _Cue(NamedTuple):
    seconds: int
    speaker: str
    text: str


def read_document(kind: Kind, path: Path, task: Task) -> Document:  # noqa: ARG001 - the signature of a reader
    """Return the cues as sentences; a file without cues stays unchanged."""
    source = detect.text_of(path.read_bytes(), task.media_type)
    formats = (_read_cues, _read_dialogues, _read_frames, _read_syncs, _read_lyrics)
    cues = next((cues for read_format in formats if (cues := list(read_format(source)))), [])
    if not cues:
        return Document(source)
    return Document(strip_invisible("\n\n".join(_join_paragraphs(cues)) + "\n"))


def _read_cues(source: str) -> Iterator[_Cue]:
    starts = list(_CUE_PATTERN.finditer(source))
    for match, following in zip_longest(starts, starts[1:]):
        end = len(source) if following is None else following.start()
        lines = source[match.end() : end].strip("\n").split("\n\n")[0].split("\n")
        if (
            following is not None
            and len(lines) > 1
            and source.endswith(f"\n{lines[-1]}\n", 0, end)
            and lines[-1].isdigit()
        ):
            lines.pop()  # the number of the next cue, which no blank line separates
        for speaker, text in _split_voices("\n".join(lines)):
            yield _Cue(_parse_seconds(match), speaker, text)


def _split_voices(text: str) -> Iterator[tuple[str, str]]:
    """Yield speakers of a cue, "" for unnamed, with their words."""
    first, *parts = _VOICE_PATTERN.split(text)
    for speaker, words in (("", first), *zip(parts[::2], parts[1::2], strict=True)):
        if line := _plain_text(words):
            yield detect.one_line(speaker), line


def _read_dialogues(source: str) -> Iterator[_Cue]:
    for match in _DIALOGUE_PATTERN.finditer(source):
        if words := _plain_text(re.sub(r"\\[Nnh]", " ", match[5])):
            yield _Cue(_parse_seconds(match), detect.one_line(match[4]), words)


def _read_frames(source: str) -> Iterator[_Cue]:
    rate = _DEFAULT_FRAME_RATE
    for number, match in enumerate(_FRAME_PATTERN.finditer(source)):
        text = _FRAME_CODES.sub("", match[3])
        if number == 0 and re.fullmatch(r"\d{2,3}(?:\.\d{1,4})?", text.strip()):
            rate = float(text)
        elif words := _plain_text(text.replace("|", "\n")):
            yield _Cue(int(int(match[2]) / (10 if match[1] == "[" else rate)), "", words)


def _read_syncs(source: str) -> Iterator[_Cue]:
    """Read the cues of SAMI."""
    for match in _SYNC_PATTERN.finditer(source):
        if words := _plain_text(re.sub(r"<br\b[^<>]*>", "\n", match[2], flags=re.IGNORECASE)):
            yield _Cue(int(match[1]) // 1000, "", words)


def _read_lyrics(source: str) -> Iterator[_Cue]:
    for match in _LYRICS_PATTERN.finditer(source):
        if words := _plain_text(match[3]):
            yield _Cue(int(match[1]) * 60 + int(match[2]), "", words)


def _plain_text(text: str) -> str:
    lines = html.unescape(_TAG_PATTERN.sub("", text)).split("\n")
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))


def _parse_seconds(match: re.Match[str]) -> int:
    return int(match[1] or 0) * 3600 + int(match[2]) * 60 + int(match[3])


def _join_paragraphs(cues: list[_Cue]) -> Iterator[str]:
    """Join sentences of a minute into paragraphs with start time; a new speaker starts a line."""
    start, speaker = cues[0].seconds, ""
    words: list[str] = []
    previous: frozenset[str] = frozenset()
    for cue in cues:
        passed = cue.seconds - start
        if words and (
            passed >= _MAX_PARAGRAPH_SECONDS or (passed >= _PARAGRAPH_SECONDS and _SENTENCE_END.search(words[-1]))
        ):
            yield f"[{_format_clock(start)}] {''.join(words)}"
            start, speaker, words = cue.seconds, "", []
        # Rolling captions repeat the previous lines.
        lines = cue.text.split("\n")
        text = " ".join(line for line in lines if line not in previous)
        previous = frozenset(lines)
        if text and cue.speaker and cue.speaker != speaker:
            words += ["\n"] * bool(words) + [f"{cue.speaker}: {text}"]
            speaker = cue.speaker
        elif text:
            words += [" "] * bool(words) + [text]
    if words:
        yield f"[{_format_clock(start)}] {''.join(words)}"


def _format_clock(seconds: int) -> str:
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
