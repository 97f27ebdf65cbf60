"""The API's description, made once for all test files that read it: it takes a second of processor time."""

from api.app import ROUTE_HANDLERS
from api.openapi import describe_handlers

DOCUMENT = describe_handlers(ROUTE_HANDLERS)
