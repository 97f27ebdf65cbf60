"""Signed-in person, rights and current namespace, kept in the browser session."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st

from ui import exports, sign_ins
from ui.client import Api, ApiError, Json
from ui.parts import waiting

DEFAULT_API_URL = "http://127.0.0.1:8000"
# Others can be searched by name.
NAMESPACE_PAGE_SIZE = 50
# Rights that a key bound to a namespace or tenant cannot use.
UNBOUND_SCOPES = frozenset({"namespaces:write", "admin"})
# Address parameters removed when another namespace is chosen.
NAMESPACE_PARAMETERS = (
    *("cursor", "document", "chunk", "run", "runs", "retries", "of", "evaluation", "questions"),
    *("site", "connection", "archive", "removals", "set", "tab"),
)
# Parameters with the number of rows before a cursor.
POSITION_SUFFIX = "-position"
PERSON_KEY = "who"
NAMESPACE_KEY = "namespace"
TENANT_KEY = "tenant_chosen"
EXPORT_KEY = "export"


@dataclass(frozen=True, slots=True)
class Person:
    """Signed-in person: API, name, rights and bounds of the key."""

    # With OpenID Connect the key is the person's token.

    api: Api
    key_name: str
    scopes: frozenset[str]
    namespace: str | None
    tenant: str | None
    # With OpenID Connect; None with a key.
    role: str | None = None
    # False for keys and roles limited to one user's view.
    sees_all: bool = True
    # None with OpenID Connect.
    key_id: str | None = None

    def may(self, scope: str) -> bool:
        """Check for a right of the key."""
        bound = self.namespace is not None or self.tenant is not None
        return scope in self.scopes and not (bound and scope in UNBOUND_SCOPES)


def api_address() -> str:
    return os.environ.get("RETRIEVAL_API_URL", DEFAULT_API_URL).rstrip("/")


def sign_in(key: str, tenant: str = "") -> Person:
    person = find_person(key, tenant)
    st.session_state[PERSON_KEY] = person
    return person


def find_person(api_key: str, tenant: str = "") -> Person:
    """Read the key's name and rights from the API; ApiError if invalid."""
    api = Api(api_address(), api_key.strip(), tenant.strip(), waiting.show_notice)
    key = api.get("/v1/keys/current")["key"]
    role = key.get("role")
    is_bound = key.get("principal") or key.get("principalRequired")
    sees_all = not is_bound if role is None else role != "viewer"
    bounds = key["namespaceId"], key["tenantId"]
    return Person(api, key["name"], frozenset(key["scopes"]), *bounds, role, sees_all, key.get("id"))


def own_key_ended(person: Person) -> bool:
    try:
        person.api.get("/v1/keys/current")
    except ApiError as error:
        if not key_has_ended(error):
            raise
        return True
    return False


def has_openid() -> bool:
    """Check for an identity provider; the app then offers both ways."""
    try:
        return "auth" in st.secrets
    except FileNotFoundError:
        return False


def openid_token() -> str | None:
    if not has_openid() or not st.user.is_logged_in:
        return None
    return next(iter(st.user.tokens.values()), None)


def sign_in_by_token() -> ApiError | None:
    """Sign in with the identity provider's token, if any; return the API's refusal."""
    id_token = openid_token()
    if id_token is None:
        return None
    try:
        sign_in(id_token, st.session_state.get(TENANT_KEY) or "")
    except ApiError as error:
        return error
    return None


def cookie_id() -> str | None:
    """Return the id of the browser's sign-in."""
    return st.context.cookies.get(sign_ins.COOKIE_NAME)


def restore_sign_in() -> ApiError | None:
    """Restore the browser's sign-in by key or identity provider; return the API's refusal."""
    # A sign-in with a revoked key, or ended in another tab, ends here too.
    stored = sign_ins.read_sign_in(cookie_id())
    if is_signed_in():
        if stored is None and cookie_id() is not None and openid_token() is None:
            st.session_state.clear()
        return None
    if stored is None:
        return sign_in_by_token()
    try:
        sign_in(stored.key, stored.tenant)
    except ApiError as error:
        if key_has_ended(error):
            sign_ins.end_sign_in(cookie_id())
        return error
    return None


def choose_tenant(name: str) -> None:
    signed_in = current_person()
    st.session_state[PERSON_KEY] = replace(signed_in, api=replace(signed_in.api, tenant=name.strip()))
    st.session_state[TENANT_KEY] = name.strip()


def current_person() -> Person:
    """Return the signed-in person, or stop the script run."""
    signed_in = st.session_state.get(PERSON_KEY)
    if not isinstance(signed_in, Person):
        st.stop()
    return signed_in


def guard_timeouts() -> AbstractContextManager[None]:
    """Return the timeout guard of the person's API for one page run."""
    signed_in = st.session_state.get(PERSON_KEY)
    return signed_in.api.silence if isinstance(signed_in, Person) else nullcontext()


def is_signed_in() -> bool:
    return isinstance(st.session_state.get(PERSON_KEY), Person)


def sign_out() -> None:
    """Forget the key and all session data; sign out at the identity provider too."""
    exports.withdraw(st.session_state.get(EXPORT_KEY))
    sign_ins.end_sign_in(cookie_id())
    st.session_state.clear()
    st.query_params.clear()
    if openid_token() is not None:
        st.logout()


def list_namespaces(person: Person, name: str = "", size: int = NAMESPACE_PAGE_SIZE) -> Json:
    """List namespaces by a part of the name, most documents first."""
    if not person.may("namespaces:read"):
        bound = [{"id": person.namespace, "name": person.namespace}] if person.namespace else []
        return {"namespaces": bound, "totalCount": len(bound)}
    return person.api.recall("/v1/namespaces", name=name.strip(), sort="documents", pageSize=size)


def namespace_names(person: Person, namespaces: Iterable[str | None]) -> dict[str, str]:
    """Return the names of known namespaces by id."""
    names = {space["id"]: space["name"] for space in list_namespaces(person)["namespaces"]}
    for namespace in set(filter(None, namespaces)) - names.keys():
        if (space := find_namespace(person, namespace)) is not None:
            names[namespace] = space["name"]
    return names


def find_namespace(person: Person, namespace: str | None) -> Json | None:
    """Return a namespace; None if unknown or not visible to the person."""
    if not namespace or not person.may("namespaces:read"):
        return {"id": namespace, "name": namespace} if namespace and namespace == person.namespace else None
    try:
        return dict(person.api.recall(f"/v1/namespaces/{quote(namespace, safe='')}")["namespace"])
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def find_current_namespace(person: Person) -> Json | None:
    """Return the namespace of the address, else the last used, else the largest; None without any."""
    for namespace in (
        read_parameter("namespace"),
        st.session_state.get(NAMESPACE_KEY),
        sign_ins.read_namespace(owner_id(person)),
    ):
        if (space := find_namespace(person, namespace)) is not None:
            return space
    spaces: list[Json] = list_namespaces(person, size=1)["namespaces"]
    return spaces[0] if spaces else None


def read_parameter(name: str) -> str | None:
    """Return a parameter of the page's address; None if absent or empty."""
    return st.query_params.get(name) or None


def read_id(name: str) -> str | None:
    """Return an id of the page's address, quoted for a path."""
    value = read_parameter(name)
    return quote(value, safe="") if value else None


def set_parameters(**values: str | None) -> None:
    """Set or remove (None) parameters of the page's address, at most one history step."""
    previous = st.query_params.to_dict()
    updated = {name: value for name, value in {**previous, **values}.items() if value}
    for name in [
        name for name in updated if name.endswith(POSITION_SUFFIX) and name.removesuffix(POSITION_SUFFIX) not in updated
    ]:
        del updated[name]
    if updated != previous:
        st.query_params.from_dict(updated)


def go_to(**values: str | None) -> None:
    """Set parameters of the page's address and rerun the page."""
    set_parameters(**values)
    st.rerun()


def remember_namespace(person: Person, namespace: str) -> None:
    """Store the namespace for later pages and sign-ins."""
    if st.session_state.get(NAMESPACE_KEY) != namespace:
        st.session_state[NAMESPACE_KEY] = namespace
        sign_ins.keep_namespace(owner_id(person), namespace)


def owner_id(person: Person) -> str:
    return "\n".join((person.api.base, person.key_id or person.key_name, person.api.tenant))


def offer_export(person: Person, namespace: str, config: Json) -> str:
    """Return the token of a download of the documents of a filter; the session's previous one ends."""
    exports.withdraw(st.session_state.get(EXPORT_KEY))
    st.session_state[EXPORT_KEY] = exports.offer(person.api, namespace, config, cookie_id())
    return str(st.session_state[EXPORT_KEY])


def key_has_ended(error: ApiError) -> bool:
    return error.status == 401


BROWSER_COOKIE = "_streamlit_xsrf"
CALLBACK_PATH = "/oauth2callback"
# Time for the sign-in at the provider.
ADDRESS_SECONDS = 600
MAX_ADDRESS_CHARACTERS = 4_096
PATH_PATTERN = re.compile(r"/(?!/)[\w./-]*")


@st.cache_resource(ttl=ADDRESS_SECONDS, max_entries=10_000, show_spinner=False)
def _stored_addresses(browser: str) -> list[str]:  # noqa: ARG001  (what they are kept by)
    return []


def remember_address(browser: str | None, url: str | None, query: Json) -> None:
    """Store an address of this app for the browser with this cookie."""
    path = urlsplit(url or "").path
    address = quote(path) + (f"?{urlencode(query, doseq=True)}" if query else "")
    if browser and PATH_PATTERN.fullmatch(path) and len(address) <= MAX_ADDRESS_CHARACTERS:
        _stored_addresses.clear(browser)
        _stored_addresses(browser).append(address)


def take_address(browser: str | None) -> str | None:
    """Return the stored address of a browser once; None without any."""
    addresses = _stored_addresses(browser) if browser else []
    return addresses.pop() if addresses else None
