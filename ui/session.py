"""Signed-in person, current namespace and rights. Lives in the browser session; never in a URL."""

from __future__ import annotations

import os
import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st

from ui import sign_ins
from ui.client import Api, ApiError, Json
from ui.parts import waiting

DEFAULT_API = "http://127.0.0.1:8000"
NAMESPACES = 50
"""How many are offered to choose from; others are found by their names."""
UNBOUND = frozenset({"namespaces:write", "admin"})
"""Rights that a key bound to a namespace or a tenant cannot use."""
OF_NAMESPACE = (
    *("cursor", "document", "chunk", "run", "runs", "of", "evaluation", "questions"),
    *("site", "connection", "archive", "removals", "set", "tab"),
)
"""What an address names within a namespace, and goes when another one is chosen."""
POSITION = "-position"
"""Ends the names of parameters with the number of rows before a cursor."""
_WHO = "who"
_SEEN = "namespace"
_TENANT = "tenant_chosen"


@dataclass(frozen=True, slots=True)
class Person:
    """A signed-in person: their API, the name and rights of their key, and the namespace and tenant it is bound to.

    With OpenID Connect the key is the person's own token, `key_name` their name.
    """

    api: Api
    key_name: str
    scopes: frozenset[str]
    namespace: str | None
    tenant: str | None
    role: str | None = None
    """Of a person who signed in by OpenID Connect; None with a key."""
    sees_all: bool = True
    """Whether what looks beyond one user, such as activity and evaluations, is answered."""
    key_id: str | None = None
    """Of the key that signed in; None with OpenID Connect."""

    def may(self, scope: str) -> bool:
        """Tell whether the key has this right; pages do not offer actions without it."""
        bound = self.namespace is not None or self.tenant is not None
        return scope in self.scopes and not (bound and scope in UNBOUND)


def api_address() -> str:
    return os.environ.get("RETRIEVAL_API_URL", DEFAULT_API).rstrip("/")


def sign_in(key: str, tenant: str = "") -> Person:
    person = find_person(key, tenant)
    st.session_state[_WHO] = person
    return person


def find_person(api_key: str, tenant: str = "") -> Person:
    """Ask the API who this key is. ApiError if it is no key."""
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


def offers_openid() -> bool:
    """Tell whether the installation names an identity provider for this app."""
    return "is_logged_in" in st.user


def openid_token() -> str | None:
    if not offers_openid() or not st.user.is_logged_in:
        return None
    return next(iter(st.user.tokens.values()), None)


def sign_in_by_token() -> ApiError | None:
    """Sign in with the identity provider's token, if there is one. Return the error if the API refuses it."""
    id_token = openid_token()
    if id_token is None:
        return None
    try:
        sign_in(id_token, st.session_state.get(_TENANT) or "")
    except ApiError as error:
        return error
    return None


def cookie_id() -> str | None:
    """Return the id of the browser's sign-in by a key (`ui.sign_ins`)."""
    return st.context.cookies.get(sign_ins.COOKIE)


def restore_sign_in() -> ApiError | None:
    """Sign in as the browser did before, by a key or at the identity provider. Return the error of a refusal.

    A sign-in with a key that was revoked, or that another tab ended, ends here too.
    """
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
    st.session_state[_WHO] = replace(signed_in, api=replace(signed_in.api, tenant=name.strip()))
    st.session_state[_TENANT] = name.strip()


def current_person() -> Person:
    """The signed-in person. Ends the script run if there is none: pages run only behind the sign-in form."""
    signed_in = st.session_state.get(_WHO)
    if not isinstance(signed_in, Person):
        st.stop()
    return signed_in


def silence_notices() -> AbstractContextManager[None]:
    """A run of a page, or of a part of it that runs by itself: see `client.Silence`."""
    signed_in = st.session_state.get(_WHO)
    return signed_in.api.silence if isinstance(signed_in, Person) else nullcontext()


def is_signed_in() -> bool:
    return isinstance(st.session_state.get(_WHO), Person)


def sign_out() -> None:
    """Forget the key and everything that was seen with it; at the identity provider, too, where it signed in."""
    sign_ins.end_sign_in(cookie_id())
    st.session_state.clear()
    st.query_params.clear()
    if openid_token() is not None:
        st.logout()


def list_namespaces(person: Person, name: str = "", size: int = NAMESPACES) -> Json:
    """List the namespaces whose names contain `name`, those with the most documents first, as a page of the API."""
    if not person.may("namespaces:read"):
        bound = [{"id": person.namespace, "name": person.namespace}] if person.namespace else []
        return {"namespaces": bound, "totalCount": len(bound)}
    return person.api.get("/v1/namespaces", name=name.strip(), sort="documents", pageSize=size)


def find_namespace(person: Person, namespace: str | None) -> Json | None:
    """Return a namespace; None if there is none with this id that the person may see."""
    if not namespace or not person.may("namespaces:read"):
        return {"id": namespace, "name": namespace} if namespace and namespace == person.namespace else None
    try:
        return dict(person.api.get(f"/v1/namespaces/{quote(namespace, safe='')}")["namespace"])
    except ApiError as error:
        if error.status != 404:
            raise
        return None


def find_current_namespace(person: Person) -> Json | None:
    """Return the namespace of the address, else the one used last, else the one with the most documents."""
    for namespace in (
        read_parameter("namespace"),
        st.session_state.get(_SEEN),
        sign_ins.read_namespace(_owner(person)),
    ):
        if (space := find_namespace(person, namespace)) is not None:
            return space
    spaces: list[Json] = list_namespaces(person, size=1)["namespaces"]
    return spaces[0] if spaces else None


def read_parameter(name: str) -> str | None:
    """A value that the page's address carries, so that a link shows the same thing; empty counts as absent."""
    return st.query_params.get(name) or None


def read_id(name: str) -> str | None:
    """The id that the page's address carries, as a part of a path: what is no id names nothing that there is."""
    value = read_parameter(name)
    return quote(value, safe="") if value else None


def set_parameters(**values: str | None) -> None:
    """Put values into the page's address, or take them out with None: one step of the browser's history at most."""
    previous = st.query_params.to_dict()
    updated = {name: value for name, value in {**previous, **values}.items() if value}
    for name in [name for name in updated if name.endswith(POSITION) and name.removesuffix(POSITION) not in updated]:
        del updated[name]
    if updated != previous:
        st.query_params.from_dict(updated)


def go_to(**values: str | None) -> None:
    """Put values into the page's address and run the whole page anew."""
    set_parameters(**values)
    st.rerun()


def remember_namespace(person: Person, namespace: str) -> None:
    """Keep the namespace that pages open with, until another one is chosen, in this session and after the next
    sign-in."""
    if st.session_state.get(_SEEN) != namespace:
        st.session_state[_SEEN] = namespace
        sign_ins.keep_namespace(_owner(person), namespace)


def _owner(person: Person) -> str:
    return "\n".join((person.api.base, person.key_id or person.key_name, person.api.tenant))


def key_has_ended(error: ApiError) -> bool:
    return error.status == 401


COOKIE = "_streamlit_xsrf"
CALLBACK = "/oauth2callback"
KEPT_SECONDS = 600
"""Seconds that a person has for the sign-in at the provider."""
LONGEST = 4_096
"""Characters of an address that is kept."""
_PATH = re.compile(r"/(?!/)[\w./-]*")


@st.cache_resource(ttl=KEPT_SECONDS, max_entries=10_000, show_spinner=False)
def _kept_addresses(browser: str) -> list[str]:  # noqa: ARG001  (what they are kept by)
    return []


def remember_address(browser: str | None, url: str | None, query: Json) -> None:
    """Keep the address of a page, of this app alone, for the browser with this cookie. Nothing without one."""
    path = urlsplit(url or "").path
    address = quote(path) + (f"?{urlencode(query, doseq=True)}" if query else "")
    if browser and _PATH.fullmatch(path) and len(address) <= LONGEST:
        _kept_addresses.clear(browser)
        _kept_addresses(browser).append(address)


def take_address(browser: str | None) -> str | None:
    """The address kept for a browser, once; None if there is none, or it is too old."""
    addresses = _kept_addresses(browser) if browser else []
    return addresses.pop() if addresses else None
