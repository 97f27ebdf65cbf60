"""Description of the access of an item: layers of limits, and paging of lists."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Paging(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request of the next page: by the header `Link`, by the field `address`, or by the query parameter `parameter`.

    `address` and `parameter`: only the parameter's value in the address is used. Without `address`, the parameter gets
    the field `cursor`, else the number of the page or, with `offset`, of previous entries. `first`: value for the first
    page; `continues`: field, empty on the last page; `total`: field with the number of pages or entries. Without both,
    the listing ends at a page without entries. `last`: parameters with fields of the last entry, up to a page with less
    than `size` entries.
    """

    link: bool = False
    address: str = ""
    cursor: str = ""
    parameter: str = ""
    offset: bool = False
    first: int = 0
    continues: str = ""
    total: str = ""
    last: Mapping[str, str] = {}
    size: int = 1


class Principals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Users or groups in an answer: entries of the list `items` with the fields `keep`.

    `id`: field with the id, "" for plain ids as entries; `address`: field with the e-mail address, of the entry or of
    the answer to `look_up`. `active`: required fields of the latter.
    """

    items: str = ""
    id: str = ""
    keep: Mapping[str, str] = {}
    address: str = ""
    look_up: str = ""
    active: Mapping[str, str] = {}


class Open(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for openness: everybody passes, or the `group`, for an answer with the fields `when`."""

    get: str
    when: Mapping[str, str]
    group: str = ""


class Above(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the parents of an item. Each is a limit, read by the layer's request with the parent's `fields`.

    A parent in the list `items` without the fields `keep` is a limit not reported by the service: the access is
    unknown, for the reason `why`.
    """

    get: str
    items: str
    keep: Mapping[str, str]
    fields: Mapping[str, str]
    why: str


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the `users` and `groups` admitted by a layer of an item's permissions.

    `within`: fields with an object or a list of objects, each a limit; "" for the whole answer. `above`: limits of
    parents; `optional`: an empty limit limits nothing; `fields`: the answer's fields by name for the requests of
    further layers.
    """

    get: str
    paging: Paging = Paging()
    open: Open | None = None
    within: tuple[str, ...] = ("",)
    above: Above | None = None
    users: Principals | None = None
    groups: Principals | None = None
    optional: bool = False
    fields: Mapping[str, str] = {}


class Permissions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Access of an item: the users and groups admitted by all `layers`.

    `members`: request for the members of the group {id}; `needs`: required rights of the credentials, for messages.
    """

    needs: str
    layers: tuple[Layer, ...]
    members: Layer | None = None
