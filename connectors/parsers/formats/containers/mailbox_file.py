"""Split mailboxes (MBOX) into mails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Final

from connectors.parsers.formats.containers import mail_decoding
from connectors.parsers.formats.containers.ledger import Part

# A line of the mailbox after a blank one, with a date or before headers; programs quote such lines of the mails.
_MAIL_START: Final = re.compile(
    rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From "
    rb"(?:(?=[^\n]{0,400}\d\d:\d\d[^\n]{0,40}\d{4})[^\n]*\n"
    rb"|[^\n]*\n(?=>?[A-Za-z][A-Za-z0-9-]*(?::|[ ][^\n]*\n)))"
)
_QUOTED_FROM: Final = re.compile(rb"^>(>*From )", re.MULTILINE)


def find_parts(path: Path) -> Iterator[Part]:
    """Return the mails in file order, named by subject."""
    data = path.read_bytes()
    starts = list(_MAIL_START.finditer(data))
    for number, match in enumerate(starts):
        end = starts[number + 1].start() if number + 1 < len(starts) else len(data)
        content = _QUOTED_FROM.sub(rb"\1", data[match.end() : end].rstrip(b"\r\n") + b"\n")
        subject = mail_decoding.header_of(BytesHeaderParser().parsebytes(content), "subject") or "message"
        name = f"{subject.replace('/', '-')[:200]}.eml"
        yield Part(name, "message/rfc822", content=lambda content=content: [content])  # type: ignore[misc]
