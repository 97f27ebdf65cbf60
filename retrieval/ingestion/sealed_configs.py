"""Sealed configurations of a namespace: next (`pending`) and previous (`retired`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from retrieval.ingestion.chunking.tokenizer import is_model_open
from retrieval.namespaces import destinations
from retrieval.namespaces.namespaces import EMBEDDING_MODEL, LEARNED_FIELD, VECTOR_STORAGE, Config, NamespaceConfig
from retrieval.security.secrets import KeyRing

# Field of the sealed configuration: API keys of the namespace at that time, by config.
PREVIOUS_KEYS_FIELD = "keysBefore"
# Field of the sealed configuration.
GATE_FIELD = "gate"
_CONFIGS_WITH_KEY = (EMBEDDING_MODEL, VECTOR_STORAGE)
# The other fields determine the destination of the key.
_MODEL_FIELDS = frozenset({"apiKey", "model", "dimensions", "queryPrefix", "passagePrefix", LEARNED_FIELD})


def store_identity(config: NamespaceConfig) -> dict[str, Any]:
    """Return the identity of a vector store: its configuration without the key."""
    return {key: value for key, value in config.vector_storage.items() if key != "apiKey"}


def open_sealed_config(
    keys: KeyRing, current: NamespaceConfig, sealed: bytes, name: str = "pending"
) -> NamespaceConfig:
    """Return the namespace with a sealed configuration and its newest keys."""
    stored = json.loads(keys.open(sealed, row=row_name(current.id, name)))
    model, store = (
        _with_current_key(stored[area], current.configs()[area], stored.get(PREVIOUS_KEYS_FIELD, {}), area)
        for area in _CONFIGS_WITH_KEY
    )
    if name == "pending" and is_model_open(model):  # another store was sent before the model was chosen
        model = current.embedding_model
    destination = destinations.keep_destination(EMBEDDING_MODEL, stored.get("sentTo", current.sent_to), current.sent_to)
    sent_to = destination if model is stored[EMBEDDING_MODEL] else current.sent_to
    return replace(current, embedding_model=model, vector_storage=store, sent_to=sent_to, dimensions=None)


def _with_current_key(config: Config, current: Config, previous_keys: Mapping[str, str | None], name: str) -> Config:
    """Return the config with the current key, if both send it to the same destination."""
    is_changed = name in previous_keys and current.get("apiKey") not in {None, previous_keys[name]}
    destination = {key: value for key, value in config.items() if key not in _MODEL_FIELDS}
    if is_changed and destination == {key: value for key, value in current.items() if key not in _MODEL_FIELDS}:
        return {**config, "apiKey": current["apiKey"]}
    return config


def row_name(namespace_id: str, column: str) -> str:
    """Return the sealing name of a configuration column."""
    return f"namespaces/{namespace_id}/{column}"
