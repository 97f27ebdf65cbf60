"""Parents of items, such as channels, repositories, or folders of categories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.sources.described.description import Parents
from connectors.sources.described.fields import fill_address, fill_known, is_kept, read_value
from connectors.sources.described.service import Refused

if TYPE_CHECKING:
    from connectors.sources.described.names import NameReader


@dataclass(frozen=True, slots=True)
class ParentReader:
    """Reads the parents of a connection; `left_out`: counts by reason, `fallbacks`: lists replaced by `otherwise`."""

    names: NameReader
    left_out: dict[str, int] = field(default_factory=dict)
    fallbacks: set[str] = field(default_factory=set)

    def iter_parents(self, name: str, *, all_entries: bool = False) -> Iterator[tuple[Any, Mapping[str, str]]]:
        """Yield the kept entries of a list of parents, with their template values and those of parents above."""
        about = self.names.service.about.parents[name]
        outer = (
            [values for _, values in self.iter_parents(about.parents)] if about.parents else [self.names.site.location]
        )
        for above in outer:
            for entry in self._list_entries(name, about, above):
                if all_entries or is_kept(entry, about.keep, above):
                    yield entry, {**above, **{key: str(read_value(entry, path)) for key, path in about.fields.items()}}
                elif about.left_out:
                    self.left_out[about.left_out] = self.left_out.get(about.left_out, 0) + 1

    def _list_entries(self, name: str, about: Parents, values: Mapping[str, str]) -> list[Any]:
        import httpx

        query = {key: fill_known(text, values) for key, text in about.query.items()}

        def list_entries(template: str) -> list[Any]:
            address = self.names.site.base + fill_address(template, values)
            url = str(httpx.URL(address, params=query)) if query else address
            return self.names.list_entries(url, about.items, about.paging)

        try:
            return list_entries(about.list)
        except Refused as error:
            if not about.otherwise or error.status not in self.names.service.about.missing:
                raise
        self.fallbacks.add(name)
        return list_entries(about.otherwise)
