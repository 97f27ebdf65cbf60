"""Kinds of documents with their icons."""

from __future__ import annotations

import base64
import mimetypes
import re

# Kind to title, short text and color of the icon, and pattern of the media types; the first that matches.
KINDS = {
    "pdf": ("PDF", "PDF", "#b3261e", r"application/pdf"),
    "web": ("Web page", "WEB", "#2456c9", r"text/html|application/xhtml"),
    "table": ("Table", "TAB", "#1b7340", r"text/(csv|tab)|.*(spreadsheet|excel|parquet)"),
    "slides": ("Slides", "PPT", "#a14a00", r".*(presentation|powerpoint)"),
    "word": ("Word document", "DOC", "#1f5fa8", r".*(wordprocessing|msword|opendocument\.text|rtf|epub)"),
    "mail": ("Mail", "MSG", "#6b4fbb", r"message/|.*(outlook|mbox)"),
    "image": ("Image", "IMG", "#7a3e87", r"image/"),
    "media": ("Sound or film", "A/V", "#7a3e87", r"(audio|video)/"),
    "archive": ("Archive", "ZIP", "#5a5f6b", r".*(zip|x-tar|7z|rar|gzip|compressed)"),
    "data": ("Data", "{ }", "#4a6572", r".*(json|xml|yaml)"),
    "text": ("Text", "TXT", "#4a5568", r"text/|$"),
    "other": ("Other", "…", "#5a5f6b", r""),
}
TITLES = {kind: title for kind, (title, *_) in KINDS.items()}


def find_kind(media_type: str | None) -> str:
    """Return the kind of a media type, text for None."""
    return next(kind for kind, (*_, pattern) in KINDS.items() if re.match(pattern, media_type or ""))


def icon_of(media_type: str | None, name: str) -> str:
    """Return the icon of a document as the URL of a picture; a name stands for an unknown media type."""
    named_type = "text/html" if name.startswith(("http://", "https://")) else mimetypes.guess_type(name)[0]
    title, text, color, _ = KINDS[find_kind(media_type or named_type)]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="24" role="img" aria-label="{title}">'
        f'<rect width="40" height="24" rx="4" fill="{color}"/><text x="20" y="16.5" text-anchor="middle" fill="#fff"'
        f' font-family="sans-serif" font-weight="700" font-size="12">{text}</text></svg>'
    )
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
