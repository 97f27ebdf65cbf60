"""Description of the access of an item: layers of limits, and paging of lists."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Paging(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The next page: by the header `Link`, by the address in a field or its `parameter`, or by the query parameter
    `parameter`, which takes the `cursor` of a field, else the page's number or, as `offset`, the number of entries
    before it. `first`: the value of the first page; `continues`: field that is empty on the last page; `total`: field
    with the number of pages or entries. Without both, the last page is one without entries. `last`: parameters that
    take the fields of the last entry, up to a page with less than `size` entries."""

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
    """Users or groups in an answer: the entries of the list `items` that have the fields `keep`. `id`: their field, ""
    for entries that are ids; `address`: field with the e-mail address. With `look_up` the address is one of its answer,
    which has to have the fields `active`."""

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
    """Request for the parents of an item, each of which is a limit: the layer's request with the parent's `fields`.

    A parent in the list `items` without the fields `keep` limits the item in a way that the service does not report:
    the access is then unknown, for the reason `why`.
    """

    get: str
    items: str
    keep: Mapping[str, str]
    fields: Mapping[str, str]
    why: str


class Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the `users` and `groups` that a layer of an item's permissions admits.

    `within`: fields whose objects, one or a list, are a limit each, "" for the answer itself; `above`: limits that the
    answer does not have; `optional`: an empty limit limits nothing; `fields`: names for the requests of further layers,
    and their fields of the answer.
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
    """Access of an item: the users and groups that all `layers` admit.

    `members`: request for the members of a group, by its {id}; `needs`: what the credentials need to read permissions.
    """

    needs: str
    layers: tuple[Layer, ...]
    members: Layer | None = None
