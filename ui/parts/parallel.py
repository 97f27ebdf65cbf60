"""Several questions to the API at once: a page waits as long as for the slowest of them, not for their sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from ui.client import Json, patiently
from ui.parts import waiting


def ask(questions: Mapping[str, Callable[[], Json] | None]) -> dict[str, Json | None]:
    """The answers by name; None for what is not asked. ApiError of the first that is refused."""
    with ThreadPoolExecutor(max_workers=max(len(questions), 1)) as pool:
        asked = {name: pool.submit(question) if question else None for name, question in questions.items()}
        return {name: patiently(future, waiting.notice) if future else None for name, future in asked.items()}
