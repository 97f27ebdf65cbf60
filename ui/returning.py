"""Return to the opened page and its address after sign-in at the identity provider.

Streamlit leads from the provider to the app's first page (`st.login` takes no address), so that the page is kept in the
memory of this process, by the cookie that Streamlit gives each browser against forged requests.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from threading import Lock
from urllib.parse import quote, urlencode, urlsplit

from ui.client import Json

COOKIE = "_streamlit_xsrf"
CALLBACK = "/oauth2callback"
SECONDS = 600.0
"""How long somebody may take at the provider."""
MOST = 10_000
LONGEST = 4_096
"""Characters of an address that is kept."""
_PATH = re.compile(r"/(?!/)[\w./-]*")
_kept: OrderedDict[str, tuple[float, str]] = OrderedDict()
_lock = Lock()


def remember_address(browser: str | None, url: str | None, query: Json) -> None:
    """Keep the address of a page, of this app alone, for the browser with this cookie. Nothing without one."""
    path = urlsplit(url or "").path
    address = quote(path) + (f"?{urlencode(query, doseq=True)}" if query else "")
    if not browser or not _PATH.fullmatch(path) or len(address) > LONGEST:
        return
    with _lock:
        _kept.pop(browser, None)
        _kept[browser] = time.monotonic(), address
        while len(_kept) > MOST:
            _kept.popitem(last=False)


def take_address(browser: str | None) -> str | None:
    """The address kept for a browser, once; None if there is none, or it is too old."""
    with _lock:
        at, address = _kept.pop(browser or "", (0.0, ""))
    return address if address and time.monotonic() - at <= SECONDS else None


def browser_of(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Return the cookie that identifies a browser, from a request's headers."""
    try:
        cookies = SimpleCookie("; ".join(value.decode("latin-1") for name, value in headers if name == b"cookie"))
    except CookieError:
        return None
    return cookies[COOKIE].value if COOKIE in cookies else None
