"""`key`, `org`, `tenant`, `rotate-secrets`, `fsck`: administration straight in the database of this machine."""

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
from retrieval.accounts.audit import Entry, Source
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
class Changed:
    """Change made by a command; `organizations`: those it concerns."""

    organizations: Sequence[str]
    type: str
    id: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Output of a command, and its change."""

    text: str = field(repr=False)
    changed: Changed | None = None


def run(options: Options, settings: Settings) -> int:
    """Run the command in the database of the running instance, or of RETRIEVAL_DATABASE_URL.

    A change is committed together with its entry in the audit log, and printed after that.
    """
    with open_database(settings, size=1) as (db, ring):
        try:
            if options.command == "rotate-secrets":
                _rotate_secrets(db, ring, options)
            else:
                print(_change(db, ring, options))
        except ValueError as error:
            raise LocalError(str(error), exit_code=2) from error
    return 0


@contextmanager
def open_database(settings: Settings, size: int = 4) -> Iterator[tuple[Database, KeyRing]]:
    """The database and the keys of the running instance, or of the settings; LocalError while it is away."""
    resolved = environment.resolve_addresses(settings)
    try:
        with closing(Database(resolved.database_url, size=size)) as db:
            yield db, KeyRing.parse(resolved.secret_key)
    except SecretError as error:
        raise LocalError(str(error), exit_code=2) from error
    except UNAVAILABLE_ERRORS as error:
        raise LocalError("The database does not answer: look at `retrieval status`.") from error


def _change(db: Database, ring: KeyRing, options: Options) -> str:
    try:
        with db.together():
            outcome = _COMMANDS[options.command, options.verb](db, ring, options)
            if outcome.changed is not None:
                write_audit(db, options, outcome.changed, 200)
    except (LocalError, ValueError) as error:
        if options.verb != "list":
            wrong = isinstance(error, ValueError) or error.exit_code == 2
            write_audit(db, options, Changed(list_concerned(db, options), options.command, None), 400 if wrong else 404)
        raise
    return outcome.text


def write_audit(db: Database, options: Options, changed: Changed, status: int) -> None:
    """Into the audit log of every organization concerned."""
    route = f"retrieval {options.command} {options.verb}".strip()
    entries = [
        Entry(
            organization_id=organization,
            principal=_user(),
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


def _user() -> str:
    """User of the operating system who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def list_concerned(db: Database, options: Options) -> list[str]:
    """Organizations that a refused change would have concerned: the named one, or the only one."""
    organization_ids = _list_ids(db)
    named_id = getattr(options, "org", None) or (options.id if options.command == "org" and "id" in options else None)
    if named_id:
        return [named_id] if named_id in organization_ids else []
    return organization_ids if len(organization_ids) == 1 else []


def _key_create(db: Database, ring: KeyRing, options: Options) -> Outcome:
    scopes = (
        tuple(options.scopes.split(","))
        if options.scopes
        else tuple(permissions.default_scopes(namespace=bool(options.namespace), tenant=bool(options.tenant)))
    )
    organization = choose_organization(db, options.org)
    new_key = api_keys.create_key(
        db, ring, organization, options.name, scopes=scopes, namespace=options.namespace, tenant=options.tenant
    )
    text = f"{new_key.id}\n{new_key.api_key}\nThe second line is the key. It is not shown again."
    return Outcome(text, Changed([organization], "key", new_key.id))


def _key_list(db: Database, _ring: KeyRing, options: Options) -> Outcome:
    rows = [
        (
            key.id,
            key.name,
            f"…{key.hint}",
            "revoked" if key.revoked_at else "active",
            key.namespace_id or "any",
            key.tenant or "any",
            ",".join(key.scopes),
        )
        for key in api_keys.list_keys(db, choose_organization(db, options.org))
    ]
    return Outcome(_format_table(("id", "name", "key", "state", "namespace", "tenant", "scopes"), rows))


def _key_revoke(db: Database, _ring: KeyRing, options: Options) -> Outcome:
    for organization in organizations.list_organizations(db):
        if api_keys.revoke_key(db, organization.id, options.id):
            return Outcome(f"{options.id} is revoked.", Changed([organization.id], "key", options.id))
    raise LocalError(f"There is no key {options.id}: `retrieval key list` shows them.")


def _org_create(db: Database, _ring: KeyRing, options: Options) -> Outcome:
    organization = organizations.create_organization(
        db,
        options.name,
        plan=Plan(options.plan or Plan.CUSTOM),
        requests_per_minute=options.requests,
        namespace_limit=options.namespaces,
        tenants=TenantRule(options.tenants or TenantRule.OPEN),
        tenant_required=options.tenant_required == "yes",
    )
    return Outcome(_format_organizations([organization]), Changed([organization.id], "organization", organization.id))


def _org_list(db: Database, _ring: KeyRing, _options: Options) -> Outcome:
    return Outcome(_format_organizations(organizations.list_organizations(db)))


def _org_update(db: Database, _ring: KeyRing, options: Options) -> Outcome:
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
    return Outcome(_format_organizations([changed]), Changed([changed.id], "organization", changed.id))


def _org_set(db: Database, _ring: KeyRing, options: Options) -> Outcome:
    organization = choose_organization(db, options.org)
    quotas_given = {name: getattr(options, name) for name in quotas.NAMES if getattr(options, name) is not None}
    values = {name: _limit(value) for name, value in quotas_given.items()}
    if not values:
        raise LocalError("Name a quota to set: `retrieval org set --help` lists them.", exit_code=2)
    changed = Changed([organization], "tenant" if options.tenant else "organization", options.tenant or organization)
    if options.tenant is None:
        limits = quotas.set_organization(db, organization, values)
    else:
        limits = quotas.set_tenant(db, organization, options.tenant, values)
    if limits is None:
        raise LocalError(f"There is no tenant {options.tenant}: `retrieval tenant list` shows them.")
    rows = [(name, str(limits.get(name, "no limit"))) for name in quotas.NAMES]
    return Outcome(_format_table(("quota", "limit"), rows), changed)


def _limit(value: str) -> int | None:
    if value == "none":
        return None
    if not value.isascii() or not value.isdecimal() or len(value) > 16 or int(value) > quotas.MOST:
        raise ValueError(f"A quota is a whole number up to {quotas.MOST}, or none.")
    return int(value)


def _tenant_create(db: Database, _ring: KeyRing, options: Options) -> Outcome:
    organization = choose_organization(db, options.org)
    tenants.create_tenant(db, organization, options.tenant)
    return Outcome(f"{options.tenant} is known.", Changed([organization], "tenant", options.tenant))


def _tenant_list(db: Database, _ring: KeyRing, options: Options) -> Outcome:
    listed_tenants = tenants.list_tenants(db, choose_organization(db, options.org))
    rows = [(tenant.id, f"{tenant.created_at:%Y-%m-%d %H:%M}") for tenant in listed_tenants]
    return Outcome(_format_table(("tenant", "since"), rows))


def _tenant_delete(db: Database, _ring: KeyRing, options: Options) -> Outcome:
    organization = choose_organization(db, options.org)
    if not tenants.delete_tenant(db, organization, options.tenant):
        raise LocalError(f"There is no tenant {options.tenant}: `retrieval tenant list` shows them.")
    text = f"{options.tenant} is no longer known; its data stays."
    return Outcome(text, Changed([organization], "tenant", options.tenant))


def _rotate_secrets(db: Database, ring: KeyRing, options: Options) -> None:
    """Rotate outside of one transaction, beside a working service; finished parts stay, so the end is reported."""
    outcome = key_rotation.reseal_secrets(db, ring)
    write_audit(
        db,
        options,
        Changed([organization.id for organization in organizations.list_organizations(db)], "secrets", None),
        200,
    )
    print(f"{outcome.resealed} stored secrets are sealed anew, with the key {ring.active}.")
    if outcome.left:
        raise LocalError(
            f"{outcome.left} still need another key. Give RETRIEVAL_SECRET_KEY every key that ever sealed, start every "
            f"process with {ring.active} as its first, and run this again."
        )
    print("No other key is in use.")


_COMMANDS: dict[tuple[str, str], Callable[[Database, KeyRing, Options], Outcome]] = {
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


def choose_organization(db: Database, given: str | None) -> str:
    """The named organization, or the only one there is."""
    organization_ids = _list_ids(db)
    if given is None and len(organization_ids) == 1:
        return organization_ids[0]
    if given is None:
        raise LocalError("There are several organizations: name one with --org (`retrieval org list`).", exit_code=2)
    if given not in organization_ids:
        raise LocalError(f"There is no organization {given}: `retrieval org list` shows them.", exit_code=2)
    return given


def _format_organizations(listed: Iterable[Organization]) -> str:
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
        for organization in listed
    ]
    return _format_table(("id", "name", "plan", "requests/min", "namespaces", "tenants", "tenant required"), rows)


def _format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    )


def run_fsck(options: Options, settings: Settings) -> int:
    """Print what is found; 0 where all is well, or was repaired, else 1."""
    files = registry.make_local_file_store() if settings.allow_local_files else None
    with open_database(settings) as (db, ring):
        instance = Instance(db, partial(build_stores, db, ring), settings.keyword_language, files)
        try:
            outcome = check.run_check(instance, repair=options.repair)
        except StepError as error:
            raise LocalError(str(error)) from error
        if options.repair and outcome.findings:
            write_audit(db, options, Changed(_list_ids(db), "instance", None), 200)
        compared = db.fetch_one(Compared, _COMPARED) or Compared(0, 0)
    if options.json:
        report = {"findings": [_describe_finding(finding) for finding in outcome.findings]}
        if options.repair:
            report["left"] = [_describe_finding(finding) for finding in outcome.remaining]
        print(json.dumps(report))
    else:
        _print_findings(outcome, compared, repair=options.repair)
    return 1 if outcome.remaining else 0


def build_stores(db: Database, ring: KeyRing, namespace_id: str) -> Stores:
    """Stores of a namespace; no authorization is ended through them."""
    config = namespaces.load(db, ring, namespace_id, deleted=True)
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


class Compared(NamedTuple):
    """Numbers of documents and namespaces that were checked."""

    documents: int
    namespaces: int


_COMPARED: LiteralString = """
    select count(d.id) as documents, count(distinct n.id) as namespaces
    from namespaces n left join partitions p on p.namespace_id = n.id
    left join documents d on d.partition_id = p.id and d.deleted_at is null where n.deleted_at is null
"""


def _print_findings(outcome: check.Outcome, compared: Compared, *, repair: bool) -> None:
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
