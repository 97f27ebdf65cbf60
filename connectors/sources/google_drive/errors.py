"""Errors of Google Drive's API as port errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from connectors.http.responses import transient_error, unreadable
from connectors.http.retries import RateLimited, TransientError, Unauthorized, retry_after
from retrieval.errors import Fatal, Retryable, Skippable


class Forgotten(Exception):
    """Google no longer accepts a page token or does not know its shared drive: list everything again."""


class Barred(Exception):
    """The account may not list this shared drive or folder, although Google names it."""


class Missing(Skippable):
    """There is no such file, or not for this account."""


class TooLarge(Skippable):
    """More than Google exports in one piece, 10 MB."""


class Unsupported(Skippable):
    """The request cannot be served as it is: an export to a format that the document has not got, a spoilt token."""


_BUSY = frozenset({"userRateLimitExceeded", "rateLimitExceeded", "sharingRateLimitExceeded"})
_LATER = frozenset({"dailyLimitExceeded", "quotaExceeded"})
_FATAL: Mapping[str, str] = {
    "accessNotConfigured": "The Google Drive API is switched off for the app: enable it in its Google Cloud project.",
    "insufficientPermissions": "The connection may not read files: authorize it again and allow that.",
    "domainPolicy": "The Google Workspace does not let apps read its files: ask its administrator to allow this one.",
}
_SKIPPABLE: Mapping[str, str] = {
    "cannotDownloadFile": "The file's owner does not let it be downloaded.",
    "cannotExportFile": "The file's owner does not let it be downloaded.",
    "fileNotDownloadable": "Google Drive has no content of this file that could be downloaded.",
    "insufficientFilePermissions": "The connected account may not read the file.",
    "appNotAuthorizedToFile": "The connected account has not given this file to the app.",
    "cannotDownloadAbusiveFile": "Google Drive holds the file for harmful and does not hand it out.",
    "downloadQuotaExceeded": "The file was downloaded too often today: ingest again tomorrow.",
}
_TOO_LARGE = "exportSizeLimitExceeded"
_LATER_SECONDS = 3600.0


def understand(status: int, content: bytes, headers: Mapping[str, str]) -> Exception:
    """What to raise for an answer that is no success. A refusal that is not Google's own is trouble that passes."""
    reason = _reason(content)
    if status == 401:
        return Unauthorized()
    if status == 403 and reason in _BUSY:
        return RateLimited(retry_after(headers))
    if status in {403, 404} and reason in _LATER:
        return Retryable("The app's daily quota of requests at Google Drive is used up.", after=_LATER_SECONDS)
    if error := transient_error("Google Drive", status, headers):
        return error
    return unreadable("Google Drive") if reason is None or status < 400 else _refusal(status, reason)


def senseless() -> TransientError:
    return TransientError("Google Drive's answer was no listing.")


def incomplete() -> TransientError:
    return TransientError("Google Drive searched only a part of what there is.")


def endless() -> Retryable:
    return Retryable("Google Drive's listing repeats a page and would never end.")


def _refusal(status: int, reason: str) -> Exception:
    if status == 404:
        return Missing("The file is not in Google Drive any more, or not for the connected account.")
    if reason == _TOO_LARGE:
        return TooLarge("Google exports at most 10 MB of a document: split it into smaller ones.")
    if reason in _FATAL:
        return Fatal(_FATAL[reason])
    if reason in _SKIPPABLE:
        return Skippable(_SKIPPABLE[reason])
    if status == 403:
        return Skippable("Google Drive does not let the connected account read the file.")
    return Unsupported("Google Drive cannot hand out the file in a format that can be read.")


def _reason(content: bytes) -> str | None:
    """The reason that Google names, "" if it names none; None if this is no error of Google's."""
    try:
        error: Any = json.loads(content)["error"]
        reasons = [one.get("reason") for one in error.get("errors") or []]
        details = [one.get("reason") for one in error.get("details") or []]
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    if "ACCESS_TOKEN_SCOPE_INSUFFICIENT" in details:
        return "insufficientPermissions"
    return next((str(one) for one in reasons if one), "")
