"""Operations on namespaces."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import UNSET, UnsetType

from api import config_check, decode
from api.operation import idempotent, operation
from api.permissions import BoundAccess
from api.request import ApiRequest, TenantUse
from api.services import Services
from api.wire import namespaces as wire
from api.wire.providers import LearnedLimits
from retrieval import ids
from retrieval.errors import ErrorCode, ServiceError
from retrieval.evaluations import gate as gates
from retrieval.ingestion import model_choice, reembedding
from retrieval.ingestion.chunking.tokenizer import is_model_open
from retrieval.keywords import languages
from retrieval.namespaces import destinations, namespaces, queries, validation
from retrieval.namespaces.namespaces import (
    CONFIG_NAMES,
    EMBEDDING_MODEL,
    FILE_STORAGE,
    LEARNED_FIELD,
    REQUIRED_CONFIGS,
    VECTOR_STORAGE,
    Config,
    NamespaceConfig,
)
from retrieval.setting_values import WrongSetting
from retrieval.settings import Settings

_operation = partial(operation, tag="Namespaces", invalid=ErrorCode.INVALID_NAMESPACE_CONFIG, tenant=TenantUse.IGNORED)
_CONFIG_NAME = re.compile("[a-z][A-Za-z]{0,40}Config")
_PROBE_CODES = (
    ErrorCode.STORAGE_CONFIG_ERROR,
    ErrorCode.VECTOR_DB_CONFIG_ERROR,
    ErrorCode.EMBEDDING_CONFIG_ERROR,
)


def check_defaults(settings: Settings) -> None:
    """Check the operator's configs of new namespaces; raise WrongSetting."""
    configs = namespaces.default_configs(settings)
    try:
        decode.convert_members({"name": "default", **configs}, wire.CreateNamespace, ErrorCode.INVALID_NAMESPACE_CONFIG)
        validation.check_configs(settings, configs)
    except ServiceError as error:
        raise WrongSetting([("RETRIEVAL_DEFAULT_NAMESPACE", str(error))]) from None


async def check_draft(request: ApiRequest, data: JSONBody[wire.CreateNamespace]) -> NamespaceConfig:
    """Return the namespace to create after checks of its storage, index and models."""
    services = request.services
    name, configs_sent = _split_request(data)
    configs_sent = namespaces.default_configs(services.settings) | configs_sent
    for config_name in REQUIRED_CONFIGS:
        if config_name not in configs_sent:
            raise validation.invalid_field(config_name, f"{config_name} is required.", "missing")
    configs = {
        key: validation.unmask_secrets(value, {}, key) for key, value in configs_sent.items() if value is not None
    }
    validation.check_configs(services.settings, configs)
    timestamp = datetime.now(UTC)
    draft = NamespaceConfig(
        id=ids.namespace_id(),
        organization_id=request.caller.organization,
        name=name,
        dimensions=None,
        keyword_language=_keyword_language(data.keyword_language),
        created_at=timestamp,
        updated_at=timestamp,
        sent_to=destinations.list_destinations(services.settings, configs),
        **namespaces.split_configs(configs),
    )
    return await config_check.check_configs(services, draft, configs)


@_operation(
    "POST",
    "/v1/namespaces",
    raises=(ErrorCode.NAMESPACE_LIMIT_EXCEEDED, *_PROBE_CODES),
    body=wire.CreateNamespace,
    dependencies={"draft": check_draft},
    example={
        "name": "Product manuals",
        "fileStorageConfig": {"type": "LOCAL"},
        "vectorStorageConfig": {"provider": "PGVECTOR"},
        "embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"},
    },
)
@idempotent
async def create_namespace(request: ApiRequest, draft: NamedDependency[NamespaceConfig]) -> wire.NamespaceAnswer:
    """Create a namespace. Storage, index and models are checked first, each within 5 seconds."""
    services = request.services
    created = await namespaces.create_namespace(
        services.db, services.ring, draft, limit=services.settings.namespace_limit
    )
    message = "Namespace created successfully" + _note_learned(created) + await _note_ignored(request)
    return wire.NamespaceAnswer(message=message, data=wire.NamespaceData(wire.Namespace.from_namespace(created)))


@_operation(
    "POST",
    "/v1/namespaces/test",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, *_PROBE_CODES),
    stores=False,
    example={"embeddingModelConfig": {"provider": "LOCAL", "model": "all-MiniLM-L6-v2"}},
)
async def test_namespace(request: ApiRequest, data: JSONBody[wire.DraftConfigs]) -> wire.ConfigTestsAnswer:
    """Test configs without storing them. Each is tested by a call to its service, within 5 seconds. A vector store is
    tested with the model that is sent with it, or with the namespace's.
    """
    services, timestamp = request.services, datetime.now(UTC)
    if data.namespace_id is UNSET:
        present: dict[str, Config] = {key: {} for key in REQUIRED_CONFIGS} | namespaces.default_configs(
            services.settings
        )
        stored = NamespaceConfig(
            id=ids.namespace_id(),
            organization_id=request.caller.organization,
            name="",
            dimensions=None,
            created_at=timestamp,
            updated_at=timestamp,
            **namespaces.split_configs(present),
        )
    else:
        stored = await _find_namespace(request, data.namespace_id)
    _, configs_sent = _split_request(data)
    configs = {area: _unmask_config(services, stored, area, value) for area, value in configs_sent.items() if value}
    validation.check_configs(services.settings, configs)
    draft_configs = stored.configs() | configs
    if VECTOR_STORAGE in configs and not draft_configs[EMBEDDING_MODEL]:
        message = f"{EMBEDDING_MODEL} is required: the model decides the length of the vectors in the store."
        raise validation.invalid_field(EMBEDDING_MODEL, message, "missing")
    sent_to = {**stored.sent_to, **destinations.list_destinations(services.settings, configs)}
    draft = replace(stored, sent_to=sent_to, **namespaces.split_configs(draft_configs))
    results = await config_check.test_configs(services, draft, configs)
    return wire.ConfigTestsAnswer(
        message="Configs tested" + await _note_ignored(request),
        data=wire.ConfigTestsData([_present_result(result) for result in results]),
    )


@_operation("GET", "/v1/namespaces", invalid=ErrorCode.INVALID_REQUEST)
async def list_namespaces(request: ApiRequest, params: NamedDependency[wire.NamespacesQuery]) -> wire.NamespacesAnswer:
    """List namespaces. Newest first. With `pageSize` the list is paginated."""
    services, caller = request.services, request.caller
    listing = params.to_listing(caller.namespace, caller.bound_tenant, may_count=request.principal is None)
    page_request = await request.read_page(params.to_page(), listing.order)
    page = await namespaces.list_namespaces(services.db, services.ring, caller.organization, page_request, listing)
    answers = [_present_namespace(request, namespace).add_usage(namespace) for namespace in page.items]
    total = await queries.count_namespaces(services.db, caller.organization, listing) if page_request else UNSET
    cursor = await request.write_cursor(page.cursor, listing.order)
    data = wire.NamespacesData(namespaces=answers).set_page(page_request, cursor, total)
    return wire.NamespacesAnswer(message="Namespaces fetched successfully", data=data)


@_operation("GET", "/v1/namespaces/{namespace_id:str}", raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def get_namespace(request: ApiRequest, namespace_id: FromPath[str]) -> wire.NamespaceAnswer:
    """Get a namespace. Secrets are absent or masked."""
    namespace = await _find_namespace(request, namespace_id)
    return wire.NamespaceAnswer(
        message="Namespace fetched successfully", data=wire.NamespaceData(_present_namespace(request, namespace))
    )


@_operation(
    "PATCH",
    "/v1/namespaces/{namespace_id:str}",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, *_PROBE_CODES),
    example={"name": "Product manuals, all languages"},
)
async def update_namespace(
    request: ApiRequest, namespace_id: FromPath[str], data: JSONBody[wire.UpdateNamespace]
) -> wire.NamespaceAnswer:
    """Change a namespace. A config that is sent replaces the stored one; fields that are not sent stay."""
    services = request.services
    stored = await _find_namespace(request, namespace_id)
    name, configs_sent = _split_request(data)
    stored_configs = stored.configs()
    changes = {key: value and _unmask_config(services, stored, key, value) for key, value in configs_sent.items()}
    validation.check_configs(services.settings, changes)
    if (model := changes.get(EMBEDDING_MODEL)) and is_model_open(model):
        changes[EMBEDDING_MODEL] = await model_choice.resolve_model(services.db, stored, force=data.reembed)
    changed = replace(
        stored,
        name=name or stored.name,
        keyword_language=_keyword_language(data.keyword_language, stored.keyword_language),
        sent_to={**stored.sent_to, **destinations.list_destinations(services.settings, changes)},
        **namespaces.split_configs({**stored_configs, **changes}),
    )
    gate = await _read_gate(request, data, stored)
    moved = await _needs_reembedding(request, data, stored, changed)
    changed = await config_check.check_configs(
        services, changed, [key for key in changes if changes[key] != stored_configs.get(key)]
    )
    if moved:
        serving = replace(
            changed,
            embedding_model=stored.embedding_model,
            vector_storage=stored.vector_storage,
            sent_to=destinations.keep_destination(EMBEDDING_MODEL, stored.sent_to, changed.sent_to),
        )
        searched, job_run = await reembedding.begin_reembedding(services.db, services.ring, serving, changed, gate)
        services.notices.send()
        message = "Namespace is being embedded again; it is searched as before until then"
        return wire.NamespaceAnswer(
            message=message, data=wire.NamespaceData(wire.Namespace.from_namespace(searched), job_run)
        )
    saved = await namespaces.update_namespace(services.db, services.ring, changed)
    message = "Namespace updated successfully" + await _note_ignored(request)
    return wire.NamespaceAnswer(message=message, data=wire.NamespaceData(wire.Namespace.from_namespace(saved)))


@_operation("DELETE", "/v1/namespaces/{namespace_id:str}", raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def delete_namespace(request: ApiRequest, namespace_id: FromPath[str]) -> wire.NamespaceDeletedAnswer:
    """Delete a namespace. It disappears at once. Its files and vectors are removed in the background."""
    request.require_namespace(namespace_id)
    deletion = await namespaces.delete_namespace(request.services.db, request.caller.organization, namespace_id)
    return wire.NamespaceDeletedAnswer(
        message="Namespace deleted successfully",
        deletion_id=deletion,
        data=wire.DeletedNamespace(namespace_id, namespace_id),
    )


ROUTE_HANDLERS = (
    create_namespace,
    test_namespace,
    list_namespaces,
    get_namespace,
    update_namespace,
    delete_namespace,
)


def _present_namespace(request: ApiRequest, namespace: NamespaceConfig) -> wire.Namespace:
    """Return the namespace as visible to the key or user."""
    name_only = request.bound_access is BoundAccess.NAMES_ONLY or request.principal is not None
    return wire.Namespace.name_of(namespace) if name_only else wire.Namespace.from_namespace(namespace)


def _present_result(result: config_check.CheckResult) -> wire.ConfigTest:
    error = result.error
    if error is None:
        return wire.ConfigTest(result.field, "PASSED", result.observation, round(result.seconds, 3))
    outcome: Literal["FAILED", "NOT_TESTED"] = "NOT_TESTED" if error.reason == config_check.POSTPONED else "FAILED"
    return wire.ConfigTest(result.field, outcome, str(error), round(result.seconds, 3), error.field)


async def _find_namespace(request: ApiRequest, namespace_id: FromPath[str]) -> NamespaceConfig:
    request.require_namespace(namespace_id)
    return await namespaces.get_namespace(
        request.services.db, request.services.ring, request.caller.organization, namespace_id
    )


def _note_learned(namespace: NamespaceConfig) -> str:
    """Return a note on the learned properties of a model server."""
    limits = msgspec.convert(namespace.embedding_model.get(LEARNED_FIELD) or {}, LearnedLimits)
    figures = (
        (limits.texts_per_request, "texts per request"),
        (limits.tokens_per_text, "tokens per text"),
        (limits.dimensions, "dimensions"),
    )
    words = ", ".join(f"{figure} {unit}" for figure, unit in figures if figure)
    return f"; learned: {words}" if words else ""


async def _note_ignored(request: ApiRequest) -> str:
    """Return a note on unknown, ignored configs of the request."""
    members = msgspec.json.decode(await request.body(), type=dict[str, msgspec.Raw])
    unknown = [key for key in members if _CONFIG_NAME.fullmatch(key) and key not in CONFIG_NAMES]
    return f"; not known here and left out: {', '.join(unknown[:10])}" if unknown else ""


def _unmask_config(services: Services, stored: NamespaceConfig, area: str, config: Config) -> dict[str, Any]:
    """Return a config with stored secrets in place of masked values."""
    stored_config = stored.configs().get(area) or {}
    moved = bool(stored_config) and destinations.has_moved(services.settings, area, stored_config, stored.sent_to)
    return validation.unmask_secrets(config, stored_config, area, moved=moved)


def _split_request(body: wire.CreateNamespace | wire.UpdateNamespace | wire.DraftConfigs) -> tuple[str, dict[str, Any]]:
    """Return the name, "" if absent, and the sent configs; None for null."""
    members = msgspec.to_builtins(body)
    return members.get("name", ""), {key: members[key] for key in CONFIG_NAMES if key in members}


def _keyword_language(language: str | UnsetType | None, stored: str | None = None) -> str | None:
    if language is UNSET or language is None:
        return stored if language is UNSET else None
    if languages.parse_configuration(language) is None:
        raise validation.invalid_field(
            "keywordLanguage",
            "keywordLanguage is neither PostgreSQL's name of a language nor ISO 639-1.",
            "no_language",
        )
    return language.strip().lower()


async def _read_gate(request: ApiRequest, data: wire.UpdateNamespace, stored: NamespaceConfig) -> dict[str, Any] | None:
    """Return the stored form of the conditions for a new generation."""
    if data.gate is UNSET:
        return None
    conditions = data.gate.to_values()
    if not data.reembed:
        raise validation.invalid_field("gate", "gate judges what reembed: true makes; send both.", "reembed_required")
    await gates.require_gate(request.services.db, stored.organization_id, stored.id, conditions)
    return gates.dump_gate(conditions)


async def _needs_reembedding(
    request: ApiRequest, data: wire.UpdateNamespace, stored: NamespaceConfig, changed: NamespaceConfig
) -> bool:
    """Return whether vectors must be computed again; raise unless the client requests this."""
    moved = [
        name
        for name, old, new in (
            (FILE_STORAGE, _storage_identity(stored.file_storage), _storage_identity(changed.file_storage)),
            (EMBEDDING_MODEL, _provider_identity(stored.embedding_model), _provider_identity(changed.embedding_model)),
            (VECTOR_STORAGE, _provider_identity(stored.vector_storage), _provider_identity(changed.vector_storage)),
        )
        if old != new
    ]
    if not moved or not await namespaces.has_documents(request.services.db, stored.id):
        return False
    if moved[0] == FILE_STORAGE:
        raise validation.invalid_field(
            FILE_STORAGE,
            "fileStorageConfig cannot lead to another place while the namespace has documents: their files are in the"
            " present one. Keys and region may change.",
            "has_files",
        )
    if not data.reembed:
        raise validation.invalid_field(
            moved[0],
            f"{moved[0]} cannot change while the namespace has documents: their vectors belong to the present one."
            " Send reembed: true to have them made again.",
            "reembed_required",
        )
    return True


def _storage_identity(config: Any) -> dict[str, Any]:
    """Return the config without keys and region."""
    return {key: value for key, value in config.items() if key not in {"credentials", "region"}}


def _provider_identity(config: Any) -> dict[str, Any]:
    """Return the config without key and learned properties."""
    return {key: value for key, value in config.items() if key not in {"apiKey", LEARNED_FIELD}}
