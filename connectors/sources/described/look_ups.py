"""Description of names by id, and of the names of fields to request."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from connectors.sources.described.permission_layers import Paging


class LookUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names by id, a filter of templates."""

    # Expression of a name.
    value: str
    # All names, in `items` by `key`; `each`: field of an item with a list of entries, which have the item as `above`.
    list: str = ""
    items: str = ""
    each: str = ""
    key: str = "id"
    paging: Paging = Paging()
    # Request for a name by {id}, in the field `entry`; `gets`: requests by edition.
    get: str = ""
    gets: Mapping[str, str] = {}
    entry: str = ""


class FieldNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of fields to request, such as custom ones, joined for addresses; read anew by each run."""

    list: str
    # Expression of a name in an entry of `items`.
    value: str
    items: str = ""
    keep: Mapping[str, str] = {}
    paging: Paging = Paging()
    # Names in any case.
    always: tuple[str, ...] = ()
