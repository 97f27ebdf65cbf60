"""Request of the search lab: in the page's address, and as API body."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ui.client import Json

MODE_LABELS = {"semantic": "Semantic", "hybrid": "Hybrid", "keyword": "Keyword"}
# Three columns show up to 150 rows.
MAX_TOP_K = 50
CONTEXT_UNIT_LABELS = {"": "The chunk only", "SECTION": "Its section", "PAGE": "Its page", "DOCUMENT": "Its document"}
RERANK_LABELS = {"": "As the namespace says", "on": "On", "local": "By the service's own model", "off": "Off"}


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Search with options; `weight`: semantic share of a hybrid search; `per_document`: results, 0 for all."""

    namespace: str
    query: str
    modes: tuple[str, ...]
    weight: float
    top_k: int
    min_score: float
    metadata: Json
    condition: Json
    context_unit: str = ""
    context_tokens: int = 512
    per_document: int = 0
    half_life: float = 0.0
    recency: float = 0.2
    rerank: str = ""
    other_namespaces: tuple[str, ...] = ()
    viewer: str = ""

    @property
    def filter(self) -> Json | None:
        """Return the API's filter; None without any."""
        fields = {"metadata": self.metadata, "where": self.condition}
        return {name: value for name, value in fields.items() if value} or None


def build_request(request: SearchRequest, mode: str) -> tuple[str, Json]:
    body = _build_common(request, mode)
    if request.other_namespaces:
        body["namespaceIds"] = [body.pop("namespaceId"), *request.other_namespaces]
    if request.context_unit:
        body["expand"] = {"unit": request.context_unit, "maxTokens": request.context_tokens}
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
        "topK": request.top_k,
        "scoreThreshold": request.min_score,
    }
    if request.filter:
        body["filter"] = request.filter
    if request.per_document:
        body["perDocument"] = request.per_document
    if request.half_life > 0:
        body["recency"] = {"halfLifeDays": request.half_life, "weight": request.recency}
    if mode != "semantic":
        weight = 0.0 if mode == "keyword" else round(request.weight, 6)
        body["hybridConfig"] = {"semanticWeight": weight, "keywordWeight": round(1 - weight, 6)}
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
