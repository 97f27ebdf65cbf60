"""Main text of a page for comparison, and detection of sign-in and error pages."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, unquote_plus, urlsplit

from connectors.http import html

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_AROUND: Final = "nav, aside, header:not(main header, article header), footer, [role=navigation], [role=contentinfo]"
_UNREAD: Final = (
    "script, style, noscript, template, svg, iframe, form, input, select, button, [hidden], head,"
    ' [id*="footer" i], [class*="footer" i], [id*="clock" i], [class*="clock" i], [class*="timestamp" i]'
)
_MAIN: Final = "main, [role=main]"
# Most letters of a sign-in or error page, without forms.
SHORT_LETTERS: Final = 400
# With the words in its title or heading.
TITLED_LETTERS: Final = 4000
_SIGN_IN_FORM: Final = (
    'input[type="password" i], input[autocomplete="username" i], form[action*="login" i], form[action*="signin" i],'
    ' form[action*="sign-in" i], form[action*="sign_in" i]'
)
# Words of a title or heading.
_SIGN_IN: Final = re.compile(
    r"\b(sign(ed)?[ -]?in|log(ged)?[ -]?[io]n|log into|authenticat\w+|password|anmeld\w+|einloggen"
    r"|passwort|connexion|connectez|identifi\w+"
    r"|iniciar sesi[oó]n|acceder|accedi|accesso|entrar|inloggen|logowanie|вход|войти)\b"
    r"|登录|ログイン|로그인",
    re.IGNORECASE,
)
# Words of a text.
_DEMAND: Final = re.compile(
    r"\b(sign|log)(ged)?[ -]?in (to|before|first)\b|\b(please|must|(need|have) to) (be )?(sign|log)(ged)?[ -]?in\b"
    r"|melden sie sich an|bitte (einloggen|anmelden)|connectez-vous|inicia sesi[oó]n|(accedi|entre) per|members only",
    re.IGNORECASE,
)
_MISSING: Final = re.compile(
    r"\b(404|410|not (be )?found|can(no|')t find|could(n't| not) find|no longer (available|exists?|here)"
    r"|no such page|(does|do)(n't| not) exist|has been (removed|deleted)"
    r"|nicht (mehr )?(gefunden|vorhanden|verfügbar)|existiert nicht|introuvable|n'existe (pas|plus)"
    r"|no (encontrad[ao]|existe)|non (trovat[ao]|esiste)|não encontrad[ao]"
    r"|niet gevonden|nie znaleziono|не найден\w*|不存在|找不到|見つかりません)",
    re.IGNORECASE,
)
# Lines that a server writes anew with each answer: at the beginning or the end of a page.
_STAMP: Final = re.compile(
    r"\d{1,2}:\d{2}|\d ?m?s\b|\b(generated|rendered|served|loaded|visitors?|hits|views|session|request|now|today"
    r"|erzeugt|geladen|besucher|stand|généré|visites|generad[ao])\b|[0-9a-f-]{16,}",
    re.IGNORECASE,
)
_CHANGING: Final = re.compile(
    r"[0-9a-f-]{16,}|\d+|\b(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)?\b|\b[ap]m\b", re.IGNORECASE
)
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}:\d{2}")
_STAMP_LETTERS: Final = 120
_UNSTAMPED_LETTERS: Final = 40


@dataclass(frozen=True, slots=True)
class PageText:
    """Digest of the main text, and signs of a sign-in or error page."""

    digest: str = ""
    # Digest without the address, parts of it and numbers: equal for a gate at several addresses.
    masked: str = ""
    signs_in: bool = False
    # A form and words of a sign-in.
    certainly: bool = False
    # Weaker signs, that count for a gate at several addresses.
    demands_sign_in: bool = False
    says_missing: bool = False
    is_titled_missing: bool = False
    # Only frames, whose pages are read by themselves.
    is_frameset: bool = False


def read_text(parsed: LexborHTMLParser, title: str, url: str) -> PageText:
    """Read the main text of a page; removes other elements of `parsed`."""
    heading = " ".join([title, *(node.text() for node in parsed.css("h1"))])
    has_frames = parsed.css_first("frameset frame[src]") is not None
    _drop(parsed, _AROUND)
    has_form = parsed.css_first(_SIGN_IN_FORM) is not None
    has_password = parsed.css_first('input[type="password" i]') is not None
    _drop(parsed, _UNREAD)
    main = [node for node in html.select_elements(parsed, [_MAIN]) if _lines(node)]
    lines = [line for node in main or ([parsed.body] if parsed.body else []) for line in _lines(node)]
    text = "\n".join(lines)
    letters = sum(map(str.isalnum, text))
    is_short = letters <= SHORT_LETTERS
    has_words = bool(_SIGN_IN.search(heading))
    is_titled = letters <= TITLED_LETTERS
    return PageText(
        _digest(_without_stamps(lines)) if letters else "",
        _digest(_without_address(lines, url)) if letters else "",
        signs_in=is_short and (has_password or has_words),
        certainly=is_short and ((has_form and has_words) or (has_password and bool(_SIGN_IN.search(text)))),
        demands_sign_in=(is_short and (has_words or bool(_DEMAND.search(text))))
        or (is_titled and has_form and has_words),
        says_missing=(is_short and says_missing(text)) or (is_titled and says_missing(heading)),
        is_titled_missing=is_titled and says_missing(heading),
        is_frameset=has_frames and not letters,
    )


def says_missing(text: str) -> bool:
    """Detect words of an error page."""
    return _MISSING.search(text) is not None


def _drop(parsed: LexborHTMLParser, selector: str) -> None:
    for node in html.select_elements(parsed, [selector]):
        node.decompose()


def _lines(node: LexborNode) -> list[str]:
    lines = (" ".join(line.split()) for line in node.text(separator="\n").split("\n"))
    return [line for line in lines if line]


def _without_stamps(lines: list[str]) -> list[str]:
    """Mask times, counts and tokens in the first and last lines of a longer text."""
    last = range(len(lines) - 2, len(lines))
    stamps = {number for number in last if _is_stamp(lines, number, _STAMP)}
    if _is_stamp(lines, 0, _CLOCK):
        stamps.add(0)
    if sum(len(line) for number, line in enumerate(lines) if number not in stamps) < _UNSTAMPED_LETTERS:
        return lines
    return [_CHANGING.sub("#", line) if number in stamps else line for number, line in enumerate(lines)]


def _is_stamp(lines: list[str], number: int, pattern: re.Pattern[str]) -> bool:
    return 0 <= number < len(lines) and len(lines[number]) <= _STAMP_LETTERS and bool(pattern.search(lines[number]))


def _without_address(lines: list[str], url: str) -> list[str]:
    """Mask the page's address, parts of the address and numbers."""
    parts = urlsplit(url)
    path, query = unquote(parts.path), unquote_plus(parts.query)
    names = {url, unquote(url), parts.path, f"{parts.path}?{parts.query}", path, f"{path}?{query}", query}
    names |= {path.strip("/"), path.rstrip("/"), *path.split("/"), *(value for _, value in parse_qsl(parts.query))}
    masked = "\n".join(lines).casefold()
    for name in sorted((name.casefold() for name in names if len(name) > 1), key=len, reverse=True):
        masked = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "#", masked)
    return re.sub(r"\d+", "#", masked).split("\n")


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).casefold().encode("utf-8", "replace")).hexdigest()
