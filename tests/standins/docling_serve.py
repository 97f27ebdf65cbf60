"""docling-serve on loopback: `POST /v1/convert/file`, one file a request.

Written down from https://github.com/docling-project/docling-serve/blob/main/docs/usage.md: a form with `files` and
options such as `to_formats`; the answer holds `document.md_content`, `status`, `errors` and `processing_time`. The key
goes into X-Api-Key. `texts`: by the end of its name, what a file is read as; `seen`: the names that were sent.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from typing import Any

from tests.standins.faults import Fault, Handler, serving

KEY = "canary-docling-key"
PATH = "/v1/convert/file"


@dataclass
class Place:
    """One server. `faults`: each used once."""

    port: int = 0
    key: str | None = KEY
    texts: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, bytes]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def config(self) -> dict[str, str]:
        """A `parserConfig` for it."""
        return {"provider": "ENDPOINT", "url": self.url, "apiKey": KEY}


def running(**options: Any) -> AbstractContextManager[Place]:
    return serving(Place(**options), _Handler)


class _Handler(Handler):
    place: Place

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        place = self.place
        body = self.read_body()
        fault = place.faults.pop(0) if place.faults else None
        if fault is not None and fault(self):
            return
        if self.path != PATH:
            self.reply(404, {"detail": "Not Found"})
        elif place.key and self.headers.get("X-Api-Key") != place.key:
            self.reply(401, {"detail": "SECRET VENDOR WORDS"})
        else:
            self._convert(place, _parts(self.headers["Content-Type"], body))

    def _convert(self, place: Place, parts: list[Message]) -> None:
        fields = {part.get_param("name", header="content-disposition"): part for part in parts}
        (file,) = [part for part in parts if part.get_filename()]
        name, data = str(file.get_filename()), file.get_payload(decode=True)
        if fields["to_formats"].get_payload() != "md" or "files" not in fields:
            place.violations.append(f"fields {sorted(map(str, fields))}")
        if name != "check.md":
            place.seen.append((name, bytes(data) if isinstance(data, bytes) else b""))
        text = next((text for end, text in place.texts.items() if name.endswith(end)), "")
        error = next((error for end, error in place.errors.items() if name.endswith(end)), "")
        problems = [{"component_type": "document_backend", "module_name": "", "error_message": error}] if error else []
        document = {"filename": name, "md_content": text, "json_content": None, "html_content": None}
        status = "failure" if error else "success"
        self.reply(200, {"document": document, "status": status, "errors": problems, "processing_time": 0.1})


def _parts(content_type: str, body: bytes) -> list[Message]:
    whole = BytesParser().parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    payload = whole.get_payload()
    return [part for part in payload if isinstance(part, Message)] if isinstance(payload, list) else []
