"""OpenAPI description, built once per session (1 s of processor time)."""

from api.app import ROUTE_HANDLERS
from api.openapi import describe_handlers

DOCUMENT = describe_handlers(ROUTE_HANDLERS)
