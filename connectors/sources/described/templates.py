"""Templates of texts over the fields of an item: Jinja in its sandbox, with filters for dates and markup."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from jinja2 import ChainableUndefined, Environment, Template, TemplateError, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from connectors.sources.described.filters import FILTERS

MILLISECONDS: Final = 10**11
"""Unix times above this one count milliseconds."""
NamesById = Callable[[str, str], str]
"""Name of an id in the look-up of a name."""
TemplateFault: Final = (TemplateError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""Errors of a template over unexpected fields."""


class FieldEnvironment(ImmutableSandboxedEnvironment):
    """Environment with fields of JSON after a dot, never methods."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a field of an object, or undefined."""
        if isinstance(obj, Mapping):
            value = obj.get(attribute)
            return self.undefined(name=attribute) if value is None else value
        return self.undefined(name=attribute) if obj is None else super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return a list entry or a field, or undefined."""
        return self.getattr(obj, argument) if isinstance(argument, str) else super().getitem(obj, argument)


def render(text: str, values: Mapping[str, Any], names: NamesById | None = None, look_ups: Sequence[str] = ()) -> str:
    """Fill a template; `names`: look-up filters. Raises TemplateFault."""
    return compile_template(text, tuple(look_ups)).render({**values, "_names": names}).strip()


def evaluate(expression: str, item: Any) -> Any:
    """Return the value of an expression over an item's fields, or ""."""
    with suppress(*TemplateFault):
        # Not by keywords: fields may have any name, such as `self`.
        value = compile_expression(expression)(item)
        return "" if value is None else value
    return ""


def format_date(value: Any, pattern: str = "%-d %B %Y") -> str:
    """Format ISO 8601 or Unix time in UTC; other text stays."""
    moment = read_moment(value)
    return moment.strftime(pattern) if moment else str(value or "")


def read_moment(value: Any) -> datetime | None:
    """Parse ISO 8601 or Unix time, in seconds or milliseconds; None for other values."""
    if not value:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        with suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(str(value))
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        return None
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(number / 1000 if number > MILLISECONDS else number, UTC)
    return None


def _make_environment(look_ups: Sequence[str]) -> Environment:
    environment = FieldEnvironment(
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: "" if value is None else value,
    )
    environment.filters |= {"date": format_date, "json": json.dumps, **FILTERS}
    environment.filters |= {name: _look_up(name) for name in look_ups}
    return environment


def _look_up(name: str) -> Callable[[Context, Any], str]:
    @pass_context
    def find_name(context: Context, key: Any) -> str:
        names = context.get("_names")
        return str(names(name, str(key))) if key and names else str(key or "")

    return find_name


@lru_cache(maxsize=64)
def _environment(look_ups: tuple[str, ...]) -> Environment:
    return _make_environment(look_ups)


@lru_cache(maxsize=512)
def compile_template(text: str, look_ups: tuple[str, ...]) -> Template:
    """Compile a template. Raises TemplateError."""
    return _environment(look_ups).from_string(text)


@lru_cache(maxsize=512)
def compile_expression(expression: str) -> Callable[..., Any]:
    """Compile an expression. Raises TemplateError."""
    return _environment(()).compile_expression(expression)
