"""Identity of web pages: one spelling of an address (RFC 3986, 6.2), without session and tracking parameters."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit

import idna

from retrieval.network.urls import DEFAULT_PORTS

# From Firefox's query stripping list (https://firefox.settings.services.mozilla.com, collection query-stripping) and
# ClearURLs (https://docs.clearurls.xyz/latest/specs/rules/): only names that no site uses for its own content.
TRACKING_PARAMETER: Final = re.compile(
    r"""(?:utm|mtm|pk|piwik|matomo|hsa|itm|oly_anon|oly_enc|guce_referrer|ml_subscriber|vero|fb_action)_\w*
    | (?:d|g|fb|tt|tw|y|ys)clid | (?:irclick|msclk|igsh)id | [gw]braid | gclsrc | gad_(?:source|campaignid)
    | __hs(?:fp|sc|tc) | _hs(?:enc|mi) | hsctatracking | __s | _branch_match_id | _g[al] | _openstat | ck_subscriber_id
    | dpg_source | ef_id | epik | fb_(?:ref|source) | guce_referrer | igsh | li_fat_id | mc_[ce]id | mkt_tok
    | ml_subscriber | oft_(?:c|ck|d|ids?|k|lk|sk) | rb_clickid | rdt_cid | s_cid | sc_?cid | srsltid | wickedid | xtor
    | zanpid""",
    re.IGNORECASE | re.VERBOSE,
)
# From the canonicalization of the Internet Archive's crawler (https://github.com/internetarchive/surt).
SESSION_PARAMETER: Final = re.compile(
    r"jsessionid|phpsessid|aspsessionid\w*|asp\.net_sessionid|cfid|cftoken|oscsid|xtcsid|zenid", re.IGNORECASE
)
# Sites use these for pages of their own, too: they count as sessions only with the value of one.
_AMBIGUOUS_PARAMETER: Final = re.compile(r"s|sid|sess(?:ion)?(?:_?id)?", re.IGNORECASE)
_SESSION_VALUE: Final = re.compile(r"(?=.*\d)(?=.*[a-z])([0-9a-f]{8,}|[0-9a-z_,-]{16,})", re.IGNORECASE)
_COOKIELESS: Final = re.compile(r"/(?:\([A-Z]\([0-9a-z_-]{16,}\)\))+(?=/)", re.IGNORECASE)  # of ASP.NET
_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SAFE: Final = "%/:@!$&'()*+,;=?[]"


def page_key(url: str) -> str:
    """Return the one spelling of an http or https address; of anything else, the address without its fragment."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = ascii_host(parts.hostname or "")
    except ValueError:
        return url.partition("#")[0]
    if parts.scheme not in DEFAULT_PORTS or not host or "@" in parts.netloc:
        return url.partition("#")[0]
    host = f"[{host}]" if ":" in host else host
    netloc = host if port in (None, DEFAULT_PORTS[parts.scheme]) else f"{host}:{port}"
    path = _without_dots(_normalize(parts.path.replace("\\", "/") or "/"))
    path = _COOKIELESS.sub("", _without_sessions(path))
    return parts._replace(netloc=netloc, path=path, query=_query(parts.query), fragment="").geturl()


def ascii_host(name: str) -> str:
    """Return a host in any script as it is dialled, so that both spellings are one."""
    name = name.removesuffix(".")
    try:
        return name if name.isascii() else idna.encode(name, uts46=True).decode()
    except idna.IDNAError:
        return name


def _normalize(text: str) -> str:
    """Decode escapes of unreserved characters, and escape what an address does not contain."""

    def decode(escape: re.Match[str]) -> str:
        if not escape[1]:
            return "%25"
        character = chr(int(escape[1], 16))
        return character if character in _UNRESERVED else escape[0].upper()

    return quote(_ESCAPED.sub(decode, text), safe=_SAFE, errors="replace")


def _without_dots(path: str) -> str:
    """Resolve `.` and `..`; escaped dots count, because they are decoded before."""
    segments = list[str]()
    for segment in path.split("/"):
        if segment == ".." and len(segments) > 1:
            segments.pop()
        elif segment not in (".", ".."):
            segments.append(segment)
    return "/".join(segments) + ("/" if path.endswith(("/.", "/..")) else "")


def _without_sessions(path: str) -> str:
    """Drop session parameters of path segments, such as `;jsessionid=…`."""
    if ";" not in path:
        return path
    segments = [segment.split(";") for segment in path.split("/")]
    return "/".join(";".join([name, *(part for part in parts if _counts(part))]) for name, *parts in segments)


def _query(query: str) -> str:
    """Order the parameters by name; those of one name keep their order."""
    parameters = [_normalize(part).replace("%20", "+") for part in query.split("&") if part and _counts(part)]
    return "&".join(sorted(parameters, key=lambda part: part.partition("=")[0]))


def _counts(parameter: str) -> bool:
    """Tell whether a parameter belongs to the page."""
    name, _, value = parameter.partition("=")
    if TRACKING_PARAMETER.fullmatch(name) or SESSION_PARAMETER.fullmatch(name):
        return False
    return not (_AMBIGUOUS_PARAMETER.fullmatch(name) and _SESSION_VALUE.fullmatch(value))
