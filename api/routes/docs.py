"""OpenAPI document and Swagger UI, without external hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from litestar import MediaType, Request, Response, Router, get
from litestar.datastructures import ResponseHeader
from litestar.exceptions import NotFoundException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, SwaggerRenderPlugin
from litestar.params import FromPath
from openapi_ui_bundles import swagger_ui

from api import openapi
from retrieval.namespaces import validation

_ASSET_FOLDER = Path(__file__).resolve().parent.parent / "assets"
_VIEWER_FILES = {
    "viewer.js": _ASSET_FOLDER / "viewer.js",
    "swagger-ui.css": swagger_ui.static_path / "swagger-ui.css",
    "swagger-ui-bundle.js": swagger_ui.static_path / "swagger-ui-bundle.js",
}
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY_HEADERS = {"Content-Security-Policy": _CONTENT_POLICY, "X-Content-Type-Options": "nosniff"}


class DescriptionPlugin(JsonRenderPlugin):
    """OpenAPI document as JSON, built on the first request."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        state = request.app.state
        if "openapi" not in state:
            settings = state.services.settings
            description = openapi.describe_api(request.app, validation.embedding_models(settings))
            if settings.public_url:
                description["servers"] = [{"url": settings.base_url}]
            state.openapi = msgspec.json.encode(description)
        return bytes(state.openapi)


class SwaggerPlugin(SwaggerRenderPlugin):
    """Swagger UI with a search field; loads `/openapi.json`."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        page = (_ASSET_FOLDER / "docs.html").read_bytes()
        # Addresses in the page are relative, so that it works below a path of a proxy.
        return page.replace(b'="docs/', b'="').replace(b'"openapi', b'"../openapi') if _is_folder(request) else page


def _is_folder(request: Request[Any, Any, Any]) -> bool:
    return bytes(request.scope.get("raw_path", b"")).endswith(b"/docs/")


_description, _viewer = DescriptionPlugin(media_type=MediaType.JSON), SwaggerPlugin(path="/")


@get("/openapi.json", include_in_schema=False, sync_to_thread=False)
def read_description(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(_description.render(request, {}), media_type=MediaType.JSON)


@get("/", include_in_schema=False, sync_to_thread=False)
def show_viewer(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(_viewer.render(request, {}), media_type=MediaType.HTML, headers=_SECURITY_HEADERS)


@get("/assets/{name:str}", sync_to_thread=False)
def read_asset(name: FromPath[str]) -> Response[bytes]:
    if name not in _VIEWER_FILES:
        raise NotFoundException
    return Response(
        _VIEWER_FILES[name].read_bytes(), media_type="text/css" if name.endswith(".css") else "text/javascript"
    )


async def refuse_unknown(response: Response[Any]) -> Response[Any]:
    """Answer unknown paths below `/docs` with an API error."""
    if response.status_code == 404:
        raise NotFoundException
    return response


ROUTE_HANDLERS = (read_description, show_viewer)


def openapi_config() -> OpenAPIConfig:
    """Return the configuration of `/docs`, with the viewer's files."""
    headers = [ResponseHeader(name=name, value=value) for name, value in _SECURITY_HEADERS.items()]
    router = Router(
        "/docs",
        route_handlers=[read_asset],
        response_headers=headers,
        after_request=refuse_unknown,
        include_in_schema=False,
    )
    return openapi.openapi_config(openapi_router=router, render_plugins=[_viewer, _description])
