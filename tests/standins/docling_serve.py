"""docling-serve on loopback: `POST /v1/convert/file`, one file per request."""
# https://github.com/docling-project/docling-serve/blob/main/docs/usage.md: a form with `files` and options like
# `to_formats`; the answer has `document.md_content`, `status`, `errors` and `processing_time`; the key goes into X-Api-
# Key.

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from typing import Any

from tests.standins.faults import Fault, Handler, serving

API_KEY = "canary-docling-key"
PATH = "/v1/convert/file"


@dataclass
class Place:
    """A server: `texts` and `errors` by end of the file name, `seen` files, `faults` used once each."""

    port: int = 0
    key: str | None = API_KEY
    texts: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, bytes]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def config(self) -> dict[str, str]:
        """Return a `parserConfig` for this server."""
        return {"provider": "ENDPOINT", "url": self.url, "apiKey": API_KEY}


def running(**options: Any) -> AbstractContextManager[Place]:
    return serving(Place(**options), _Handler)


class _Handler(Handler):
    standin: Place

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        standin = self.standin
        body = self.read_body()
        fault = standin.faults.pop(0) if standin.faults else None
        if fault is not None and fault(self):
            return
        if self.path != PATH:
            self.reply(404, {"detail": "Not Found"})
        elif standin.key and self.headers.get("X-Api-Key") != standin.key:
            self.reply(401, {"detail": "SECRET VENDOR WORDS"})
        else:
            self._convert(standin, _parts(self.headers["Content-Type"], body))

    def _convert(self, standin: Place, parts: list[Message]) -> None:
        fields = {part.get_param("name", header="content-disposition"): part for part in parts}
        (file,) = [part for part in parts if part.get_filename()]
        name, data = str(file.get_filename()), file.get_payload(decode=True)
        if fields["to_formats"].get_payload() != "md" or "files" not in fields:
            standin.violations.append(f"fields {sorted(map(str, fields))}")
        if name != "check.md":
            standin.seen.append((name, bytes(data) if isinstance(data, bytes) else b""))
        text = next((text for end, text in standin.texts.items() if name.endswith(end)), "")
        error = next((error for end, error in standin.errors.items() if name.endswith(end)), "")
        problems = [{"component_type": "document_backend", "module_name": "", "error_message": error}] if error else []
        document = {"filename": name, "md_content": text, "json_content": None, "html_content": None}
        status = "failure" if error else "success"
        self.reply(200, {"document": document, "status": status, "errors": problems, "processing_time": 0.1})


def _parts(content_type: str, body: bytes) -> list[Message]:
    whole = BytesParser().parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    payload = whole.get_payload()
    return [part for part in payload if isinstance(part, Message)] if isinstance(payload, list) else []
