"""Embedding models in the format of OpenAI's API."""
# `auto` is a choice between models.

from __future__ import annotations

from functools import partial

from litestar.params import FromPath

from api.operation import operation
from api.wire import models as wire
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces.validation import LOCAL_MODELS

_operation = partial(operation, tag="OpenAI", invalid=ErrorCode.INVALID_REQUEST)
# `auto` is a choice between models.
_LOCAL_MODELS = {name: wire.Model(id=name) for name in LOCAL_MODELS if name != "auto"}


@_operation("GET", "/v1/models")
async def list_models() -> wire.ModelList:
    """List models. The embedding models that the service runs itself."""
    return wire.ModelList(data=list(_LOCAL_MODELS.values()))


@_operation("GET", "/v1/models/{model:str}", raises=(ErrorCode.NOT_FOUND,))
async def get_model(model: FromPath[str]) -> wire.Model:
    """Get a model."""
    if model not in _LOCAL_MODELS:
        message = f"There is no such model. GET /v1/models lists {', '.join(_LOCAL_MODELS)}."
        raise ServiceError(ErrorCode.NOT_FOUND, message, field="model", reason="no_such_model")
    return _LOCAL_MODELS[model]


ROUTE_HANDLERS = (list_models, get_model)
