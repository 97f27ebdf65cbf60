r"""User's own parser with docling-serve's API `POST /v1/convert/file`.

https://github.com/docling-project/docling-serve/blob/main/docs/usage.md. The fetch guard dials: a private address needs
RETRIEVAL_FETCH_ALLOW.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import httpx
import msgspec

from connectors.http import sessions
from connectors.http.responses import transient_error, translate_failures, unreadable_answer
from connectors.http.retries import MAX_RETRY_SECONDS, MAX_TRIES, Bucket, Retries, TransientError
from connectors.parsers import detect
from connectors.parsers.document import tidy_markdown
from retrieval.errors import Fatal, Skippable
from retrieval.network import fetch_guard
from retrieval.network.fetch_guard import BlockedAddress
from retrieval.network.transport import Transport, limit_time

if TYPE_CHECKING:
    from retrieval.ports import ExternalParser
    from retrieval.settings import Settings

PARSER_TITLE: Final = "The external parser"
CONVERT_PATH: Final = "/v1/convert/file"
# Limit of one file or page: OCR by a model without a graphics card takes a minute or more.
READ_TIMEOUT_SECONDS: Final = 300.0
CHECK_TIMEOUT_SECONDS: Final = 4.0
MAX_RESPONSE_BYTES: Final = 32 * 1024 * 1024
_CONFIG_FIELD: Final = "parserConfig"
_REQUEST_FORM: Final = {"to_formats": "md", "image_export_mode": "placeholder"}
_PICTURE_PLACEHOLDER: Final = "<!-- image -->"
_REQUESTS_PER_MINUTE, _BURST_REQUESTS = 600.0, 8


class _ConvertedDocument(msgspec.Struct):
    md_content: str | None = None


class _ConversionError(msgspec.Struct):
    error_message: str = ""


class _ConversionResponse(msgspec.Struct):
    status: str
    document: _ConvertedDocument | None = None
    errors: list[_ConversionError] = []


def make(config: Mapping[str, Any], settings: Settings) -> ExternalParser:
    """Make the parser at the `url` of a `parserConfig`: a base, or a URL that ends in `/v1/convert/file`."""
    url = config["url"].rstrip("/")
    url = url if "://" in url else f"https://{url}"
    headers = {"Accept": "application/json"}
    if key := config.get("apiKey"):
        headers["X-Api-Key"] = key
    return EndpointParser(url if url.endswith(CONVERT_PATH) else f"{url}{CONVERT_PATH}", headers, settings)


class EndpointParser:
    """An `ExternalParser` over HTTP."""

    def __init__(self, url: str, headers: Mapping[str, str], settings: Settings) -> None:
        self._url = url
        self._guard = fetch_guard.make_guard(settings)
        self._bucket = Bucket(_REQUESTS_PER_MINUTE, _BURST_REQUESTS)
        transport = Transport(self._guard, max_bytes=MAX_RESPONSE_BYTES)
        trust = sessions.trusted_certificates(None, "ENDPOINT")
        self._client = sessions.httpx_client(
            trust, seconds=READ_TIMEOUT_SECONDS, transport=transport, headers=dict(headers)
        )

    def read(self, data: bytes, name: str, media_type: str) -> str:
        """Return the Markdown of a file. Skippable for a file or configuration that the server refuses."""
        retries = Retries(PARSER_TITLE, self._bucket, MAX_RETRY_SECONDS["document"], MAX_TRIES["document"])
        try:
            return retries.call(lambda: self._convert_file(data, name, media_type, READ_TIMEOUT_SECONDS))
        except Fatal as error:  # the other documents of the run need no external parser
            raise Skippable(str(error)) from error

    def check(self) -> None:
        """Convert a short text now. Fatal or Retryable on failure."""
        retries = Retries(PARSER_TITLE, self._bucket, CHECK_TIMEOUT_SECONDS, 1)
        retries.call(lambda: self._convert_file(b"check", "check.md", "text/markdown", CHECK_TIMEOUT_SECONDS))

    def _convert_file(self, data: bytes, name: str, media_type: str, seconds: float) -> str:
        field = f"{_CONFIG_FIELD}.url"
        sessions.require_private_without_tls(self._guard, self._url, title="parser", field=field)
        files = {"files": (name, data, media_type or "application/octet-stream")}
        try:
            with translate_failures(PARSER_TITLE, seconds), limit_time(seconds):
                response = self._client.post(self._url, data=_REQUEST_FORM, files=files, timeout=seconds)
        except BlockedAddress as error:
            raise Fatal(str(error), field=field) from error
        if response.status_code != httpx.codes.OK:
            raise _status_error(response)
        return _parse_markdown(response.content)


def _parse_markdown(content: bytes) -> str:
    try:
        response = msgspec.json.decode(content, type=_ConversionResponse)
    except (msgspec.DecodeError, RecursionError) as error:
        raise unreadable_answer(PARSER_TITLE) from error
    if response.status in {"success", "partial_success"} and response.document is not None:
        text = (response.document.md_content or "").replace(_PICTURE_PLACEHOLDER, "")
        return tidy_markdown(text).strip()
    reason = next((detect.one_line(failure.error_message) for failure in response.errors if failure.error_message), "")
    raise Skippable(
        f"{PARSER_TITLE} could not read the file ({detect.one_line(response.status)}){f': {reason}' if reason else '.'}"
    )


def _status_error(response: httpx.Response) -> Exception:
    """Map a status to an exception, without the server's own words."""
    status = response.status_code
    if error := transient_error(PARSER_TITLE, status, response.headers):
        return error
    if status in {401, 403}:
        return Fatal(
            f"{PARSER_TITLE} refuses the key in {_CONFIG_FIELD}.apiKey: check it.", field=f"{_CONFIG_FIELD}.apiKey"
        )
    if status in {404, 405}:
        return Fatal(
            f"There is no {CONVERT_PATH} at the address in {_CONFIG_FIELD}.url: check it.", field=f"{_CONFIG_FIELD}.url"
        )
    if status in {400, 413, 415, 422}:
        return Skippable(f"{PARSER_TITLE} does not take the file ({status}).")
    return TransientError(
        f"{PARSER_TITLE} answered with the unexpected status {status}: check the address in {_CONFIG_FIELD}.url."
    )
