"""Sends calls, again where `requests` says so, and reads answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, BinaryIO

import httpx

from retrieval_client.requests import Call, Retries

Upload = tuple[str, bytes | BinaryIO, str]
"""A file's name, its content and its media type."""


class Transport:
    """One connection pool to one service, with one key. RetrievalError carries what it refused."""

    def __init__(self, http: httpx.Client, retries: Retries) -> None:
        self._http = http
        self._retries = retries

    def json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        form: Mapping[str, Any] | None = None,
        file: Upload | None = None,
        repeatable: bool,
        keyed: bool = False,
        idempotency_key: str | None = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """The answer's JSON object."""
        options: dict[str, Any] = {}
        if body is not None:
            options["json"] = dict(body)
        if form is not None:
            options["data"] = {name: value for name, value in form.items() if value is not None}
        if file is not None:
            options["files"] = {"file": file}
        call = Call(
            method,
            path,
            self._retries,
            repeatable=repeatable,
            keyed=keyed,
            key=idempotency_key,
            query=dict(query or {}),
            options=options,
            seconds=seconds,
        )
        answer = (self._send(call)).json()
        return answer if isinstance(answer, dict) else {"data": answer}

    def content(self, method: str, path: str, *, query: Mapping[str, Any] | None = None) -> bytes:
        """The answer's bytes, where it is no JSON."""
        call = Call(method, path, self._retries, repeatable=True, query=dict(query or {}))
        return (self._send(call)).content

    def _send(self, call: Call) -> httpx.Response:
        while True:
            try:
                response = self._http.send(call.request(self._http))
            except httpx.TransportError as error:
                wait = call.wait_after_error(error)
                if wait is None:
                    raise call.unanswered(error) from error
            else:
                if response.is_success:
                    return response
                wait = call.wait_after_answer(response)
                if wait is None:
                    raise call.refused(response)
            time.sleep(wait)
