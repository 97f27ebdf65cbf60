"""Fields bound to the page's address, for links and the Back button."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import streamlit as st

from ui import session

# Suffix of the session keys of each field's last written parameter.
WRITTEN_SUFFIX = "_written"
PAGE_KEY = "page_of_fields"


def bind_field(
    widget: Callable[..., Any],
    name: str,
    label: str,
    *arguments: Any,
    prefix: str,
    default: Any = "",
    options: Iterable[Any] | None = None,
    true_value: str = "yes",
    reset_parameter: str = "cursor",
    writes_default: bool = False,
    **keywords: Any,
) -> Any:
    """Show a field bound to the address parameter `name`; return its value."""
    # `writes_default`: the address contains the default too. A change removes the list position `reset_parameter`.
    # `arguments` begin with the bounds of a number; `true_value` is a flag's value; dates have the default None and no
    # options. The widget gets no `value`: Streamlit would replace the widget after each change and lose typed text.
    key, linked = f"{prefix}_{name}", session.read_parameter(name)
    if isinstance(options, Mapping):
        keywords.setdefault("format_func", options.__getitem__)
    written, offered = f"{key}{WRITTEN_SUFFIX}", None if options is None else list(options)
    if key not in st.session_state or st.session_state.get(written, False) != linked:
        value = default if linked is None else _parse_value(linked, default, offered, arguments, true_value)
        st.session_state[key] = value[: keywords.get("max_chars")] if isinstance(value, str) else value
        st.session_state[written] = linked
    if offered and not isinstance(default, list) and st.session_state[key] not in (*offered, default):
        st.session_state[key] = default
    value = widget(label, *([] if offered is None else [offered]), *arguments, key=key, **keywords)
    if isinstance(default, list):
        value = [option for option in offered or () if option in value]
    text = None if value is None or (value == default and not writes_default) else _format_value(value, true_value)
    if (text or None) != linked:
        session.set_parameters(**{reset_parameter: None, name: text})
    st.session_state[written] = session.read_parameter(name)
    return value.strip() if isinstance(value, str) and offered is None else value


def _parse_value(text: str, default: Any, options: list[Any] | None, bounds: Sequence[Any], true_value: str) -> Any:
    """Parse an address parameter; the default if invalid."""
    if isinstance(default, list):
        return [value for value in text.split(",") if options and value in options] or default
    if isinstance(default, bool):
        return text == true_value
    if options is not None:
        return text if text in options else default
    try:
        if isinstance(default, int | float):
            number = float(text)
            return type(default)(min(max(number, bounds[0]), bounds[1])) if math.isfinite(number) else default
        return date.fromisoformat(text) if default is None else text
    except ValueError:
        return default


def _format_value(value: Any, true_value: str) -> str:
    if isinstance(value, bool):
        return true_value if value else ""
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(value) if isinstance(value, list) else str(value).strip()


def choose_order(orders: Mapping[str, str]) -> str:
    """Show the choice of a list's order; the first is the default."""
    default = next(iter(orders))
    return str(bind_field(st.selectbox, "sort", "Order", prefix="order", default=default, options=orders))


def forget_fields(*pages: str) -> None:
    """Forget the fields of pages, to be set again by the address."""
    for key in [str(key) for key in st.session_state if str(key).endswith(WRITTEN_SUFFIX)]:
        if key.startswith(pages):
            del st.session_state[key]


def open_page(page: str) -> None:
    """Record the open page, and forget the fields of the previous one."""
    if st.session_state.get(PAGE_KEY) != page:
        st.session_state[PAGE_KEY] = page
        forget_fields("")
