"""The time as Prefect's server has it, whatever the clock of this machine says or does.

A flow run is given to a worker once its moment is over, and both name moments: by clocks of their own, a dispatcher an
hour ahead would have its flow runs wait for an hour, and a worker an hour behind would see none.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from prefect.client.orchestration import PrefectClient

AGAIN_SECONDS: Final = 20.0
"""After which the server is asked again."""
START: Final = datetime.fromtimestamp(0, UTC)

_asked: dict[str, tuple[float, datetime]] = {}
"""By server: when it was asked, by the monotonic clock, and what it said."""


async def now(client: PrefectClient) -> datetime:
    """To a second, never later than it is; this machine's time for a server that does not say."""
    at = str(client.api_url)
    if at not in _asked or time.monotonic() - _asked[at][0] > AGAIN_SECONDS:
        answer = await client.hello()
        said = answer.headers.get("date")
        _asked[at] = time.monotonic(), parsedate_to_datetime(said) if said else datetime.now(UTC)
    asked, said_at = _asked[at]
    return said_at + timedelta(seconds=time.monotonic() - asked)
