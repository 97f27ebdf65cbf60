"""Numbers of JSON as people wrote them: PostgreSQL keeps and answers 1e308 by its 309 digits."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

from psycopg.types.json import set_json_loads

_DIGITS: Final = 22
"""Of a whole number from which on it is written with an exponent where that says the same, as JavaScript does."""


def register_adapters() -> None:
    """For everything that is read from now on."""
    set_json_loads(_loads)


def _loads(data: str | bytes) -> Any:
    return _DECODER.decode(data if isinstance(data, str) else data.decode())


def _number(digits: str) -> int | float:
    if len(digits) < _DIGITS:
        return int(digits)
    rounded = float(digits)
    return rounded if Decimal(repr(rounded)) == Decimal(digits) else int(digits)


_DECODER: Final = json.JSONDecoder(parse_int=_number)
