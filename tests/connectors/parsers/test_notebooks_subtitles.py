"""Notebooks are read as cells with their outputs, subtitles as sentences with a time about every minute."""

# ruff: noqa: E501 - cells and cues

from __future__ import annotations

import base64
import json
import random

import pytest

from retrieval.errors import Skippable

pytestmark = pytest.mark.service

PICTURE = base64.b64encode(random.Random(1).randbytes(2000)).decode()
FRAME = "<div><style>td {color: red}</style><table><tr><th>valve</th><th>bar</th></tr><tr><td>V1</td><td>16</td></tr></table></div>"


def code(source: str, *outputs: dict[str, object]) -> dict[str, object]:
    return {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {},
        "source": source.splitlines(True),
        "outputs": list(outputs),
    }


def mime_output(**data: object) -> dict[str, object]:
    types = {
        "plain": "text/plain",
        "page": "text/html",
        "png": "image/png",
        "widget": "application/vnd.jupyter.widget-view+json",
    }
    return {"output_type": "display_data", "metadata": {}, "data": {types[name]: value for name, value in data.items()}}


CELLS = [
    {
        "cell_type": "markdown",
        "source": ["# Pump test\n", "\n", "Pressure of *all* valves. ![curve](attachment:curve.png)\n"],
        "attachments": {"curve.png": {"image/png": PICTURE}},
    },
    code(
        "print(bars)\nbars.plot()",
        {"output_type": "stream", "name": "stdout", "text": ["\x1b[31mV1 16\x1b[0m\n", "10%\r100%\n"]},
    ),
    code("frame", mime_output(plain=["  valve  bar\n", "0 V1 16"], page=[FRAME])),
    code(
        "bars.plot()", mime_output(plain=["<Figure size 640x480>"], png=PICTURE), mime_output(widget={"model_id": "ab"})
    ),
    code(
        "1/0",
        {
            "output_type": "error",
            "ename": "ZeroDivisionError",
            "evalue": "division by zero",
            "traceback": ["\x1b[0;31m---"],
        },
    ),
    {"cell_type": "raw", "source": "Signed: Ann Doe"},
]
NOTEBOOK = {"cells": CELLS, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
OLDER = {
    "metadata": {"name": "old"}, "nbformat": 3, "nbformat_minor": 0,
    "worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": ["Pump test"]},
                              {"cell_type": "code", "input": ["print(1)"], "outputs": [{"output_type": "pyout", "text": ["V1 16"]}]}]}],
}  # fmt: skip


@pytest.mark.parametrize("name", ["test.ipynb", "test.json", "test"])
def test_a_notebook_is_read_cell_by_cell(read, name):
    parsed = read(name, json.dumps(NOTEBOOK, indent=1).encode())
    assert parsed.title == "Pump test"
    assert parsed.text.strip().split("\n\n") == [
        "# Pump test",
        "Pressure of *all* valves. curve",
        "```python\nprint(bars)\nbars.plot()\n```",
        "```\nV1 16\n100%\n```",
        "```python\nframe\n```",
        "| valve | bar |\n| --- | --- |\n| V1 | 16 |",
        "```python\nbars.plot()\n```",
        "```\n<Figure size 640x480>\n```",
        "```python\n1/0\n```",
        "```\nZeroDivisionError: division by zero\n```",
        "Signed: Ann Doe",
    ]
    assert parsed.properties["notice"] == "Not read: pictures and programs among the outputs (3)."


def test_a_notebook_of_an_older_format_is_read(read):
    assert (
        read("old.ipynb", json.dumps(OLDER).encode()).text == "## Pump test\n\n```\nprint(1)\n```\n\n```\nV1 16\n```\n"
    )


def test_a_damaged_notebook_is_refused_by_name(read):
    with pytest.raises(Skippable, match="The Jupyter notebook file is damaged"):
        read("cut.ipynb", json.dumps(NOTEBOOK).encode()[:-300])


def test_data_with_cells_is_no_notebook(read):
    text = '{"cells": [{"row": 1, "value": "V1"}]}'
    assert read("cells.json", text.encode()).text == text


WORDS = [
    "The storm began",
    "in the night.",
    "Nobody was <i>hurt</i>,",
    "the harbour master says.",
    "{\\an8}The quay is",
    "closed &amp; dry.",
]


def clock(seconds: int, comma: str, *, hours: bool = True) -> str:
    return (f"{seconds // 3600:02}:" if hours else "") + f"{seconds // 60 % 60:02}:{seconds % 60:02}{comma}500"


def srt(words: list[str] = WORDS, step: int = 20) -> str:
    return "".join(
        f"{number}\r\n{clock(number * step, ',')} --> {clock(number * step + 5, ',')}\r\n{text}\r\n\r\n"
        for number, text in enumerate(words, 1)
    )


VTT = "WEBVTT - Harbour\n\nNOTE made by a program\n\nSTYLE\n::cue { color: red }\n\n" + "".join(
    f"cue-{number}\n{clock(number * 20, '.', hours=False)} --> {clock(number * 20 + 5, '.', hours=False)} align:start\n{text}\n\n"
    for number, text in enumerate(WORDS, 1)
)
SBV = "".join(f"{clock(n * 20, '.')},{clock(n * 20 + 5, '.')}\n{text}\n\n" for n, text in enumerate(WORDS, 1))
SSA = "[Script Info]\nTitle: x\n\n[Events]\nFormat: Layer, Start, End, Style, Name\n" + "".join(
    f"Dialogue: 0,0:{n * 20 // 60:02}:{n * 20 % 60:02}.50,0:02:05.00,Default,,0,0,0,,{text}\n"
    for n, text in enumerate(WORDS, 1)
)


@pytest.mark.parametrize(
    ("name", "source"),
    [("a.srt", srt()), ("a.txt", srt()), ("noname", srt()), ("a.vtt", VTT), ("b", VTT), ("a.sbv", SBV), ("a.ass", SSA)],
)
def test_cues_are_sentences_with_a_time_each_minute(read, name, source):
    text = read(name, source.encode()).text.replace("&amp;", "&")
    assert text == (
        "[00:00:20] The storm began in the night. Nobody was hurt, the harbour master says.\n\n"
        "[00:01:40] The quay is closed & dry.\n"
    )


def test_speakers_begin_lines_and_rolling_captions_are_read_once(read):
    cues = ["<v Ann Doe>Where is it?", "<v Ben>Here,", "<v Ben>at the quay.</v>"]
    rolling = ["the tide", "the tide\nturns", "turns", "turns\nat noon"]
    source = "WEBVTT\n\n" + "".join(f"00:0{n}.000 --> 00:0{n}.900\n{text}\n\n" for n, text in enumerate(cues + rolling))
    assert read("a.vtt", source.encode()).text == (
        "[00:00:00] Ann Doe: Where is it?\nBen: Here, at the quay. the tide turns at noon\n"
    )


def test_a_text_that_mentions_a_time_is_a_text(read):
    text = "Meeting at 10:30.\n00:01:00,000 --> 00:02:00,000 is how subtitles begin.\n"
    assert read("a.txt", text.encode()).text == text
