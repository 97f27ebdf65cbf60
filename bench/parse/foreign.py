"""Test files of two kinds: of formats that the service refuses, and texts with encoded pictures to leave out."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

_NOISE_BYTES = 6_000
READABLE_SENTENCE = "Deliver the pump to the mill by noon."


def draw_foreign(folder: Path, seed: int) -> Iterator[Path]:
    """Write files of refused formats, each with its own ending and with `.txt`."""
    for name, data in _foreign_files(random.Random(seed)).items():
        stem, _, ending = name.rpartition(".")
        for path in (folder / name, folder / f"{stem}-{ending}.txt"):
            path.write_bytes(data)
            yield path


def _foreign_files(generator: random.Random) -> dict[str, bytes]:
    """Return files by name: a signature of the format, then random bytes or text."""
    noise = generator.randbytes(_NOISE_BYTES)
    text = f"{READABLE_SENTENCE} " * 100
    return {
        "picture.emf": b"\1\0\0\0" + noise[:36] + b" EMF" + noise,
        "picture.wmf": b"\xd7\xcd\xc6\x9a" + noise,
        "mainframe.ebc": text.encode("cp037"),
        "table.dbf": _dbase(),
        "table.parquet": b"PAR1" + noise + b"PAR1",
        "data.h5": b"\x89HDF\r\n\x1a\n" + noise,
        "program.exe": b"MZ" + noise,
        "program.elf": b"\x7fELF\2\1\1" + noise,
        "song.mp3": b"ID3\3\0\0\0\0\0\0" + noise,
        "film.mp4": b"\0\0\0\x18ftypisom" + noise,
        "archive.7z": b"7z\xbc\xaf\x27\x1c" + noise,
        "archive.rar": b"Rar!\x1a\7\0" + noise,
        "data.sqlite": b"SQLite format 3\0" + noise,
        "font.ttf": b"\0\1\0\0\0\x0c" + noise,
        "letters.bin": "ÿþýÿþý".encode("latin-1") * 500,
        "drawing.dxf": b"  0\nSECTION\n  2\nHEADER\n" * 50,
        "print.ps": b"%!PS-Adobe-3.0\n" + b"(" + text.encode() + b") show\n",
        "pages.iwork": _zip({"Index/Document.iwa": noise, "preview.jpg": noise}),
        "paper.xps": _zip({"[Content_Types].xml": b"<Types/>", "FixedDocSeq.fdseq": b"<FixedDocumentSequence/>"}),
        "program.apk": _zip({"AndroidManifest.xml": noise, "classes.dex": noise}),
        "library.jar": _zip({"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\n", "a/A.class": noise}),
    }


def draw_encoded(folder: Path, seed: int) -> Iterator[Path]:
    """Write files with the sentence `READABLE_SENTENCE` and a picture in base64."""
    base64_lines = base64.encodebytes(random.Random(seed).randbytes(_NOISE_BYTES)).decode()
    base64_line = base64_lines.replace("\n", "")
    sentence_in_base64 = base64.encodebytes(READABLE_SENTENCE.encode()).decode()
    head = "From: a@example.org\nSubject: Pump\nMIME-Version: 1.0\n"
    outputs = [{"output_type": "display_data", "metadata": {}, "data": {"image/png": base64_lines}}]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": [READABLE_SENTENCE]},
        {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": ["draw()"], "outputs": outputs},
    ]
    texts = {
        "picture.md": f"{READABLE_SENTENCE}\n\n![pump](data:image/png;base64,{base64_line})\n",
        "picture.html": f"<p>{READABLE_SENTENCE}</p><img src='data:image/png;base64,{base64_line}'>",
        "book.fb2": "<FictionBook xmlns='http://www.gribuser.ru/xml/fictionbook/2.0'><body><section>"
        f"<p>{READABLE_SENTENCE}</p></section></body><binary id='a.png'>{base64_lines}</binary></FictionBook>",
        "article.xml": f"<article><p>{READABLE_SENTENCE}</p><media>{base64_lines}</media></article>",
        "plot.ipynb": json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
        "mail.eml": f"{head}Content-Transfer-Encoding: base64\n\n{sentence_in_base64}",
        "forward.eml": f"{head}Content-Type: multipart/mixed; boundary=b\n\n--b\n\n{READABLE_SENTENCE}\n--b\n"
        f"Content-Type: image/png\nContent-Transfer-Encoding: base64\n\n{base64_lines}\n--b--\n",
        "letter.rtf": f"{{\\rtf1 {READABLE_SENTENCE}\\par{{\\pict\\pngblip {base64_lines.encode().hex()}}}}}",
        "colours.log": f"\x1b[1;31m2026-03-01 10:00:00\x1b[0m {READABLE_SENTENCE}\n",
    }
    for name, text in texts.items():
        path = folder / name
        path.write_text(text)
        yield path


def _dbase() -> bytes:
    field = b"NAME".ljust(11, b"\0") + b"C" + bytes(4) + bytes([20]) + bytes(15)
    head = struct.pack("<B3BIHH20x", 3, 126, 3, 1, 50, 32 + len(field) + 1, 21)
    return head + field + b"\r" + b"".join(b" " + f"Pump {number}".encode().ljust(20) for number in range(50)) + b"\x1a"


def _zip(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()
