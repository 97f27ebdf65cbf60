"""A parser at an address of the user's, which speaks docling-serve's `POST /v1/convert/file`.

https://github.com/docling-project/docling-serve/blob/main/docs/usage.md. Connections are dialled by the fetch guard: a
private address needs RETRIEVAL_FETCH_ALLOW.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx
import msgspec

from connectors.http import sessions
from connectors.http.responses import transient_error, translate_failures, unreadable_answer
from connectors.http.retries import TRIES, WAITING, Bucket, Retries, TransientError
from connectors.parsers import detect
from connectors.parsers.document import tidy_markdown
from retrieval.errors import Fatal, Skippable
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import BlockedAddress
from retrieval.network.transport import Transport, limit_time

if TYPE_CHECKING:
    from retrieval.ports import ExternalParser
    from retrieval.settings import Settings

TITLE: Final = "The external parser"
PATH: Final = "/v1/convert/file"
SECONDS: Final = 300.0
"""Of one file or page: text recognition by a model without a graphics card takes a minute or more."""
CHECK_SECONDS: Final = 4.0
MOST_BYTES: Final = 32 * 1024 * 1024
_FIELD: Final = "parserConfig"
_FORM: Final = {"to_formats": "md", "image_export_mode": "placeholder"}
_PICTURES: Final = "<!-- image -->"
_PER_MINUTE, _AT_ONCE = 600.0, 8


class _Document(msgspec.Struct):
    md_content: str | None = None


class _Error(msgspec.Struct):
    error_message: str = ""


class _Answer(msgspec.Struct):
    status: str
    document: _Document | None = None
    errors: list[_Error] = []


def make(config: Mapping[str, Any], settings: Settings) -> ExternalParser:
    """The server at the `url` of a `parserConfig`, which is its base or ends in `/v1/convert/file`."""
    url = config["url"].rstrip("/")
    url = url if "://" in url else f"https://{url}"
    headers = {"Accept": "application/json"}
    if key := config.get("apiKey"):
        headers["X-Api-Key"] = key
    return EndpointParser(url if url.endswith(PATH) else f"{url}{PATH}", headers, settings)


class EndpointParser:
    """An `ExternalParser` over HTTP."""

    def __init__(self, url: str, headers: Mapping[str, str], settings: Settings) -> None:
        self._url = url
        self._guard = fetch_guard.make_guard(settings)
        self._bucket = Bucket(_PER_MINUTE, _AT_ONCE)
        transport = Transport(self._guard, max_bytes=MOST_BYTES)
        trust = sessions.trusted_certificates(None, "ENDPOINT")
        self._client = sessions.httpx_client(trust, seconds=SECONDS, transport=transport, headers=dict(headers))

    def read(self, data: bytes, name: str, media_type: str) -> str:
        """Return the Markdown of a file. Skippable for one that the server does not read, or a config at fault."""
        retries = Retries(TITLE, self._bucket, WAITING["document"], TRIES["document"])
        try:
            return retries.ask(lambda: self._convert(data, name, media_type, SECONDS))
        except Fatal as error:  # the other documents of the run need no external parser
            raise Skippable(str(error)) from error

    def check(self) -> None:
        """Raise Fatal or Retryable unless a short text can be converted now."""
        retries = Retries(TITLE, self._bucket, CHECK_SECONDS, 1)
        retries.ask(lambda: self._convert(b"check", "check.md", "text/markdown", CHECK_SECONDS))

    def _convert(self, data: bytes, name: str, media_type: str, seconds: float) -> str:
        field = f"{_FIELD}.url"
        sessions.require_private_without_tls(self._guard, self._url, title="parser", field=field)
        files = {"files": (name, data, media_type or "application/octet-stream")}
        try:
            with translate_failures(TITLE, seconds), limit_time(seconds):
                answer = self._client.post(self._url, data=_FORM, files=files, timeout=seconds)
        except BlockedAddress as error:
            raise Fatal(str(error), field=field) from error
        if answer.status_code != httpx.codes.OK:
            raise _refusal(answer)
        return _markdown(answer.content)


def _markdown(content: bytes) -> str:
    try:
        answer = msgspec.json.decode(content, type=_Answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise unreadable_answer(TITLE) from error
    if answer.status in {"success", "partial_success"} and answer.document is not None:
        text = (answer.document.md_content or "").replace(_PICTURES, "")
        return tidy_markdown(text).strip()
    reason = next((detect.one_line(failure.error_message) for failure in answer.errors if failure.error_message), "")
    raise Skippable(
        f"{TITLE} could not read the file ({detect.one_line(answer.status)}){f': {reason}' if reason else '.'}"
    )


def _refusal(answer: httpx.Response) -> Exception:
    """The meaning of a status; the server's own words are not shown."""
    status = answer.status_code
    if error := transient_error(TITLE, status, answer.headers):
        return error
    if status in {401, 403}:
        return Fatal(f"{TITLE} refuses the key in {_FIELD}.apiKey: check it.", field=f"{_FIELD}.apiKey")
    if status in {404, 405}:
        return Fatal(f"There is no {PATH} at the address in {_FIELD}.url: check it.", field=f"{_FIELD}.url")
    if status in {400, 413, 415, 422}:
        return Skippable(f"{TITLE} does not take the file ({status}).")
    return TransientError(f"{TITLE} answered with the unexpected status {status}: check the address in {_FIELD}.url.")
