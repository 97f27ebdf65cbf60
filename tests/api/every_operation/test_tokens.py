"""Every operation with a token of an identity provider, as viewer, editor and admin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from api.oidc.roles import ROLE_SCOPES
from api.permissions import find_permission
from retrieval.accounts import api_keys
from retrieval.accounts.queries import organizations
from retrieval.setting_values import OidcRole
from tests.api.every_operation.test_isolation import PLACES, ROUTES, Worlds, case_name, holds
from tests.api.support import Failures, Organization, assert_error, client_of, serve
from tests.standins import oidc_provider
from tests.standins.oidc_provider import Provider

ROLES = ("viewer", "editor", "admin")


@pytest.fixture(scope="module")
def served(api_db, api_settings, api_database, ring):
    """Yield a provider, an organization, and the API's address.

    Groups named as the roles have them in the organization; `strangers` are admins of another organization.
    """
    organization, other_organization = (
        organizations.create_organization(api_db, name, requests_per_minute=100_000) for name in ("own", "other")
    )
    roles = [OidcRole(group=role, role=role, organization=organization.id) for role in ROLES]
    roles.append(OidcRole(group="strangers", role="admin", organization=other_organization.id))
    with oidc_provider.serving(Provider(seconds=3600)) as provider:
        changes = {"oidc_issuer": provider.issuer, "oidc_audience": [provider.client_id], "oidc_roles": roles}
        with serve(api_settings.model_copy(update=changes), api_database, ring) as base:
            yield provider, organization, base


@pytest.fixture(scope="module")
def worlds(served, api_db, ring):
    """Yield by role the organization's objects with the role's client; under `strangers` with a foreign client."""
    provider, organization, base = served
    created = Worlds(base, api_db, ring)
    key = api_keys.create_key(api_db, ring, organization.id, "application").api_key
    org = Organization(organization.id, created.client(key), key, api_db, ring, base)
    clients = {role: client_of(base, provider.token("owner", groups=[role])) for role in (*ROLES, "strangers")}
    yield {role: replace(created.fill(org, "alice"), client=client) for role, client in clients.items()}
    for client in clients.values():
        client.close()
    created.close()


@pytest.mark.parametrize("role", ROLES)
def test_a_person_gets_what_the_role_allows(worlds, role):
    failures = Failures()
    for route in ROUTES:
        with failures.of(case_name(route)):
            check_role(worlds, role, route)
    failures.report()


def check_role(worlds, role, route):
    permission = find_permission(route.method, route.path)
    # A viewer searches as the person of the token.
    may_act = permission.allows_on_behalf or role != "viewer"
    may_administer = role == "admin" or not permission.needs_admin_role
    has_scope = permission.scope in {None, *ROLE_SCOPES[role]}
    answer = worlds[role].send(route)
    assert answer.status_code < 500, answer.text
    assert "x-ratelimit-remaining" in answer.headers
    if may_act and may_administer and has_scope:
        assert answer.status_code not in {401, 403}, answer.text
    elif route.path == "/metrics":
        assert answer.status_code == 403
    else:
        reason = assert_error(answer, 403, "FORBIDDEN")["error"]["details"]["reason"]
        assert reason in {"missing_scope", "on_behalf", "admins_only"}


def test_an_admin_of_another_organization_reaches_nothing(worlds):
    # Every foreign id, sent by an admin of another organization.
    world, failures = worlds["strangers"], Failures()
    for route, parameter in PLACES:
        if parameter.kind in world.own:
            with failures.of(case_name(route), case_name(parameter)):
                answer = world.send(route, place=parameter, value=world.own[parameter.kind])
                assert answer.status_code < 500, answer.text
                # The answer may repeat ids of the request.
                sent_kinds = {parameter.kind, "tenant"}
                other_ids = {kind: value for kind, value in world.own.items() if kind not in sent_kinds}
                assert holds(answer, replace(world, own=other_ids)) == []
    failures.report()
