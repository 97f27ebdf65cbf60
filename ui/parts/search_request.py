"""Request of the search lab: in the page's address, and as API body."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ui.client import Json

MODE_LABELS = {"semantic": "Semantic", "hybrid": "Hybrid", "keyword": "Keyword"}
# Three columns show up to 150 rows.
MAX_TOP_K = 50
UNIT_LABELS = {"": "The chunk only", "SECTION": "Its section", "PAGE": "Its page", "DOCUMENT": "Its document"}
RERANK_LABELS = {"": "As the namespace says", "on": "On", "local": "By the service's own model", "off": "Off"}


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Search with options; `least` is the minimum score."""

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
        """Return the API's filter; None without any."""
        parts = {"metadata": self.metadata, "where": self.condition}
        return {name: part for name, part in parts.items() if part} or None


def build_request(request: SearchRequest, mode: str) -> tuple[str, Json]:
    body = _build_common(request, mode)
    if request.other_namespaces:
        body["namespaceIds"] = [body.pop("namespaceId"), *request.other_namespaces]
    if request.unit:
        body["expand"] = {"unit": request.unit, "maxTokens": request.tokens}
    if request.rerank == "local":
        body["rerankConfig"] = {"provider": "LOCAL"}
    elif request.rerank:
        body["rerank"] = request.rerank == "on"
    return ("/v1/search/hybrid" if "hybridConfig" in body else "/v1/search"), {**body, "explain": True}


def build_why_request(request: SearchRequest, mode: str, document: str) -> Json:
    return {**_build_common(request, mode), "documentId": document}


def _build_common(request: SearchRequest, mode: str) -> Json:
    body: Json = {
        "namespaceId": request.namespace,
        "query": request.query,
        "topK": request.top,
        "scoreThreshold": request.least,
    }
    if request.filter:
        body["filter"] = request.filter
    if request.per_document:
        body["perDocument"] = request.per_document
    if request.half_life > 0:
        body["recency"] = {"halfLifeDays": request.half_life, "weight": request.recency}
    if mode != "semantic":
        semantic = 0.0 if mode == "keyword" else round(request.weight, 6)
        body["hybridConfig"] = {"semanticWeight": semantic, "keywordWeight": round(1 - semantic, 6)}
    return body


def parse_object(text: str) -> Json | None:
    """Parse a JSON object, {} for blank text; None if invalid."""
    try:
        parsed = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def address_text(value: Json) -> str | None:
    return json.dumps(value, ensure_ascii=False) if value else None
