"""Shared code of rerankers behind HTTP: batches, checked scores, and refusals."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from connectors.http.responses import transient_error, unreadable_answer
from connectors.http.retries import RateLimited, TransientError
from retrieval.errors import Fatal, Retryable, Skippable, StepError

# One request: query, texts, seconds -> pairs of a text's number and score. RateLimited, TransientError or Fatal.
Ask = Callable[[str, Sequence[str], float], "list[tuple[int, float]]"]

KEY_FIELD = "rerankConfig.apiKey"
CHECK_SECONDS = 4.0
# Text that every reranker scores: if it fails as well, the vendor is at fault and not a candidate.
KNOWN_GOOD_TEXT = "check"
# Candidates of a request that are isolated as not scorable; with more, the search keeps its order.
MAX_FAULTS = 3
# The answer for 200 texts has 20 kB.
MAX_ANSWER_BYTES = 1_000_000
# A score up to this far outside of [0, 1] is a rounding error; beyond, it is a logit.
_SLACK = 0.01


class VendorReranker:
    """Reranker behind HTTP. `batch`: texts per request; `calls`: concurrent requests."""

    def __init__(
        self, *, title: str, ask: Ask, batch: int, calls: int, logits: bool, close: Callable[[], None]
    ) -> None:
        self._title = title
        self._ask = ask
        self._batch = batch
        self._calls = calls
        self._logits = logits
        self.close = close

    def __repr__(self) -> str:
        return f"<{self._title}>"

    def rerank(self, query: str, texts: Sequence[str], *, seconds: float) -> Sequence[float]:
        """See `retrieval.ports.Reranker`. Retryable, Fatal, or Skippable for texts that cannot be scored."""
        if not texts:
            return []
        end = time.monotonic() + seconds
        parts = [texts[at : at + self._batch] for at in range(0, len(texts), self._batch)]
        if len(parts) == 1:
            return self._fill(self._part(query, parts[0], end))
        with ThreadPoolExecutor(min(len(parts), self._calls), thread_name_prefix="rerank") as pool:
            scores = list(pool.map(lambda part: self._part(query, part, end), parts))
        return self._fill([score for part in scores for score in part])

    def check(self) -> None:
        """Score one text. Fatal or Retryable."""
        self._score(KNOWN_GOOD_TEXT, [KNOWN_GOOD_TEXT], time.monotonic() + CHECK_SECONDS)

    def _part(self, query: str, texts: Sequence[str], end: float) -> Sequence[float | None]:
        """Score the texts of one request; None for a faulty text."""
        try:
            return self._score(query, texts, end)
        except StepError as error:
            if not self._scores_known_good(end):
                raise
            reason = str(error)
        try:
            return self._isolate(query, texts, end, [])
        except StepError as error:
            raise Skippable(f"{reason} It scores other texts.") from error

    def _scores_known_good(self, end: float) -> bool:
        """Return True if the vendor scores a known good text."""
        try:
            self._score(KNOWN_GOOD_TEXT, [KNOWN_GOOD_TEXT], end)
        except StepError:
            return False
        return True

    def _isolate(self, query: str, texts: Sequence[str], end: float, faults: list[str]) -> list[float | None]:
        """Score halves of a failed request down to faulty texts. Skippable for too many."""
        if len(texts) == 1:
            faults.extend(texts)
            if len(faults) > MAX_FAULTS:
                raise Skippable(f"{self._title} cannot score these texts.")
            return [None]
        scores: list[float | None] = []
        for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
            try:
                scores += self._score(query, half, end)
            except StepError:
                scores += self._isolate(query, half, end, faults)
        return scores

    def _fill(self, scores: Sequence[float | None]) -> list[float]:
        """Convert scores to [0, 1]; missing scores become the lowest. Skippable without any score."""
        known = [score for score in scores if score is not None]
        if not known:
            raise Skippable(f"{self._title} cannot score these texts. It scores others.")
        bounded = self._bounded(known)
        remaining, lowest = iter(bounded), min(bounded)
        return [lowest if score is None else next(remaining) for score in scores]

    def _score(self, query: str, texts: Sequence[str], end: float) -> list[float]:
        seconds_left = end - time.monotonic()
        if seconds_left <= 0:
            raise Retryable(f"{self._title} did not answer in time.")
        try:
            pairs = self._ask(query, texts, seconds_left)
        except RateLimited as error:
            raise Retryable(f"{self._title} takes no more requests for now (429).", after=error.after) from error
        except TransientError as error:
            raise Retryable(str(error)) from error
        scores = dict(pairs)
        if len(pairs) != len(texts) or scores.keys() != set(range(len(texts))):
            raise Retryable(f"{self._title} did not score each of the {len(texts)} texts once.")
        if not all(math.isfinite(score) for score in scores.values()):
            raise Retryable(f"{self._title} answered with numbers that are not finite.")
        return [scores[at] for at in range(len(texts))]

    def _bounded(self, scores: Sequence[float]) -> list[float]:
        if self._logits and any(not -_SLACK <= score <= 1 + _SLACK for score in scores):
            return [logit_to_probability(score) for score in scores]
        return [min(1.0, max(0.0, score)) for score in scores]


def logit_to_probability(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, logit))))


def read_scores(title: str, entries: Any, score: str) -> list[tuple[int, float]]:
    """Return number and score per entry. TransientError for an invalid answer."""
    try:
        scored = [(entry["index"], entry[score]) for entry in entries]
        if not all(type(at) is int and type(value) in {int, float} for at, value in scored):
            raise unreadable_answer(title)
        return [(at, float(value)) for at, value in scored]
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise unreadable_answer(title) from error


def error_of_refusal(title: str, status: int, headers: Mapping[str, str]) -> Exception:
    """Return the error for a refusal, without the vendor's words."""
    if error := transient_error(title, status, headers):
        return error
    message, field = _REFUSALS.get(status, _ODD)
    return Fatal(message.format(title=title, status=status), field=field)


_KEY = ("{title} refuses the key in rerankConfig.apiKey: check it and its permissions.", KEY_FIELD)
_REQUEST = ("{title} does not accept the request ({status}): check rerankConfig.model and the address.", "rerankConfig")
_REFUSALS: Mapping[int, tuple[str, str]] = {
    400: _REQUEST,
    401: _KEY,
    402: ("The account at {title} has no credit left: add credit, or use another key.", KEY_FIELD),
    403: _KEY,
    404: ("{title} has no such model, or no reranker at this address: check rerankConfig.", "rerankConfig"),
    413: _REQUEST,
    422: _REQUEST,
}
_ODD = ("{title} answered with the unexpected status {status}: check the address in rerankConfig.", "rerankConfig")
