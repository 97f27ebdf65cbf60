"""Write a long PDF with a text layer page by page, with only the object offsets in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

TITLE = "Harbour rules"


def write(path: Path, pages: int, lines: Callable[[int], list[str]]) -> None:
    """Write a page per number from 1 with the ASCII text of `lines`."""
    places: list[int] = []
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(pages))
    with path.open("wb") as file:

        def add(content: str) -> None:
            places.append(file.tell())
            file.write(f"{len(places)} 0 obj\n{content}\nendobj\n".encode())

        file.write(b"%PDF-1.4\n")
        add("<< /Type /Catalog /Pages 2 0 R >>")
        add(f"<< /Type /Pages /Count {pages} /Kids [{kids}] >>")
        add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
        for number in range(1, pages + 1):
            add(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
                f" /Contents {len(places) + 2} 0 R >>"
            )
            text_lines = "\n".join(f"({line}) Tj T*" for line in lines(number))
            stream = f"BT /F1 10 Tf 14 TL 50 790 Td\n{text_lines}\nET"
            add(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        add(f"<< /Title ({TITLE}) >>")
        start = file.tell()
        file.write(f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n".encode())
        file.write(b"".join(b"%010d 00000 n \n" % offset for offset in places))
        size = len(places) + 1
        trailer = f"trailer\n<< /Size {size} /Root 1 0 R /Info {len(places)} 0 R >>\nstartxref\n{start}\n%%EOF\n"
        file.write(trailer.encode())
