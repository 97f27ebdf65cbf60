"""Malformed permissions of vendors never grant access beyond the whole answer, and raise no unexpected error."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
from dropbox import sharing as dropbox_sharing_types
from dropbox.stone_serializers import json_compat_obj_decode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.microsoft_graph import sharing as graph_sharing
from connectors.microsoft_graph.client import GraphResponse
from connectors.microsoft_graph.items import Drive as GraphDrive
from connectors.sources.box import sharing as box_sharing
from connectors.sources.box.client import BoxSession
from connectors.sources.described import description
from connectors.sources.described.permissions import AccessReader, Answers
from connectors.sources.described.service import open_site
from connectors.sources.dropbox import sharing as dropbox_sharing
from connectors.sources.google_drive import connector
from connectors.sources.google_drive.client import Drive as GoogleDrive
from connectors.sources.notion.connector import read_access
from retrieval.errors import Retryable, Skippable
from retrieval.ports import SourceAccess
from retrieval.settings import Settings

LATER = "2100-01-01T00:00:00Z"
TOKENS = SimpleNamespace(connection_id="conn_1", token=lambda: "token")

GOOGLE = [
    {
        "nextPageToken": "2",
        "permissions": [
            {"id": "1", "type": "user", "role": "owner", "emailAddress": "ada@example.com", "deleted": False},
            {"type": "user", "role": "reader", "emailAddress": "bob@example.com", "expirationTime": LATER},
            {"type": "user", "role": "writer", "emailAddress": "gone@example.com", "deleted": True},
        ],
    },
    {
        "permissions": [
            {"type": "group", "role": "commenter", "emailAddress": "staff@example.com"},
            {"type": "domain", "role": "reader", "domain": "example.com"},
            {"type": "anyone", "role": "published"},
            {
                "type": "user",
                "role": "writer",
                "emailAddress": "above@example.com",
                "inheritedPermissionsDisabled": True,
                "permissionDetails": [{"inherited": True}],
            },
        ]
    },
]
GRAPH = [
    {
        "@odata.nextLink": "https://graph/2",
        "value": [
            {"roles": ["owner"], "grantedToV2": {"user": {"id": "1", "email": "ada@example.com"}}},
            {
                "roles": ["read"],
                "expirationDateTime": LATER,
                "grantedToIdentitiesV2": [
                    {"user": {"userPrincipalName": "bob@example.com"}},
                    {"group": {"id": "42", "email": "staff@example.com"}},
                    {"siteGroup": {"id": "3"}, "siteUser": {"loginName": "c:0t.c|tenant|43"}},
                ],
                "link": {"type": "view", "scope": "users"},
            },
        ],
    },
    {
        "value": [
            {"roles": ["read"], "link": {"type": "view", "scope": "organization"}},
            {
                "roles": ["write"],
                "link": {"type": "createOnly", "scope": "anonymous"},
                "grantedToV2": {"user": {"email": "sends@example.com"}},
            },
            {"roles": ["sp.limited access"], "grantedTo": {"user": {"email": "half@example.com"}}},
            {"roles": ["read"], "hasPassword": True, "link": {"type": "view", "scope": "anonymous"}},
        ]
    },
]
BOX = {
    "files/1": {
        "id": "1",
        "type": "file",
        "owned_by": {"id": "7", "login": "ada@example.com"},
        "is_externally_owned": False,
        "path_collection": {"entries": [{"id": "0"}, {"id": "5", "name": "plans"}]},
        "shared_link": {
            "effective_access": "company",
            "effective_permission": "can_preview",
            "is_password_enabled": False,
            "unshared_at": LATER,
        },
    },
    "files/1/collaborations": {
        "entries": [
            {
                "role": "viewer",
                "status": "accepted",
                "expires_at": LATER,
                "accessible_by": {"type": "user", "id": "8", "login": "bob@example.com"},
            },
            {
                "role": "uploader",
                "status": "accepted",
                "accessible_by": {"type": "user", "id": "9", "login": "sends@example.com"},
            },
        ],
        "next_marker": "",
    },
    "folders/5/collaborations": {
        "entries": [
            {"role": "editor", "status": "accepted", "accessible_by": {"type": "group", "id": "42"}},
            {
                "role": "editor",
                "status": "pending",
                "accessible_by": {"type": "user", "id": "8", "login": "asked@example.com"},
            },
            {"role": "editor", "status": "pending", "accessible_by": None},
        ],
        "next_marker": None,
    },
}
MEMBER = {"permissions": [], "is_inherited": False}
DROPBOX = {
    "members": {
        "users": [
            {
                **MEMBER,
                "access_type": {".tag": "owner"},
                "user": {
                    "account_id": "dbid:" + "a" * 35,
                    "email": "ada@example.com",
                    "display_name": "Ada",
                    "same_team": True,
                },
            },
            {
                **MEMBER,
                "access_type": {".tag": "traverse"},
                "user": {
                    "account_id": "dbid:" + "b" * 35,
                    "email": "half@example.com",
                    "display_name": "B",
                    "same_team": True,
                },
            },
        ],
        "groups": [
            {
                **MEMBER,
                "access_type": {".tag": "viewer"},
                "group": {
                    "group_name": "staff",
                    "group_id": "g:42",
                    "group_management_type": {".tag": "company_managed"},
                    "group_type": {".tag": "team"},
                    "is_member": True,
                    "is_owner": False,
                    "same_team": True,
                },
            }
        ],
        "invitees": [],
    },
    "file": {
        "id": "id:1",
        "name": "a.txt",
        "permissions": [],
        "policy": {
            "acl_update_policy": {".tag": "editors"},
            "shared_link_policy": {".tag": "anyone"},
            "member_policy": {".tag": "anyone"},
        },
        "preview_url": "https://dropbox.example/a",
        "owner_team": {"id": "dbtid:1", "name": "Team"},
        "link_metadata": {
            "audience_options": [{".tag": "team"}],
            "current_audience": {".tag": "team"},
            "link_permissions": [],
            "password_protected": False,
            "url": "https://dropbox.example/l",
            "access_level": {".tag": "viewer"},
            "expiry": "2100-01-01T00:00:00Z",
        },
    },
}
NOTION = [
    {
        "has_more": True,
        "next_cursor": "2",
        "results": [
            {"type": "person", "person": {"email": "ada@example.com"}},
            {"type": "bot", "bot": {}, "person": {"email": "bot@example.com"}},
        ],
    },
    {"has_more": False, "next_cursor": None, "results": [{"type": "person", "person": {"email": "bob@example.com"}}]},
]


def google(answers):
    pool = SimpleNamespace(send=lambda _token, ask: answers[ask(SERVICE)])
    return connector.read_access(GoogleDrive(pool, TOKENS), "file")


SERVICE = SimpleNamespace(permissions=SimpleNamespace(list=lambda **given: 1 if given["pageToken"] else 0))


def graph(answers):
    requests = []

    def get(_tokens, path):
        requests.append(path)
        return GraphResponse(200, answers[len(requests) - 1] if len(requests) < 3 else {"value": []})

    stub = SimpleNamespace(title="OneDrive", get=get, path=str)
    return graph_sharing.read_access(stub, TOKENS, GraphDrive.of("drive"), "item")


def box(answers):
    session = BoxSession(None, 1)

    def answer_request(wish):
        answers_of_page = {} if "marker" in wish.params else answers
        return SimpleNamespace(data=answers_of_page.get(wish.url.partition("/2.0/")[2], {"entries": []}))

    sdk = SimpleNamespace(make_request=answer_request)
    session._make_client = lambda *_: sdk
    return box_sharing.read_access(session, TOKENS, "1", {})


def dropbox(answers):
    def members(*_, **__):
        return decoded(dropbox_sharing_types.SharedFileMembers_validator, answers["members"])

    sdk = SimpleNamespace(
        sharing_list_file_members=members,
        sharing_list_file_members_continue=lambda *_: decoded(
            dropbox_sharing_types.SharedFileMembers_validator, {"users": [], "groups": [], "invitees": []}
        ),
        sharing_get_file_metadata=lambda *_: decoded(
            dropbox_sharing_types.SharedFileMetadata_validator, answers["file"]
        ),
    )
    client = SimpleNamespace(call=lambda _tokens, request: request(sdk), team_id=lambda _: "dbtid:1")
    return dropbox_sharing.read_access(client, TOKENS, "id:1")


def decoded(validator, answers):
    return json_compat_obj_decode(validator, answers, strict=False)


def notion(answers):
    pages = iter([*answers, {"results": []}, {"results": []}])
    return read_access(lambda _: next(pages))


def described(name, external_id):
    """Read access of a described service's item; `answers` by path."""
    about = description.read_description(name)
    site = open_site(name, about, about.example, Settings(_env_file=None))
    stream, values = next(
        (stream, values)
        for stream in about.streams
        if stream.edition in {"", site.edition.name} and (values := stream.parse_id(external_id, site.location))
    )

    def access(answers):
        service = SimpleNamespace(
            name=name,
            about=about,
            get=lambda _tokens, address: answers.get(
                path := address.removeprefix(site.base), answers.get(path.partition("?")[0])
            ),
            read_json=lambda answer: answer,
            next_page=lambda *_: "",
        )
        fields = frozenset(stream.fields)
        reader = AccessReader(service, TOKENS, site, stream.permissions, fields, Answers(), lambda *_: None)
        return reader.read(values)

    return access


REPOSITORY = "/repos/octo-org/handbook"
GITHUB = {
    REPOSITORY: {"private": True, "visibility": "private"},
    f"{REPOSITORY}/collaborators": [
        {"login": "ada", "permissions": {"pull": True}},
        {"login": "bob", "permissions": {"pull": True}},
    ],
    "/users/ada": {"login": "ada", "email": "ada@example.com", "suspended_at": None},
    "/users/bob": {"login": "bob", "email": "bob@example.com", "suspended_at": None},
}


def limit_of(users, groups):
    restrictions = {
        "user": {"results": [{"type": "known", "accountId": name, "email": f"{name}@example.com"} for name in users]},
        "group": {"results": [{"type": "group", "id": name} for name in groups]},
    }
    return {"operation": "read", "restrictions": restrictions}


CONFLUENCE = {
    "/api/v2/pages/1": {"id": "1", "spaceId": "77"},
    "/rest/api/content/1/restriction/byOperation/read": limit_of(["ada", "bob", "cyd"], []),
    "/api/v2/pages/1/ancestors": {"results": [{"id": "3", "type": "page"}, {"id": "2", "type": "page"}]},
    "/rest/api/content/3/restriction/byOperation/read": limit_of(["ada", "bob"], ["board"]),
    "/rest/api/content/2/restriction/byOperation/read": limit_of([], ["staff"]),
    "/api/v2/spaces/77/permissions": {
        "results": [
            {"principal": {"type": "group", "id": "staff"}, "operation": {"key": "read", "targetType": "space"}},
            {"principal": {"type": "user", "id": "bob"}, "operation": {"key": "read", "targetType": "space"}},
            {"principal": {"type": "user", "id": "cyd"}, "operation": {"key": "delete", "targetType": "page"}},
        ]
    },
    "/rest/api/user": {"accountId": "bob", "email": "bob@example.com"},
    "/rest/api/group/staff/membersByGroupId": {
        "results": [{"accountId": name, "email": f"{name}@example.com"} for name in ("ada", "bob")]
    },
    "/rest/api/group/board/membersByGroupId": {"results": [{"accountId": "dan", "email": "dan@example.com"}]},
}
JIRA = {
    "/rest/api/2/user/viewissue/search": [
        {"accountId": "ada", "accountType": "atlassian", "active": True, "emailAddress": "ada@example.com"},
        {"accountId": "bob", "accountType": "atlassian", "active": True, "emailAddress": "bob@example.com"},
        {"accountId": "shop", "accountType": "customer", "active": True, "emailAddress": "shop@example.com"},
    ]
}
SLACK = {
    "/conversations.info": {"ok": True, "channel": {"is_private": True}},
    "/conversations.members": {"ok": True, "members": ["U1", "U2"]},
    "/users.info?user=U1": {"ok": True, "user": {"deleted": False, "profile": {"email": "ada@example.com"}}},
    "/users.info?user=U2": {"ok": True, "user": {"deleted": False, "profile": {"email": "bob@example.com"}}},
}

VENDORS = {
    "github": (described("GITHUB", "https://github.com/octo-org/handbook/issues/1"), GITHUB),
    "confluence": (
        described("CONFLUENCE", "https://acme.atlassian.net/wiki/pages/viewpage.action?pageId=1"),
        CONFLUENCE,
    ),
    "jira": (described("JIRA", "https://acme.atlassian.net/browse/HAND-1"), JIRA),
    "slack": (described("SLACK", "https://acme.slack.com/archives/C0123456789/p1.0"), SLACK),
    "google": (google, GOOGLE),
    "graph": (graph, GRAPH),
    "box": (box, BOX),
    "dropbox": (dropbox, DROPBOX),
    "notion": (notion, NOTION),
}
NAME_FIELDS = {
    *("emailAddress", "domain", "email", "userPrincipalName", "loginName", "login", "id", "group_id", "account_id"),
    *("display_name", "@odata.nextLink", "accountId", "emailAddress", "members"),
}
"""Fields of names or continuations: another text would be another name."""
SAME = {
    *("group microsoft:42", "group microsoft:43", "group microsoft:site:drive:3"),
    *("group github:user:ada", "group github:user:bob", "group confluence:user:ada", "group confluence:user:bob"),
    *("group jira:user:ada", "group jira:user:bob", "group slack:user:U1", "group slack:user:U2"),
    *(f"group slack:user:{member}" for member in ("unheardOf", "\x00")),  # a member that Slack names, without more
}
"""Groups named by an address or another name in the whole answer."""
LIMITS = {
    *("deleted", "expirationTime", "view", "inheritedPermissionsDisabled", "permissionDetails", "inherited"),
    *("expirationDateTime", "hasPassword", "link", "expires_at", "unshared_at", "expiry", "password_protected"),
    *("is_password_enabled", "access_level", "private", "visibility", "is_private", "restrictions"),
    "/api/v2/pages/1/ancestors",
}
"""Restricting fields: without the field there is no restriction, as at the vendors."""
STRANGE = [None, "", "unheardOf", 7, -1.5, True, False, [], {}, ["unheardOf"], [None], {"a": None}, [[]], "\x00"]


def places(answer, above=()):
    """Return the path of every value in an answer."""
    inner = answer.items() if isinstance(answer, dict) else enumerate(answer) if isinstance(answer, list) else ()
    for key, value in inner:
        yield (*above, key)
        yield from places(value, (*above, key))


def changed(answer, changes):
    """Return a copy with the changes; a change at a missing path has no effect."""
    changed_answer = copy.deepcopy(answer)
    for path, change, value in changes:
        holder = changed_answer
        try:
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]]
        except (LookupError, TypeError):
            continue
        if not isinstance(holder, dict | list):
            continue
        field = next((key for key in reversed(path) if isinstance(key, str)), "")
        is_limit = bool(LIMITS & set(path))
        if change == "drop":
            if not is_limit and isinstance(holder, dict):
                del holder[path[-1]]
        elif change == "more" and isinstance(holder[path[-1]], dict):
            holder[path[-1]][f"more{value}"] = value
        elif change == "more" and isinstance(holder[path[-1]], list):
            holder[path[-1]].append(value)
        elif change == "set" and not (isinstance(value, str) and field in NAME_FIELDS) and not (is_limit and not value):
            holder[path[-1]] = value
    return changed_answer


def names(access: SourceAccess):
    return {*access.users, *(f"group {group}" for group in access.groups), *(["everyone"] if access.public else [])}


@pytest.mark.parametrize("vendor", VENDORS)
def test_whole_answers_grant_access(vendor):
    access, answers = VENDORS[vendor]
    assert len(names(access(answers))) >= 2


@pytest.mark.parametrize("vendor", VENDORS)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_malformed_answers_grant_no_access_and_raise_no_error(vendor, data):
    access, answers = VENDORS[vendor]
    ways = sorted(
        (path for path in places(answers) if len(path) > 1), key=repr
    )  # each answer is an object, or none at all
    change = st.tuples(st.sampled_from(ways), st.sampled_from(["drop", "set", "more"]), st.sampled_from(STRANGE))
    changed_answers = changed(answers, data.draw(st.lists(change, min_size=1, max_size=4)))
    try:
        source_access = access(changed_answers)
    except (Skippable, Retryable) as error:  # an empty object may be another server's answer, so it is asked again
        assert str(error)  # noqa: PT017 - the reason that stands on the document
        return
    assert names(source_access) <= names(access(answers)) | SAME
    assert all(isinstance(name, str) and name for name in (*source_access.users, *source_access.groups))
