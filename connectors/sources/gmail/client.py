"""Requests to Gmail, paced by its quota."""

# developers.google.com/workspace/gmail/api/reference/quota: 6,000 units a minute for each person, and the units of each
# method. developers.google.com/workspace/gmail/api/guides/batch: each request of a batch counts, and more than 50 of
# them are likely to be refused.

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from connectors.google.transport import AppsForbidden, GoogleApi, HttpPool, NotFound, RequestBuilder
from connectors.http.retries import RateLimited, ServicePolicy
from connectors.organization import PartUnavailable
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import TokenSource

UNITS_PER_MINUTE: Final = 6000
SERVICE_POLICY: Final = ServicePolicy(service="Gmail", per_minute=UNITS_PER_MINUTE, burst=3000, seconds=180)
THREADS_PER_PAGE: Final = 500
RECORDS_PER_PAGE: Final = 500
# More at once are refused as "too many concurrent requests for user".
THREADS_PER_BATCH: Final = 25
THREAD_UNITS: Final = 40
_LIST_UNITS: Final = 10
_MESSAGE_UNITS: Final = 20
_CHEAP_UNITS: Final = 2
# Headers that a listing needs.
LISTED_HEADERS: Final = ("Subject",)

MISSING_MESSAGE: Final = "The thread is not in Gmail any more, or not for the connected account."
NO_MAILBOX_MESSAGE: Final = (
    "Gmail is switched off for the connected account: connect an account with a mailbox, or let the administrator of"
    " the Google Workspace turn Gmail on for it."
)
_FATAL_MESSAGES: Final[Mapping[str, str]] = {
    "accessNotConfigured": "The Gmail API is switched off for the app: enable it in its Google Cloud project.",
    "insufficientPermissions": "The connection may not read mails: authorize it again and allow that.",
    "failedPrecondition": NO_MAILBOX_MESSAGE,
}
_DOMAIN_MESSAGE: Final = (
    "The Google Workspace does not let apps read its mails: ask its administrator to allow this one."
)
Answer = dict[str, Any]
ResultT = TypeVar("ResultT")


class HistoryExpired(Exception):
    """Gmail no longer knows the changes since this record."""


class MailboxClosed(Fatal):
    """The account has no mailbox that apps may read."""


def _error_of_reason(status: int, reason: str) -> Exception:
    if status in {404, 410}:
        return NotFound(MISSING_MESSAGE)
    if reason == "domainPolicy":
        return AppsForbidden(_DOMAIN_MESSAGE)
    if reason in _FATAL_MESSAGES:
        return (MailboxClosed if reason == "failedPrecondition" else Fatal)(_FATAL_MESSAGES[reason])
    return Skippable("Gmail does not let the connected account read this.")


@dataclass(frozen=True, slots=True)
class GmailResources:
    """The SDK's resources of Gmail."""

    users: Any
    labels: Any
    threads: Any
    history: Any
    attachments: Any


def _select_resources(service: Any) -> GmailResources:
    users = service.users()
    return GmailResources(users, users.labels(), users.threads(), users.history(), users.messages().attachments())


GMAIL_API: Final = GoogleApi(
    title="Gmail",
    name="GMAIL",
    url="https://gmail.googleapis.com",
    path="/",
    version=("gmail", "v1"),
    select_resources=_select_resources,
    make_error=_error_of_reason,
)


@dataclass(frozen=True, slots=True)
class Gmail:
    """Requests of one mailbox. Thread-safe. `owner`: address of the person, who has a separate quota."""

    pool: HttpPool
    tokens: TokenSource
    owner: str = ""

    def read_profile(self) -> Answer:
        """Return address and current history record of the mailbox."""
        return self._read_answer("emailAddress", lambda gmail: gmail.users.getProfile(userId="me"), _CHEAP_UNITS)

    def list_labels(self) -> list[Mapping[str, Any]]:
        answer = self._read_answer("labels", lambda gmail: gmail.labels.list(userId="me"), _CHEAP_UNITS)
        return [label for label in answer["labels"] if isinstance(label, dict) and isinstance(label.get("id"), str)]

    def list_threads(self, label: str, page: str | None, limit: int = THREADS_PER_PAGE) -> Answer:
        """Return a page of threads of a label, or for "" of the mailbox, without spam and trash."""
        return self._read_answer(
            "threads",
            lambda gmail: gmail.threads.list(
                userId="me", maxResults=limit, pageToken=page, labelIds=[label] if label else None
            ),
            _LIST_UNITS,
        )

    def list_history(self, since: str, page: str | None) -> Answer:
        """Return a page of records after `since`. HistoryExpired if the record is too old."""
        try:
            return self._read_answer(
                "historyId",
                lambda gmail: gmail.history.list(
                    userId="me", startHistoryId=since, maxResults=RECORDS_PER_PAGE, pageToken=page
                ),
                _CHEAP_UNITS,
            )
        except NotFound as error:
            raise HistoryExpired from error

    def read_thread(self, thread_id: str, *, with_text: bool = False) -> Answer:
        """Return a thread with all messages. NotFound for a missing thread."""
        return self._read_answer("messages", _build_thread_request(thread_id, with_text=with_text), THREAD_UNITS)

    def read_threads(self, thread_ids: Sequence[str], *, with_text: bool = False) -> dict[str, Answer | None]:
        """Return threads by id, THREADS_PER_BATCH a request; None for a missing one."""
        answers = dict[str, Answer | None]()
        for start in range(0, len(thread_ids), THREADS_PER_BATCH):
            part = thread_ids[start : start + THREADS_PER_BATCH]
            builders = {name: _build_thread_request(name, with_text=with_text) for name in part}
            self._call(partial(self._send_batch, builders=builders, answers=answers), THREAD_UNITS * len(part))
        return answers

    def read_attachment(self, message_id: str, attachment_id: str) -> bytes:
        answer = self._read_answer(
            "data",
            lambda gmail: gmail.attachments.get(userId="me", messageId=message_id, id=attachment_id),
            _MESSAGE_UNITS,
        )
        return decode_data(answer["data"])

    def _send_batch(
        self, token: str, builders: Mapping[str, RequestBuilder], answers: dict[str, Answer | None]
    ) -> None:
        """Add missing threads to `answers`, None for deleted threads, and then raise an error of a request, if any."""
        pending = {name: build for name, build in builders.items() if name not in answers}
        errors = list[Exception]()
        for name, answer in self.pool.send_batch(token, pending).items():
            if isinstance(answer, NotFound):
                answers[name] = None
            elif isinstance(answer, Exception):
                errors.append(answer)
            elif not isinstance(answer.get("messages"), list):
                errors.append(GMAIL_API.senseless_answer())
            else:
                answers[name] = answer
        if errors:
            raise next((error for error in errors if isinstance(error, RateLimited)), errors[0])

    def _read_answer(self, field: str, build_request: RequestBuilder, units: float) -> Answer:
        """Return an answer with the required `field`; a listing without threads gets an empty list."""

        def send(token: str) -> Answer:
            answer = self.pool.send(token, build_request)
            # An account without threads has none of their fields but an estimate.
            if field == "threads" and isinstance(answer.get("resultSizeEstimate"), int):
                answer = {"threads": [], **answer}
            value = answer.get(field)
            if not isinstance(value, list if field in {"threads", "labels", "messages"} else str):
                raise GMAIL_API.senseless_answer()
            return answer

        return self._call(send, units)

    def _call(self, request: Callable[[str], ResultT], units: float) -> ResultT:
        # The quota is a person's, also where a connection reads many people.
        bucket_name = f"{self.tokens.connection_id} {self.owner}"
        try:
            return SERVICE_POLICY.call(self.tokens, request, bucket_name, cost=units)
        except (AppsForbidden, MailboxClosed) as error:
            if self.owner:
                raise PartUnavailable(str(error).partition(":")[0]) from error
            raise


def _build_thread_request(thread_id: str, *, with_text: bool) -> RequestBuilder:
    if with_text:
        return lambda gmail: gmail.threads.get(userId="me", id=thread_id, format="full")
    return lambda gmail: gmail.threads.get(
        userId="me", id=thread_id, format="metadata", metadataHeaders=list(LISTED_HEADERS)
    )


def decode_data(data: str) -> bytes:
    """Decode base64url with or without padding. Retryable for other text."""
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Retryable("Gmail's answer holds a text that cannot be decoded.") from None
