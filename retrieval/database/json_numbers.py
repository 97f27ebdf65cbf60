"""Read JSON numbers as written: PostgreSQL returns 1e308 with 309 digits."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

from psycopg.types.json import set_json_loads

# JavaScript writes integers of this length with an exponent.
_EXPONENT_DIGITS: Final = 22


def register_adapters() -> None:
    set_json_loads(_loads)


def _loads(data: str | bytes) -> Any:
    return _JSON_DECODER.decode(data if isinstance(data, str) else data.decode())


def _number(digits: str) -> int | float:
    if len(digits) < _EXPONENT_DIGITS:
        return int(digits)
    rounded = float(digits)
    return rounded if Decimal(repr(rounded)) == Decimal(digits) else int(digits)


_JSON_DECODER: Final = json.JSONDecoder(parse_int=_number)
