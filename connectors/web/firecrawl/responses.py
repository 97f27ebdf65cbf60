"""Firecrawl's responses, reduced to the fields that are read."""

from __future__ import annotations

from typing import Any, Final

from connectors.web.scraping_api import ScrapeResponse

_READ: Final = ("title", "description", "language", "robots", "url", "sourceURL", "canonical")
_STATES: Final = ("scraping", "completed", "failed", "cancelled")


class Tamed(ScrapeResponse):
    """Only what we read of an answer: one word that the SDK does not know would lose it everything beside that word."""

    def json(self) -> Any:
        body = super().json()
        if not isinstance(body, dict):
            return body
        if isinstance(pages := body.get("data"), list):
            known = {name: body[name] for name in ("success", "error") if name in body}
            following = body.get("next")
            status = body.get("status")
            return known | {
                "status": status if status in _STATES else "scraping",
                "next": following if isinstance(following, str) else None,
                "data": [_page(page) for page in pages if isinstance(page, dict)],
            }
        if isinstance(body.get("errors"), list):
            blocked = body.get("robotsBlocked")
            return {
                "errors": [_error(one) for one in body["errors"] if isinstance(one, dict)],
                "robotsBlocked": [one for one in blocked if isinstance(one, str)] if isinstance(blocked, list) else [],
            }
        page = body.get("data")
        return body | {"data": _page(page)} if isinstance(page, dict) and "metadata" in page else body


def _page(page: dict[str, Any]) -> dict[str, Any]:
    told = page.get("metadata")
    said = told if isinstance(told, dict) else {}
    metadata: dict[str, Any] = {name: value for name in _READ if isinstance(value := said.get(name), str)}
    if isinstance(said.get("statusCode"), int):
        metadata["statusCode"] = said["statusCode"]
    text, links = page.get("markdown"), page.get("links")
    return {
        "metadata": metadata,
        "markdown": text if isinstance(text, str) else None,
        "links": [one for one in links if isinstance(one, str)] if isinstance(links, list) else None,
    }


def _error(told: dict[str, Any]) -> dict[str, Any]:
    url, code = told.get("url"), told.get("code")
    known = {"url": url if isinstance(url, str) else "", "code": code if isinstance(code, str) else None}
    return known | {"id": "", "error": ""}
