"""Normalize web page URLs (RFC 3986, 6.2), without session and tracking parameters."""

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
# Sites use these for pages of their own, too: they count as sessions only with a session's value.
_AMBIGUOUS_PARAMETER: Final = re.compile(r"s|sid|sess(?:ion)?(?:_?id)?", re.IGNORECASE)
_SESSION_VALUE: Final = re.compile(r"(?=.*\d)(?=.*[a-z])([0-9a-f]{8,}|[0-9a-z_,-]{16,})", re.IGNORECASE)
_SESSION_SEGMENT: Final = re.compile(r"/(?:\([A-Z]\([0-9a-z_-]{16,}\)\))+(?=/)", re.IGNORECASE)  # of ASP.NET
_ESCAPE_PATTERN: Final = re.compile(r"%([0-9A-Fa-f]{2})?")
_UNRESERVED_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SAFE_CHARACTERS: Final = "%/:@!$&'()*+,;=?[]"


def page_key(url: str) -> str:
    """Normalize an http or https URL; other URLs only lose the fragment."""
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
    path = _SESSION_SEGMENT.sub("", _without_sessions(path))
    return parts._replace(netloc=netloc, path=path, query=_normalize_query(parts.query), fragment="").geturl()


def ascii_host(name: str) -> str:
    """Encode an international host name (IDNA)."""
    name = name.removesuffix(".")
    try:
        return name if name.isascii() else idna.encode(name, uts46=True).decode()
    except idna.IDNAError:
        return name


def _normalize(text: str) -> str:
    """Decode escapes of unreserved characters and encode invalid ones."""

    def decode(escape: re.Match[str]) -> str:
        if not escape[1]:
            return "%25"
        character = chr(int(escape[1], 16))
        return character if character in _UNRESERVED_CHARACTERS else escape[0].upper()

    return quote(_ESCAPE_PATTERN.sub(decode, text), safe=_SAFE_CHARACTERS, errors="replace")


def _without_dots(path: str) -> str:
    """Resolve `.` and `..`, after decoding."""
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
    return "/".join(";".join([name, *(part for part in parts if _identifies_page(part))]) for name, *parts in segments)


def _normalize_query(query: str) -> str:
    """Sort parameters by name, stable within a name."""
    parameters = [_normalize(part).replace("%20", "+") for part in query.split("&") if part and _identifies_page(part)]
    return "&".join(sorted(parameters, key=lambda part: part.partition("=")[0]))


def _identifies_page(parameter: str) -> bool:
    """Check for a parameter of the page itself."""
    name, _, value = parameter.partition("=")
    if TRACKING_PARAMETER.fullmatch(name) or SESSION_PARAMETER.fullmatch(name):
        return False
    return not (_AMBIGUOUS_PARAMETER.fullmatch(name) and _SESSION_VALUE.fullmatch(value))
