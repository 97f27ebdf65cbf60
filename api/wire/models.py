"""Models in the format of OpenAI's API."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class Model(Struct, kw_only=True):
    """An embedding model of the service itself."""

    id: Annotated[str, Meta(description="The name of the model in `embeddingModelConfig`.")]
    object: Annotated[Literal["model"], Meta(description="The type of the object.")] = "model"
    created: Annotated[int, Meta(description="Always 0: the time is not recorded.")] = 0
    owned_by: Annotated[Literal["retrieval"], Meta(description="The owner.")] = "retrieval"


class ModelList(Struct, kw_only=True):
    """A list of models."""

    object: Annotated[Literal["list"], Meta(description="The type of the response.")] = "list"
    data: list[Model]
