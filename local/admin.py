"""`key`, `org`, `tenant`, `rotate-secrets`: administration straight in the database, for who runs the machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from api import permissions
from local import environment
from local.errors import LocalError
from retrieval.accounts import api_keys, organizations, tenants
from retrieval.accounts.organizations import Organization, Plan, TenantRule
from retrieval.database.database import AWAY, Database
from retrieval.maintenance import key_rotation
from retrieval.security.secrets import KeyRing, SecretError
from retrieval.settings import Settings

Options = argparse.Namespace


def run(options: Options, settings: Settings) -> int:
    """Do what the command says in the database of the running instance, or of RETRIEVAL_DATABASE_URL."""
    resolved = environment.resolve(settings)
    with closing(Database(resolved.database_url, size=1)) as db:
        try:
            _COMMANDS[options.command, options.verb](db, KeyRing.parse(resolved.secret_key), options)
        except (ValueError, SecretError) as error:
            raise LocalError(str(error), exit_code=2) from error
        except AWAY as error:
            raise LocalError("The database does not answer: look at `retrieval status`.") from error
    return 0


def _key_create(db: Database, ring: KeyRing, options: Options) -> None:
    scopes = (
        tuple(options.scopes.split(","))
        if options.scopes
        else tuple(permissions.default_scopes(namespace=bool(options.namespace), tenant=bool(options.tenant)))
    )
    organization = _organization(db, options.org)
    made = api_keys.create(
        db, ring, organization, options.name, scopes=scopes, namespace=options.namespace, tenant=options.tenant
    )
    print(f"{made.id}\n{made.api_key}\nThe second line is the key. It is not shown again.")


def _key_list(db: Database, _ring: KeyRing, options: Options) -> None:
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
        for key in api_keys.list_all(db, _organization(db, options.org))
    ]
    _print_table(("id", "name", "key", "state", "namespace", "tenant", "scopes"), rows)


def _key_revoke(db: Database, _ring: KeyRing, options: Options) -> None:
    if not any(api_keys.revoke(db, organization.id, options.id) for organization in organizations.list_all(db)):
        raise LocalError(f"There is no key {options.id}: `retrieval key list` shows them.")
    print(f"{options.id} is revoked.")


def _org_create(db: Database, _ring: KeyRing, options: Options) -> None:
    made = organizations.create(
        db,
        options.name,
        plan=Plan(options.plan or Plan.CUSTOM),
        requests_per_minute=options.requests,
        namespace_limit=options.namespaces,
        tenants=TenantRule(options.tenants or TenantRule.OPEN),
        tenant_required=options.tenant_required == "yes",
    )
    _print_organizations([made])


def _org_list(db: Database, _ring: KeyRing, _options: Options) -> None:
    _print_organizations(organizations.list_all(db))


def _org_update(db: Database, _ring: KeyRing, options: Options) -> None:
    changed = organizations.update(
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
    _print_organizations([changed])


def _tenant_create(db: Database, _ring: KeyRing, options: Options) -> None:
    tenants.create(db, _organization(db, options.org), options.tenant)
    print(f"{options.tenant} is known.")


def _tenant_list(db: Database, _ring: KeyRing, options: Options) -> None:
    found = tenants.list_all(db, _organization(db, options.org))
    _print_table(("tenant", "since"), [(tenant.id, f"{tenant.created_at:%Y-%m-%d %H:%M}") for tenant in found])


def _tenant_delete(db: Database, _ring: KeyRing, options: Options) -> None:
    if not tenants.remove(db, _organization(db, options.org), options.tenant):
        raise LocalError(f"There is no tenant {options.tenant}: `retrieval tenant list` shows them.")
    print(f"{options.tenant} is no longer known; its data stays.")


def _rotate_secrets(db: Database, ring: KeyRing, _options: Options) -> None:
    outcome = key_rotation.reseal(db, ring)
    print(f"{outcome.resealed} stored secrets are sealed anew, with the key {ring.active}.")
    if outcome.left:
        raise LocalError(
            f"{outcome.left} still need another key. Give RETRIEVAL_SECRET_KEY every key that ever sealed, start every "
            f"process with {ring.active} as its first, and run this again."
        )
    print("No other key is needed any more.")


_COMMANDS: dict[tuple[str, str], Callable[[Database, KeyRing, Options], None]] = {
    ("key", "create"): _key_create,
    ("key", "list"): _key_list,
    ("key", "revoke"): _key_revoke,
    ("org", "create"): _org_create,
    ("org", "list"): _org_list,
    ("org", "update"): _org_update,
    ("tenant", "create"): _tenant_create,
    ("tenant", "list"): _tenant_list,
    ("tenant", "delete"): _tenant_delete,
    ("rotate-secrets", ""): _rotate_secrets,
}


def _organization(db: Database, given: str | None) -> str:
    """The named organization, or the only one there is."""
    known = [organization.id for organization in organizations.list_all(db)]
    if given is None and len(known) == 1:
        return known[0]
    if given is None:
        raise LocalError("There are several organizations: name one with --org (`retrieval org list`).", exit_code=2)
    if given not in known:
        raise LocalError(f"There is no organization {given}: `retrieval org list` shows them.", exit_code=2)
    return given


def _print_organizations(found: Iterable[Organization]) -> None:
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
        for organization in found
    ]
    _print_table(("id", "name", "plan", "requests/min", "namespaces", "tenants", "tenant required"), rows)


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
