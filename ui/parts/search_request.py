"""Request of the search lab: kept whole in the page's address, and as the bodies that the API takes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ui.client import Json

MODES = {"semantic": "Semantic", "hybrid": "Hybrid", "keyword": "Keyword"}
MOST = 50
"""Results of a column: three of them are 150 rows."""
UNITS = {"": "The chunk alone", "SECTION": "Its section", "PAGE": "Its page", "DOCUMENT": "Its document"}
RERANK = {"": "As the namespace says", "on": "On", "local": "By the service's own model", "off": "Off"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search and its options; `modes` in their order, `least` the minimum score, `condition` that of the filter."""

    namespace: str
    query: str
    modes: tuple[str, ...]
    weight: float
    top: int
    least: float
    metadata: Json
    condition: Json
    unit: str = ""
    tokens: int = 512
    per_document: int = 0
    half_life: float = 0.0
    recency: float = 0.2
    rerank: str = ""
    other_namespaces: tuple[str, ...] = ()
    viewer: str = ""

    @property
    def filter(self) -> Json | None:
        """Return the filter for searches and questions of an evaluation; None without one."""
        parts = {"metadata": self.metadata, "where": self.condition}
        return {name: part for name, part in parts.items() if part} or None


def build_request(wanted: Wanted, mode: str) -> tuple[str, Json]:
    body = _common(wanted, mode)
    if wanted.other_namespaces:
        body["namespaceIds"] = [body.pop("namespaceId"), *wanted.other_namespaces]
    if wanted.unit:
        body["expand"] = {"unit": wanted.unit, "maxTokens": wanted.tokens}
    if wanted.rerank == "local":
        body["rerankConfig"] = {"provider": "LOCAL"}
    elif wanted.rerank:
        body["rerank"] = wanted.rerank == "on"
    return ("/v1/search/hybrid" if "hybridConfig" in body else "/v1/search"), {**body, "explain": True}


def build_why_request(wanted: Wanted, mode: str, document: str) -> Json:
    return {**_common(wanted, mode), "documentId": document}


def _common(wanted: Wanted, mode: str) -> Json:
    body: Json = {
        "namespaceId": wanted.namespace,
        "query": wanted.query,
        "topK": wanted.top,
        "scoreThreshold": wanted.least,
    }
    if wanted.filter:
        body["filter"] = wanted.filter
    if wanted.per_document:
        body["perDocument"] = wanted.per_document
    if wanted.half_life > 0:
        body["recency"] = {"halfLifeDays": wanted.half_life, "weight": wanted.recency}
    if mode != "semantic":
        semantic = 0.0 if mode == "keyword" else round(wanted.weight, 6)
        body["hybridConfig"] = {"semanticWeight": semantic, "keywordWeight": round(1 - semantic, 6)}
    return body


def parse_object(text: str) -> Json | None:
    """Return the object of a JSON text, empty for a blank one; None if it is no object."""
    try:
        parsed = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def address_text(wanted: Json) -> str | None:
    return json.dumps(wanted, ensure_ascii=False) if wanted else None
