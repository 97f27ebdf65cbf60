"""The OpenAPI document and Swagger UI, served without any foreign host."""

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

_ASSETS = Path(__file__).resolve().parent.parent / "assets"
_FILES = {
    "viewer.js": _ASSETS / "viewer.js",
    "swagger-ui.css": swagger_ui.static_path / "swagger-ui.css",
    "swagger-ui-bundle.js": swagger_ui.static_path / "swagger-ui-bundle.js",
}
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
            settings = state.services.settings
            description = openapi.describe_api(request.app, validation.embedding_models(settings))
            if settings.public_url:
                description["servers"] = [{"url": settings.base_url}]
            state.openapi = msgspec.json.encode(description)
        return bytes(state.openapi)


class SwaggerUI(SwaggerRenderPlugin):
    """Swagger UI with a search field; its page loads the description from `/openapi.json`."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:  # noqa: ARG002
        page = (_ASSETS / "docs.html").read_bytes()
        # Addresses in the page are relative, so that it works below a path of a proxy.
        return page.replace(b'="docs/', b'="').replace(b'"openapi', b'"../openapi') if _is_folder(request) else page


def _is_folder(request: Request[Any, Any, Any]) -> bool:
    return bytes(request.scope.get("raw_path", b"")).endswith(b"/docs/")


_description, _viewer = Description(media_type=MediaType.JSON), SwaggerUI(path="/")


@get("/openapi.json", include_in_schema=False, sync_to_thread=False)
def read_description(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(_description.render(request, {}), media_type=MediaType.JSON)


@get("/", include_in_schema=False, sync_to_thread=False)
def show_viewer(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(_viewer.render(request, {}), media_type=MediaType.HTML, headers=_HEADERS)


@get("/assets/{name:str}", sync_to_thread=False)
def read_asset(name: FromPath[str]) -> Response[bytes]:
    """Read a file of the viewer."""
    if name not in _FILES:
        raise NotFoundException
    return Response(_FILES[name].read_bytes(), media_type="text/css" if name.endswith(".css") else "text/javascript")


async def refuse_unknown(response: Response[Any]) -> Response[Any]:
    """Let what is unknown below `/docs` be an error in the service's own words."""
    if response.status_code == 404:
        raise NotFoundException
    return response


HANDLERS = (read_description, show_viewer)


def openapi_config() -> OpenAPIConfig:
    """The description as it is served: below `/docs`, with the files of the viewer beside it."""
    headers = [ResponseHeader(name=name, value=value) for name, value in _HEADERS.items()]
    router = Router(
        "/docs",
        route_handlers=[read_asset],
        response_headers=headers,
        after_request=refuse_unknown,
        include_in_schema=False,
    )
    return openapi.openapi_config(openapi_router=router, render_plugins=[_viewer, _description])
