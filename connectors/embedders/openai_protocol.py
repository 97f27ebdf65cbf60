"""`POST /embeddings` of OpenAI's API over plain HTTP: at OpenAI, at Jina AI, and at servers of users."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import httpx

from connectors.embedders.refusals import TextsRefused, classify_refusal, words_of_error
from connectors.embedders.vendor_embedder import SECONDS
from connectors.http.responses import translate_failures
from connectors.http.retries import TransientError
from retrieval.errors import Fatal
from retrieval.network.fetch_guard import Blocked
from retrieval.network.transport import limit_time

if TYPE_CHECKING:
    from connectors.embedders.server_limits import ServerLimits
    from retrieval.ports import TextKind

URL_FIELD: Final = "embeddingModelConfig.url"
_SHOWN: Final = 2000
"""Characters of a refusal that are read."""


class NoSuchPath(Fatal):
    """The server has nothing at this path, or no such model."""


class EmbeddingsApi:
    """One model at one server. Safe to use from several threads.

    urls: where the operation may be; the first that is not 404 is remembered. fields: of each request's body.
    """

    def __init__(
        self,
        title: str,
        client: httpx.Client,
        server: ServerLimits,
        *,
        urls: Sequence[str],
        key: str | None,
        fields: Mapping[str, Any],
    ) -> None:
        self._title, self._client, self._server = title, client, server
        self._urls, self._key, self._fields = urls, key, fields

    def ask(self, texts: Sequence[str], kind: TextKind) -> tuple[list[Any], int]:
        """One request, in base64 where the server takes that. See `vendor.Ask`."""
        encoded = self._server.learned.base64
        if encoded is not None:
            try:
                return self.send(texts, SECONDS[kind], encoded=encoded)
            except TextsRefused as refusal:
                if len(texts) > 1 or refusal.is_size:
                    raise
        # The first request of all, or another server may answer at the address by now.
        return self._choose_encoding(texts, SECONDS[kind])

    def _choose_encoding(self, texts: Sequence[str], seconds: float) -> tuple[list[Any], int]:
        """Send in base64, and without if that is refused. Refused if the server accepts neither.

        Where both are refused, the first text alone shows whether the encoding or the number of texts is at fault.
        """
        for encoded in (True, False):
            try:
                response = self.send(texts, seconds, encoded=encoded)
            except TextsRefused as error:
                if error.is_tokens:
                    raise
                refusal = error
                continue
            self._server.learn(base64=encoded)
            return response
        if len(texts) > 1:
            try:
                self._choose_encoding(texts[:1], seconds)
            except TextsRefused as alone:
                if not alone.is_size:
                    raise alone.error from alone
        raise refusal

    def send(
        self, texts: Sequence[str], seconds: float, *, encoded: bool = False, **fields: Any
    ) -> tuple[list[Any], int]:
        """The vectors of one request in order, and the tokens counted. Raises as `vendor.Ask`."""
        body = {**self._fields, **fields, "input": list(texts), **({"encoding_format": "base64"} if encoded else {})}
        path = self._server.learned.path
        urls = [url for url in self._urls if httpx.URL(url).path == path] or self._urls
        for url in urls:
            try:
                answer = self._post(url, body, seconds)
            except NoSuchPath:
                if url == urls[-1]:
                    raise
                continue
            if len(urls) > 1:
                self._server.learn(path=httpx.URL(url).path)
            break
        return self._in_order(answer), _counted(answer)

    def _post(self, url: str, body: Any, seconds: float) -> Any:
        try:
            with translate_failures(self._title, seconds), limit_time(seconds):
                answer = self._client.post(url, json=body, timeout=seconds)
        except Blocked as error:
            raise Fatal(str(error), field=URL_FIELD) from error
        if answer.status_code == 200:
            try:
                return answer.json()
            except (ValueError, RecursionError) as error:
                raise self._unreadable(None) from error
        refusal = classify_refusal(
            self._title, answer.status_code, answer.text[:_SHOWN], answer.headers, key=self._key or ""
        )
        if answer.status_code in {404, 405} and isinstance(refusal, Fatal):
            raise NoSuchPath(str(refusal), field=refusal.field)
        raise refusal

    def _in_order(self, answer: Any) -> list[Any]:
        """The vectors by their index, whatever order they came in. TransientError for what is no list of vectors."""
        try:
            entries = sorted(answer["data"], key=lambda entry: entry["index"])
            is_whole = [entry["index"] for entry in entries] == list(range(len(entries)))
            vectors = [_numbers(entry["embedding"]) for entry in entries]
        except (TypeError, KeyError, ValueError) as error:
            raise self._unreadable(answer) from error
        if not is_whole:
            raise TransientError(f"{self._title}'s answer left out some of the vectors.")
        return vectors

    def _unreadable(self, answer: Any) -> TransientError:
        # Gateways answer 200 with an error in the body.
        words = words_of_error(answer, self._key or "")
        return TransientError(f"{self._title}'s answer was no list of vectors.", vendor_words=words)


def _counted(answer: Any) -> int:
    usage = answer.get("usage")
    counted = usage.get("total_tokens") if isinstance(usage, dict) else None
    return counted if isinstance(counted, int) else 0


def _numbers(embedding: Any) -> Any:
    """Decode base64 or a list: servers that speak the protocol send either."""
    if isinstance(embedding, list):
        return embedding
    import numpy as np

    return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
