"""Check that a service answers for existing items, before a missing item counts as deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from retrieval.errors import Fatal

# Several, since some may be deleted at the same time.
MAX_KNOWN_ITEMS: Final = 3
RETIRED_ENDPOINT_MESSAGE: Final = (
    "The service no longer answers for items that it lists: it calls each of them missing. Nothing was removed or"
    " hidden. Update the retrieval service, or check what the connected account may read."
)


def require_endpoint(known_ids: Iterable[str], is_missing: Callable[[str], bool]) -> None:
    """Raise Fatal if the first MAX_KNOWN_ITEMS known items are all missing."""
    ids = list(islice(known_ids, MAX_KNOWN_ITEMS))
    if ids and all(map(is_missing, ids)):
        raise Fatal(RETIRED_ENDPOINT_MESSAGE)
