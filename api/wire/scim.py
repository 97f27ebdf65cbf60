"""SCIM resources and messages of the API's description (RFC 7643, RFC 7644)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

Schemas = Annotated[list[str], Meta(description="URIs of the schemas of this object.", max_length=20)]


class ScimAttributes(Struct, rename="camel", kw_only=True):
    """Attributes of a SCIM response."""

    attributes: Annotated[
        str | None, Meta(description="The only attributes to return, separated by commas, such as `userName`.")
    ] = None
    excluded_attributes: Annotated[
        str | None, Meta(description="Attributes to leave out, separated by commas, such as `members`.")
    ] = None


class ScimQuery(ScimAttributes, rename="camel", kw_only=True):
    """Filter and page of a SCIM listing."""

    filter: Annotated[str | None, Meta(description='Such as `userName eq "ada@example.com"`.')] = None
    start_index: Annotated[int | None, Meta(description="Number of the first resource, from 1.")] = None
    count: Annotated[int | None, Meta(description="Resources of a page, at most 100.")] = None


class ScimResource(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A user or group of SCIM with all attributes of the core and enterprise schemas; the listed attributes have an
    effect."""

    schemas: Schemas
    id: Annotated[str | UnsetType, Meta(description="Id of the resource; given by the service.")] = UNSET
    external_id: Annotated[str | UnsetType | None, Meta(description="Id at the identity provider.")] = UNSET
    user_name: Annotated[
        str | UnsetType | None, Meta(description="Of a user: the name that access lists and `X-On-Behalf-Of` use.")
    ] = UNSET
    display_name: Annotated[str | UnsetType | None, Meta(description="Of a group: the name that access lists use.")] = (
        UNSET
    )
    active: Annotated[Any, Meta(description="False: the user is in no group.")] = UNSET
    members: Annotated[
        list[dict[str, Any]] | UnsetType | None, Meta(description="Of a group: objects with the id as `value`.")
    ] = UNSET


class ScimOperation(Struct):
    """A change of a SCIM patch."""

    op: Annotated[str, Meta(description="`add`, `replace` or `remove`, in any case.")]
    path: Annotated[str | UnsetType | None, Meta(description='Such as `members[value eq "…"]`.')] = UNSET
    value: Annotated[Any, Meta(description="The new value, of the attribute's type.")] = UNSET


class ScimPatch(Struct):
    """Changes of a SCIM resource, applied in order, all or none."""

    schemas: Schemas
    operations: Annotated[list[ScimOperation], Meta(description="The changes.", min_length=1, max_length=100)] = field(
        name="Operations"
    )


class ScimList(Struct, rename="camel"):
    """A page of SCIM resources."""

    schemas: Schemas
    total_results: Annotated[int, Meta(description="Number of all that match.")]
    start_index: Annotated[int, Meta(description="Number of the first resource, from 1.")]
    items_per_page: Annotated[int, Meta(description="Resources of this page.")]
    resources: Annotated[list[ScimResource], Meta(description="The resources.")] = field(name="Resources")
