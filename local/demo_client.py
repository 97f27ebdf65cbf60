"""The few calls of the API that the demo makes: a client in sixty lines, to read and to copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from local import LocalError

_EMBEDDED = {
    "fileStorageConfig": {"type": "LOCAL"},
    "vectorStorageConfig": {"provider": "PGVECTOR"},
    "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
}
_SEARCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "semantic": ("/v1/search", {}),
    "hybrid": ("/v1/search/hybrid", {"hybridConfig": {"semanticWeight": 0.5, "keywordWeight": 0.5}}),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """One result. `page` counts from 1, None where the document has no pages."""

    score: float
    source: str
    page: int | None
    content: str


class DemoClient:
    """Talks to one API with one key. LocalError carries what the API answered."""

    def __init__(self, api: str, key: str) -> None:
        self._http = httpx.Client(base_url=api, headers={"Authorization": f"Bearer {key}"}, timeout=30, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def create_namespace(self, name: str) -> str:
        created = self._call("POST", "/v1/namespaces", json={"name": name, **_EMBEDDED})
        return str(created["namespace"]["id"])

    def ingest_text(self, namespace: str, name: str, text: str) -> str:
        config = {"source": "TEXT", "config": {"name": name, "text": text}}
        body = {"namespaceId": namespace, "ingestConfig": config}
        return str(self._call("POST", "/v1/ingest/text", json=body)["ingestJobRunId"])

    def ingest_file(self, namespace: str, file: Path, media_type: str) -> str:
        form = {"namespaceId": namespace, "source": "FILE"}
        with file.open("rb") as opened:
            parts = {"file": (file.name, opened, media_type)}
            return str(self._call("POST", "/v1/ingest/file", data=form, files=parts)["ingestJobRunId"])

    def outcome(self, namespace: str, run: str) -> str | None:
        """SUCCESS or the first document's error once the job run is COMPLETED; None while it is not."""
        answer = self._call("GET", f"/v1/ingest-job-runs/{run}", params={"namespaceId": namespace})
        if answer["status"] != "COMPLETED":
            return None
        failed = answer["documents"]["failed"]
        return str(failed[0]["error"]) if failed else "SUCCESS"

    def search(self, namespace: str, query: str, kind: str, top_k: int = 3) -> list[Hit]:
        path, options = _SEARCHES[kind]
        body = {"namespaceId": namespace, "query": query, "topK": top_k, **options}
        results = self._call("POST", path, json=body)["results"]
        return [
            Hit(
                result["score"],
                result["metadata"]["source"],
                (result.get("chunk") or {}).get("page"),
                result["content"],
            )
            for result in results
        ]

    def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise LocalError(f"{method} {path} was not answered: {error}") from error
        if answer.status_code != 200:
            raise LocalError(f"{method} {path} answered {answer.status_code}: {answer.text[:500]}")
        data: dict[str, Any] = answer.json()["data"]
        return data
