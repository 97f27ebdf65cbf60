"""Paths as the router reads them: segments are told apart before they are decoded, so that a name may hold a slash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from litestar.types import HTTPScope
from litestar.utils.path import normalize_path

_NAMED = ("v1", "groups")
"""Where names are free, and an empty one is none: `//staff` is what a proxy that decodes makes of `/%2Fstaff`."""
_NOBODYS = "%"
"""A segment that no name is spelled as."""


def of(scope: HTTPScope) -> str:
    """One spelling of the path, for all that decides by it: decoded, but for `/` and `%` in names below `/v1/<area>/`.

    Slashes at the end, and several of them, are one; below `/v1/groups/` they lead nowhere.
    """
    decoded, raw = normalize_path(scope["path"]), scope["raw_path"]
    if not decoded.startswith("/v1/") or (b"%" not in raw and b"//" not in raw):
        return decoded
    sent = raw.decode("latin-1").strip("/")
    version, _, rest = sent.partition("/")
    area, _, names = rest.lstrip("/").partition("/")
    place: tuple[str, ...] = (unquote(version), unquote(area))
    if names and "/".join(place) == "/".join(decoded.split("/")[1:3]):
        found = [unquote(one) for one in names.split("/")]
    else:
        place, found = tuple(decoded.split("/")[1:3]), decoded.split("/")[3:]  # the slash before them came encoded
    empty = _NOBODYS if place == _NAMED else ""
    return normalize_path("/".join((*place, *(_spelled(one) or empty for one in found))))


def parameters(scope: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of the path that was matched, as they were meant."""
    return {name: unquote(str(value)) for name, value in scope["path_params"].items()}


def _spelled(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")
