"""Fields that stand in the page's address: a link sets them, Back sets them again, and what is chosen is a link."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import session

WRITTEN = "_written"
"""Ends the names in the session of addresses as their fields last wrote them."""
_PAGE = "page_of_fields"


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a page, or of a part of it: `names` are those of the address, the first one's field always drawn.

    A field has the key `key(name)`, and no value of its own: one whose value came from the address would be another
    field after each change, and what is typed meanwhile would be lost.
    """

    page: str
    names: tuple[str, ...]

    def key(self, name: str) -> str:
        return f"{self.page}_{name}"

    def follow(self, shown: Mapping[str, Any]) -> None:
        """Set the fields from the address before they are drawn, if the address is not the one they wrote.

        `shown`: the value of each field for the current address. The address is noted at once: input made before the
        page is complete starts the next run, which must not take the address for a new one and overwrite the input.
        """
        if self.key(self.names[0]) in st.session_state and st.session_state.get(self._written) == self._address():
            return
        st.session_state[self._written] = self._address()
        for name in self.names:
            st.session_state[self.key(name)] = shown[name]

    def offer(self, name: str, known: Collection[Any]) -> None:
        """Reset a choice that is not among the options, before it is drawn."""
        if st.session_state[self.key(name)] not in known:
            st.session_state[self.key(name)] = next(iter(known))

    def write(self, **values: str | None) -> bool:
        """Put into the address what they say, now that they are drawn; whether that is another one now."""
        previous = self._address()
        session.set_parameters(**values)
        st.session_state[self._written] = self._address()
        return previous != self._address()

    @property
    def _written(self) -> str:
        return f"{self.page}{WRITTEN}"

    def _address(self) -> dict[str, str | None]:
        return {name: session.read_parameter(name) for name in self.names}


def one_of(name: str, known: Sequence[str]) -> str:
    """A value in the page's address that there is; else the first that there is."""
    value = session.read_parameter(name) or ""
    return value if value in known else known[0]


def forget_fields(*pages: str) -> None:
    """Fields that are not drawn now are set by the address when they are again, whatever the browser kept of them."""
    for page in pages:
        st.session_state.pop(f"{page}{WRITTEN}", None)


def open_page(page: str) -> None:
    """The page that is drawn now: fields of another one are not."""
    if st.session_state.get(_PAGE) != page:
        st.session_state[_PAGE] = page
        forget_fields(*[str(key).removesuffix(WRITTEN) for key in st.session_state if str(key).endswith(WRITTEN)])
