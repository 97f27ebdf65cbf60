"""Swagger UI: the page, what sets it up, and the files of its package, by their paths."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

_PAGE = "/docs"
_HERE = Path(__file__).resolve().parent
_OURS = {_PAGE: ("docs.html", "text/html; charset=utf-8"), "/docs/viewer.js": ("docs.js", "text/javascript")}
_BUNDLED = {"/docs/swagger-ui.css": "text/css", "/docs/swagger-ui-bundle.js": "text/javascript"}
FILES = frozenset({*_OURS, *_BUNDLED})


def file(path: str) -> tuple[bytes, str]:
    """Content and media type of one of FILES; of the page for any other path."""
    return _read(path if path in FILES else _PAGE)


@lru_cache(maxsize=len(FILES))
def _read(path: str) -> tuple[bytes, str]:
    if path in _OURS:
        name, kind = _OURS[path]
        return (_HERE / name).read_bytes(), kind
    return (_package() / path.rpartition("/")[2]).read_bytes(), _BUNDLED[path]


def _package() -> Path:
    """Where the viewer's own files are."""
    found = find_spec("openapi_ui_bundles")
    if found is None or found.origin is None:
        raise RuntimeError("openapi-ui-bundles is not installed: run `make setup`")
    return Path(found.origin).parent / "swagger_ui" / "vendor"
