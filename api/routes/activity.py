"""Activity of a scope, for monitoring: running and failed work, search latency."""

from __future__ import annotations

from api.operation import Call, operation
from api.wire.activity import ActivityAnswer, ActivityData, ActivityQuery
from retrieval.errors import ErrorCode
from retrieval.jobs import activity
from retrieval.namespaces import namespaces


@operation(
    "GET",
    "/v1/activity",
    tag="Administration",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
)
async def read_activity(call: Call[None, ActivityQuery]) -> ActivityAnswer:
    """What goes on in a namespace.

    Runs under way, failures of the last day, tokens, and how long searches took; counts are seconds old at
    most.
    """
    found = await activity.read(call.services.db, call.scope(call.query.namespace_id))
    if found is None:
        raise namespaces.not_found()
    return ActivityAnswer(message="Activity fetched successfully", data=ActivityData.of(found))


HANDLERS = (read_activity,)
