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
    """A search and its options; `modes` in their order, `least` the minimum score, `others` further namespaces."""

    namespace: str
    query: str
    modes: tuple[str, ...]
    weight: float
    top: int
    least: float
    metadata: Json
    where: Json
    unit: str = ""
    tokens: int = 512
    per_document: int = 0
    half_life: float = 0.0
    recency: float = 0.2
    rerank: str = ""
    others: tuple[str, ...] = ()
    viewer: str = ""

    @property
    def filter(self) -> Json | None:
        """Return the filter for searches and questions of an evaluation; None without one."""
        parts = {"metadata": self.metadata, "where": self.where}
        return {name: part for name, part in parts.items() if part} or None


def build_request(wanted: Wanted, mode: str) -> tuple[str, Json]:
    """Path and body of one mode's search, explained."""
    body = _common(wanted, mode)
    if wanted.others:
        body["namespaceIds"] = [body.pop("namespaceId"), *wanted.others]
    if wanted.unit:
        body["expand"] = {"unit": wanted.unit, "maxTokens": wanted.tokens}
    body |= _reranking(wanted)
    return ("/v1/search/hybrid" if "hybridConfig" in body else "/v1/search"), {**body, "explain": True}


def build_why_request(wanted: Wanted, mode: str, document: str) -> Json:
    """Return the request body that explains why a mode shows, or omits, a document of the page's namespace."""
    return {**_common(wanted, mode), "documentId": document}


def as_setting(wanted: Wanted, mode: str) -> Json:
    """Return the request as a setting of an evaluation's run."""
    semantic = _weight(wanted, mode)
    body: Json = {"name": MODES[mode], "semanticWeight": semantic, "keywordWeight": round(1 - semantic, 6)}
    return body | _shape(wanted) | _reranking(wanted)


def _reranking(wanted: Wanted) -> Json:
    if wanted.rerank == "local":
        return {"rerankConfig": {"provider": "LOCAL"}}
    return {"rerank": wanted.rerank == "on"} if wanted.rerank else {}


def _common(wanted: Wanted, mode: str) -> Json:
    body: Json = {
        "namespaceId": wanted.namespace,
        "query": wanted.query,
        "topK": wanted.top,
        "scoreThreshold": wanted.least,
        **({"filter": wanted.filter} if wanted.filter else {}),
        **_shape(wanted),
    }
    if mode != "semantic":
        semantic = _weight(wanted, mode)
        body["hybridConfig"] = {"semanticWeight": semantic, "keywordWeight": round(1 - semantic, 6)}
    return body


def _weight(wanted: Wanted, mode: str) -> float:
    return {"semantic": 1.0, "keyword": 0.0}.get(mode, round(wanted.weight, 6))


def _shape(wanted: Wanted) -> Json:
    shape: Json = {"perDocument": wanted.per_document} if wanted.per_document else {}
    if wanted.half_life > 0:
        shape["recency"] = {"halfLifeDays": wanted.half_life, "weight": wanted.recency}
    return shape


def address_text(wanted: Json) -> str | None:
    """An object for the page's address; None for an empty one."""
    return json.dumps(wanted, ensure_ascii=False) if wanted else None
