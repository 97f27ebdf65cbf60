"""Fields that stand in the page's address: a link sets them, Back sets them again, and what is chosen is a link."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import streamlit as st

from ui import session

WRITTEN = "_written"
"""Ends the names in the session of addresses as their fields last wrote them."""
_PAGE = "page_of_fields"


def bind_field(
    widget: Callable[..., Any],
    name: str,
    label: str,
    *arguments: Any,
    prefix: str,
    default: Any = "",
    options: Iterable[Any] | None = None,
    word: str = "yes",
    clears: str = "cursor",
    always: bool = False,
    **keywords: Any,
) -> Any:
    """Show a field whose value is the parameter `name` of the page's address, and return the value.

    The default is left out of the address, unless `always`. It tells texts, numbers, lists of options, flags (`word`)
    and days (None without options) apart. A number's bounds are the first two arguments. A change takes the place in a
    list, `clears`, out of the address. `options`: a list, or labels by option. The field has no value of its own: one
    whose value came from the address would be another field after each change, and what is typed meanwhile be lost.
    """
    key, linked = f"{prefix}_{name}", session.read_parameter(name)
    if isinstance(options, Mapping):
        keywords.setdefault("format_func", options.__getitem__)
    written, offered = f"{key}{WRITTEN}", None if options is None else list(options)
    if key not in st.session_state or st.session_state.get(written, False) != linked:
        value = default if linked is None else _parse(linked, default, offered, arguments, word)
        st.session_state[key] = value[: keywords.get("max_chars")] if isinstance(value, str) else value
        st.session_state[written] = linked
    if offered and not isinstance(default, list) and st.session_state[key] not in (*offered, default):
        st.session_state[key] = default
    value = widget(label, *([] if offered is None else [offered]), *arguments, key=key, **keywords)
    if isinstance(default, list):
        value = [option for option in offered or () if option in value]
    text = None if value is None or (value == default and not always) else _format(value, word)
    if (text or None) != linked:
        session.set_parameters(**{clears: None, name: text})
    st.session_state[written] = session.read_parameter(name)
    return value.strip() if isinstance(value, str) and offered is None else value


def _parse(text: str, default: Any, options: list[Any] | None, bounds: Sequence[Any], word: str) -> Any:
    """Return the value that a text of the address means; the default if it means none."""
    if isinstance(default, list):
        return [value for value in text.split(",") if options and value in options] or default
    if isinstance(default, bool):
        return text == word
    if options is not None:
        return text if text in options else default
    try:
        if isinstance(default, int | float):
            number = float(text)
            return type(default)(min(max(number, bounds[0]), bounds[1])) if math.isfinite(number) else default
        return date.fromisoformat(text) if default is None else text
    except ValueError:
        return default


def _format(value: Any, word: str) -> str:
    if isinstance(value, bool):
        return word if value else ""
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(value) if isinstance(value, list) else str(value).strip()


def choose_order(orders: Mapping[str, str]) -> str:
    """Show the choice of a list's order. `orders`: labels by the API's words, the default first."""
    default = next(iter(orders))
    return str(bind_field(st.selectbox, "sort", "Order", prefix="order", default=default, options=orders))


def forget_fields(*pages: str) -> None:
    """Fields that are not drawn now are set by the address when they are again, whatever the browser kept of them."""
    for key in [str(key) for key in st.session_state if str(key).endswith(WRITTEN)]:
        if key.startswith(pages):
            del st.session_state[key]


def open_page(page: str) -> None:
    """The page that is drawn now: fields of another one are not."""
    if st.session_state.get(_PAGE) != page:
        st.session_state[_PAGE] = page
        forget_fields("")
