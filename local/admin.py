"""Administration in the database of this machine: `key`, `org`, `tenant`, `rotate-secrets`, `fsck`."""

from __future__ import annotations

import argparse
import getpass
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import LiteralString, NamedTuple

from api import permissions
from connectors import registry
from local import LocalError, environment
from retrieval.accounts import api_keys, audit, quotas
from retrieval.accounts.audit import AuditEntry, Source
from retrieval.accounts.queries import organizations, tenants
from retrieval.accounts.queries.organizations import Organization, Plan, TenantRule
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.errors import StepError
from retrieval.ingestion import reembedding
from retrieval.maintenance import key_rotation
from retrieval.maintenance.fsck import check
from retrieval.maintenance.fsck.findings import Finding, Instance
from retrieval.maintenance.stores import Stores
from retrieval.namespaces import namespaces
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.settings import Settings

Options = argparse.Namespace


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """Change by a command, for the audit log of `organizations`."""

    organizations: Sequence[str]
    type: str
    id: str | None


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """Output of a command, and the change."""

    text: str = field(repr=False)
    changed: AuditedChange | None = None


def run(options: Options, settings: Settings) -> int:
    """Run the command in the database of the running instance, or of RETRIEVAL_DATABASE_URL."""
    # A change is committed together with its audit entry, and printed afterwards.
    with open_database(settings, size=1) as (db, ring):
        try:
            if options.command == "rotate-secrets":
                _rotate_secrets(db, ring, options)
            else:
                print(_run_audited(db, ring, options))
        except ValueError as error:
            raise LocalError(str(error), exit_code=2) from error
    return 0


@contextmanager
def open_database(settings: Settings, size: int = 4) -> Iterator[tuple[Database, KeyRing]]:
    """Open the database with the key ring; raise LocalError during an outage."""
    resolved = environment.resolve_addresses(settings)
    try:
        with closing(Database(resolved.database_url, size=size)) as db:
            yield db, KeyRing.parse(resolved.secret_key)
    except SecretError as error:
        raise LocalError(str(error), exit_code=2) from error
    except UNAVAILABLE_ERRORS as error:
        raise LocalError("The database does not answer: look at `retrieval status`.") from error


def _run_audited(db: Database, ring: KeyRing, options: Options) -> str:
    try:
        with db.together():
            outcome = _COMMAND_HANDLERS[options.command, options.verb](db, ring, options)
            if outcome.changed is not None:
                write_audit(db, options, outcome.changed, 200)
    except (LocalError, ValueError) as error:
        if options.verb != "list":
            wrong = isinstance(error, ValueError) or error.exit_code == 2
            write_audit(
                db, options, AuditedChange(list_concerned(db, options), options.command, None), 400 if wrong else 404
            )
        raise
    return outcome.text


def write_audit(db: Database, options: Options, changed: AuditedChange, status: int) -> None:
    """Write an entry to the audit log of each organization of the change."""
    route = f"retrieval {options.command} {options.verb}".strip()
    entries = [
        AuditEntry(
            organization_id=organization,
            principal=_find_user(),
            method="CLI",
            route=route,
            object_type=changed.type,
            object_id=changed.id,
            status=status,
            source=Source.CLI,
        )
        for organization in changed.organizations
    ]
    audit.write_entries(db, entries)


def _find_user() -> str:
    """Return the user of the operating system."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def list_concerned(db: Database, options: Options) -> list[str]:
    """Return the organization of a refused change: the named or the only one."""
    organization_ids = _list_ids(db)
    named_id = getattr(options, "org", None) or (options.id if options.command == "org" and "id" in options else None)
    if named_id:
        return [named_id] if named_id in organization_ids else []
    return organization_ids if len(organization_ids) == 1 else []


def _key_create(db: Database, ring: KeyRing, options: Options) -> CommandOutcome:
    scopes = (
        tuple(options.scopes.split(","))
        if options.scopes
        else tuple(
            permissions.default_scopes(namespace_bound=bool(options.namespace), tenant_bound=bool(options.tenant))
        )
    )
    organization = choose_organization(db, options.org)
    new_key = api_keys.create_key(
        db, ring, organization, options.name, scopes=scopes, namespace=options.namespace, tenant=options.tenant
    )
    text = format_key(new_key.id, new_key.api_key)
    return CommandOutcome(text, AuditedChange([organization], "key", new_key.id))


def format_key(key_id: str, api_key: str) -> str:
    return f"{key_id}\n{api_key}\nThe second line is the key. It is not shown again."


def _key_list(db: Database, _ring: KeyRing, options: Options) -> CommandOutcome:
    rows = [
        (key.id, key.name, key.hint, bool(key.revoked_at), key.namespace_id, key.tenant, key.scopes)
        for key in api_keys.list_keys(db, choose_organization(db, options.org))
    ]
    return CommandOutcome(format_keys(rows))


def format_keys(keys: Iterable[tuple[str, str, str, bool, str | None, str | None, Sequence[str]]]) -> str:
    """Format keys (id, name, hint, revoked, namespace, tenant, scopes) as a table."""
    states = {True: "revoked", False: "active"}
    rows = [
        (key_id, name, f"…{hint}", states[is_revoked], space or "any", tenant or "any", ",".join(scopes))
        for key_id, name, hint, is_revoked, space, tenant, scopes in keys
    ]
    return _format_table(("id", "name", "key", "state", "namespace", "tenant", "scopes"), rows)


def _key_revoke(db: Database, _ring: KeyRing, options: Options) -> CommandOutcome:
    for organization in organizations.list_organizations(db):
        if api_keys.revoke_key(db, organization.id, options.id):
            return CommandOutcome(f"{options.id} is revoked.", AuditedChange([organization.id], "key", options.id))
    raise LocalError(f"There is no key {options.id}: `retrieval key list` shows them.")


def _org_create(db: Database, _ring: KeyRing, options: Options) -> CommandOutcome:
    organization = organizations.create_organization(
        db,
        options.name,
        plan=Plan(options.plan or Plan.CUSTOM),
        requests_per_minute=options.requests,
        namespace_limit=options.namespaces,
        tenants=TenantRule(options.tenants or TenantRule.OPEN),
        tenant_required=options.tenant_required == "yes",
    )
    return CommandOutcome(
        _format_organizations([organization]), AuditedChange([organization.id], "organization", organization.id)
    )


def _org_list(db: Database, _ring: KeyRing, _options: Options) -> CommandOutcome:
    return CommandOutcome(_format_organizations(organizations.list_organizations(db)))


def _org_update(db: Database, _ring: KeyRing, options: Options) -> CommandOutcome:
    changed = organizations.update_organization(
        db,
        options.id,
        plan=Plan(options.plan) if options.plan else None,
        requests_per_minute=options.requests,
        namespace_limit=options.namespaces,
        tenants=TenantRule(options.tenants) if options.tenants else None,
        tenant_required=options.tenant_required == "yes" if options.tenant_required else None,
    )
    if changed is None:
        raise LocalError(f"There is no organization {options.id}: `retrieval org list` shows them.")
    return CommandOutcome(_format_organizations([changed]), AuditedChange([changed.id], "organization", changed.id))


def _org_set(db: Database, _ring: KeyRing, options: Options) -> CommandOutcome:
    organization = choose_organization(db, options.org)
    options_sent = {name: getattr(options, name) for name in quotas.QUOTA_NAMES if getattr(options, name) is not None}
    values = {name: _parse_limit(value) for name, value in options_sent.items()}
    if not values:
        raise LocalError("Name a quota to set: `retrieval org set --help` lists them.", exit_code=2)
    changed = AuditedChange(
        [organization], "tenant" if options.tenant else "organization", options.tenant or organization
    )
    if options.tenant is None:
        limits = quotas.set_organization_quotas(db, organization, values)
    else:
        limits = quotas.set_tenant_quotas(db, organization, options.tenant, values)
    if limits is None:
        raise LocalError(f"There is no tenant {options.tenant}: `retrieval tenant list` shows them.")
    rows = [(name, str(limits.get(name, "no limit"))) for name in quotas.QUOTA_NAMES]
    return CommandOutcome(_format_table(("quota", "limit"), rows), changed)


def _parse_limit(value: str) -> int | None:
    if value == "none":
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 16 or int(value) > quotas.MAX_QUOTA:
        raise ValueError(f"A quota is a whole number up to {quotas.MAX_QUOTA}, or none.")
    return int(value)


def _tenant_create(db: Database, _ring: KeyRing, options: Options) -> CommandOutcome:
    organization = choose_organization(db, options.org)
    tenants.create_tenant(db, organization, options.tenant)
    return CommandOutcome(f"{options.tenant} is known.", AuditedChange([organization], "tenant", options.tenant))


def _tenant_list(db: Database, _ring: KeyRing, options: Options) -> CommandOutcome:
    organization_tenants = tenants.list_tenants(db, choose_organization(db, options.org))
    rows = [(tenant.id, f"{tenant.created_at:%Y-%m-%d %H:%M}") for tenant in organization_tenants]
    return CommandOutcome(_format_table(("tenant", "since"), rows))


def _tenant_delete(db: Database, _ring: KeyRing, options: Options) -> CommandOutcome:
    organization = choose_organization(db, options.org)
    if not tenants.delete_tenant(db, organization, options.tenant):
        raise LocalError(f"There is no tenant {options.tenant}: `retrieval tenant list` shows them.")
    text = f"{options.tenant} is no longer known; its data stays."
    return CommandOutcome(text, AuditedChange([organization], "tenant", options.tenant))


def _rotate_secrets(db: Database, ring: KeyRing, options: Options) -> None:
    """Encrypt stored secrets again while the service runs."""
    # Without one transaction: finished parts stay, so the outcome is reported.
    outcome = key_rotation.reseal_secrets(db, ring)
    write_audit(
        db,
        options,
        AuditedChange([organization.id for organization in organizations.list_organizations(db)], "secrets", None),
        200,
    )
    print(f"{outcome.resealed} stored secrets are sealed anew, with the key {ring.active}.")
    if outcome.left:
        raise LocalError(
            f"{outcome.left} still need another key. Give RETRIEVAL_SECRET_KEY every key that ever sealed, start every "
            f"process with {ring.active} as its first, and run this again."
        )
    print("No other key is in use.")


_COMMAND_HANDLERS: dict[tuple[str, str], Callable[[Database, KeyRing, Options], CommandOutcome]] = {
    ("key", "create"): _key_create,
    ("key", "list"): _key_list,
    ("key", "revoke"): _key_revoke,
    ("org", "create"): _org_create,
    ("org", "list"): _org_list,
    ("org", "update"): _org_update,
    ("org", "set"): _org_set,
    ("tenant", "create"): _tenant_create,
    ("tenant", "list"): _tenant_list,
    ("tenant", "delete"): _tenant_delete,
}


def _list_ids(db: Database) -> list[str]:
    return [organization.id for organization in organizations.list_organizations(db)]


def choose_organization(db: Database, name: str | None) -> str:
    """Return the named organization, or the only one."""
    organization_ids = _list_ids(db)
    if name is None and len(organization_ids) == 1:
        return organization_ids[0]
    if name is None:
        raise LocalError("There are several organizations: name one with --org (`retrieval org list`).", exit_code=2)
    if name not in organization_ids:
        raise LocalError(f"There is no organization {name}: `retrieval org list` shows them.", exit_code=2)
    return name


def _format_organizations(entries: Iterable[Organization]) -> str:
    rows = [
        (
            organization.id,
            organization.name,
            organization.plan,
            str(organization.requests_per_minute),
            str(organization.namespace_limit or "default"),
            organization.tenants,
            "yes" if organization.tenant_required else "no",
        )
        for organization in entries
    ]
    return _format_table(("id", "name", "plan", "requests/min", "namespaces", "tenants", "tenant required"), rows)


def _format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    )


def run_fsck(options: Options, settings: Settings) -> int:
    """Print findings; return 0 without findings or after their repair, else 1."""
    files = registry.make_local_file_store() if settings.allow_local_files else None
    with open_database(settings) as (db, ring):
        instance = Instance(db, partial(build_stores, db, ring), settings.keyword_language, files)
        try:
            outcome = check.run_check(instance, repair=options.repair)
        except StepError as error:
            raise LocalError(str(error)) from error
        if options.repair and outcome.findings:
            write_audit(db, options, AuditedChange(_list_ids(db), "instance", None), 200)
        compared = db.fetch_one(CheckedCounts, _COUNT_CHECKED) or CheckedCounts(0, 0)
    if options.json:
        report = {"findings": [_describe_finding(finding) for finding in outcome.findings]}
        if options.repair:
            report["left"] = [_describe_finding(finding) for finding in outcome.remaining]
        print(json.dumps(report))
    else:
        _print_findings(outcome, compared, repair=options.repair)
    return 1 if outcome.remaining else 0


def build_stores(db: Database, ring: KeyRing, namespace_id: str) -> Stores:
    """Return the stores of a namespace, without the right to end authorizations."""
    config = namespaces.load_namespace(db, ring, namespace_id, deleted=True)
    other_stores = tuple(
        registry.make_vector_store(store_config, db) for store_config in reembedding.other_stores(db, ring, config)
    )
    return Stores(
        registry.make_vector_store(config, db), registry.make_file_store(config), lambda _: None, other_stores
    )


def _describe_finding(finding: Finding) -> dict[str, str | None]:
    return {
        "kind": finding.kind,
        "namespace": finding.namespace,
        "document": finding.document,
        "detail": finding.detail,
    }


class CheckedCounts(NamedTuple):
    """Number of checked documents and namespaces."""

    documents: int
    namespaces: int


_COUNT_CHECKED: LiteralString = """
    select count(d.id) as documents, count(distinct n.id) as namespaces
    from namespaces n left join partitions p on p.namespace_id = n.id
    left join documents d on d.partition_id = p.id and d.deleted_at is null where n.deleted_at is null
"""


def _print_findings(outcome: check.CheckOutcome, compared: CheckedCounts, *, repair: bool) -> None:
    for finding in outcome.findings:
        print(f"{finding.kind:18} {finding.namespace or '-'} {finding.document or '-'}: {finding.detail}")
    if not outcome.findings:
        counts = f"documents: {compared.documents}, namespaces: {compared.namespaces}"
        print(f"Everything is as it should be: tables, files and vectors were compared ({counts}).")
    elif repair:
        repaired = len(outcome.findings) - len(outcome.remaining)
        print(f"{len(outcome.findings)} found, {max(repaired, 0)} repaired, {len(outcome.remaining)} left.")
        for finding in outcome.remaining:
            print(f"left: {finding.kind} {finding.namespace or '-'} {finding.document or '-'}: {finding.detail}")
    else:
        print(f"{len(outcome.findings)} found; `retrieval fsck --repair` repairs them.")
