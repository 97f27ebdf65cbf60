"""Percent-encoded names in paths are a single parameter and arrive unchanged, with any characters."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from retrieval_client import RetrievalClient, RetrievalError
from tests.api.description import DOCUMENT
from tests.api.routes.test_access import names
from tests.api.support import Failures, assert_error

UNUSUAL_NAMES = ["/staff", "a//b/", "../keys", "a?b=c", "%2F", "größe", "a\\b", "a\tb\r\nc"]
DOTS = [".", ".."]
PARAMETERS = sorted(
    (path, method.upper(), name)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    for name in re.findall(r"{(\w+)}", path)
)


@pytest.mark.parametrize("name", UNUSUAL_NAMES)
def test_a_group_of_any_name_is_put_read_used_and_deleted(name, org, space):
    path, query = f"/v1/groups/{quote(name, safe='')}", {"namespaceId": space}
    body = {"namespaceId": space, "members": {"users": ["ada"], "groups": [name]}}
    put = org.client.put(path, json=body)
    assert put.status_code == 200, put.text
    group_id = put.json()["data"]["group"]["id"]
    assert org.client.get(path, params=query).json()["data"]["group"]["id"] == group_id
    org.text(space, "one", externalId="it", access={"groups": [name]})
    assert (names(org.client, space, "ada"), names(org.client, space, "bob")) == ({"it"}, set())
    deletion = org.client.delete(path, params=query)
    assert (deletion.status_code, deletion.json()["data"]) == (200, {"id": group_id})
    assert_error(org.client.get(path, params=query), 404, "NOT_FOUND")
    assert names(org.client, space, "ada") == set()


@pytest.mark.parametrize("tail", ["/staff", "a/b", "a//b", "/", ""])
def test_a_slash_that_is_not_encoded_names_no_group(tail, org, space):
    # A proxy decoding `%2Fstaff` must not change `staff`.
    body = {"namespaceId": space, "members": {"users": ["ada"]}}
    assert org.client.put(f"/v1/groups/{tail}", json=body).status_code == 404


def test_the_python_client_reaches_a_group_of_any_name(org, space, base):
    with RetrievalClient(base, org.api_key) as client:
        for name in UNUSUAL_NAMES:
            put = client.api.put_group(name, {"namespaceId": space, "members": {"users": ["ada"]}})
            assert client.api.get_group(put.group.id, namespace_id=space).group.members.users == ["ada"]
            assert client.api.delete_group(name, namespace_id=space).id == put.group.id
        for name in DOTS:
            with pytest.raises(RetrievalError, match="dots"):
                client.api.put_group(name, {"namespaceId": space, "members": {}})


def filled(path, method, name, value, space):
    """Return target, body and query of an operation with `value` for a path parameter."""
    places = dict.fromkeys(re.findall(r"{(\w+)}", path), "unknown-1") | {name: value}
    target = re.sub(r"{(\w+)}", lambda found: quote(places[found[1]], safe=""), path)
    about = DOCUMENT["paths"][path][method.lower()]
    content = about.get("requestBody", {}).get("content", {}).get("application/json")
    body = (
        None if content is None else {"namespaceId": space, **(content.get("example") or {})} | {"namespaceId": space}
    )
    query = {
        parameter["name"]: space for parameter in about.get("parameters", []) if parameter.get("name") == "namespaceId"
    }
    return target, body, query


def test_every_parameter_of_a_path_is_one_name_whatever_it_holds(organization):
    # A name with a slash gets the same answer as any unknown name.
    org, failures = organization(requests_per_minute=100_000), Failures()
    space = org.namespace()
    for path, method, name in PARAMETERS:
        with failures.of(method, path, name):
            check_parameter(path, method, name, org, space)
    failures.report()


def check_parameter(path, method, name, org, space):
    def send_value(value):
        target, body, query = filled(path, method, name, value, space)
        answer = org.client.request(method, target, json=body, params=query)
        code = answer.json().get("error", {}).get("code") if "json" in answer.headers["content-type"] else None
        return answer.status_code, code

    plain = send_value("unknown-2")
    assert plain[0] < 500
    for value in ("a//b/", "../keys", "a?b=%2F"):
        assert send_value(value) == plain, value
