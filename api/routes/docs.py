"""The OpenAPI description, and Swagger UI with it; nothing comes from a foreign host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from litestar import MediaType, Request, Response, Router, get
from litestar.datastructures import ResponseHeader
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, SwaggerRenderPlugin
from litestar.static_files import create_static_files_router
from openapi_ui_bundles import swagger_ui

from api import openapi
from retrieval.namespaces import validation

_ASSETS = Path(__file__).resolve().parent.parent / "assets"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}


class Description(JsonRenderPlugin):
    """The description as JSON, made on first request and kept."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        state = request.app.state
        if "openapi" not in state:
            models = validation.models(state.services.settings)
            state.openapi = msgspec.json.encode(openapi.describe(request.app, models))
        return bytes(state.openapi)


class SwaggerUI(SwaggerRenderPlugin):
    """Swagger UI with a search field; its page loads the description from `/openapi.json`."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        return (_ASSETS / "docs.html").read_bytes()


_description, _viewer = Description(media_type=MediaType.JSON), SwaggerUI(path="/")


@get("/openapi.json", include_in_schema=False, sync_to_thread=False)
def read_description(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(_description.render(request, {}), media_type=MediaType.JSON)


@get("/", include_in_schema=False, sync_to_thread=False)
def show_viewer(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(_viewer.render(request, {}), media_type=MediaType.HTML, headers=_HEADERS)


HANDLERS = (read_description, show_viewer)


def openapi_config() -> OpenAPIConfig:
    """The description as it is served: below `/docs`, with the files of the viewer."""
    files = create_static_files_router("/assets", [_ASSETS, swagger_ui.static_path], include_in_schema=False)
    headers = [ResponseHeader(name=name, value=value) for name, value in _HEADERS.items()]
    router = Router("/docs", route_handlers=[files], response_headers=headers, include_in_schema=False)
    return openapi.openapi_config(openapi_router=router, render_plugins=[_viewer, _description])
