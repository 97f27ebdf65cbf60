"""Operations on evaluations and their runs."""

from __future__ import annotations

from functools import partial

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import UNSET

from api.operation import idempotent, operation
from api.request import ApiRequest
from api.wire import evaluations as wire
from retrieval.database.pagination import PageRequest
from retrieval.errors import ErrorCode
from retrieval.evaluations import evaluations, runs
from retrieval.namespaces import namespaces, validation

_operation = partial(operation, tag="Evaluations", invalid=ErrorCode.INVALID_REQUEST)
_NOT_FOUND_CODES = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NOT_FOUND)
_EVALUATION_PATH = "/v1/evaluations/{evaluation_id:str}"
_NAMESPACE_EXAMPLE = {"namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"}
_QUESTION_EXAMPLE = {"query": "How do I open the cover?", "relevant": [{"externalId": "manual-a7", "grade": 2}]}


@_operation(
    "POST",
    "/v1/evaluations",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example={**_NAMESPACE_EXAMPLE, "name": "Support questions", "questions": [_QUESTION_EXAMPLE]},
)
@idempotent
async def create_evaluation(request: ApiRequest, data: JSONBody[wire.CreateEvaluation]) -> wire.EvaluationAnswer:
    """Create an evaluation. It consists of questions with their relevant documents, or spans of documents."""
    scope = request.scope_of(data.namespace_id)
    questions = [question.to_values(f"questions[{number}]") for number, question in enumerate(data.questions)]
    created = await evaluations.create_evaluation(request.services.db, scope, data.name, questions)
    return wire.EvaluationAnswer(
        message="Evaluation created successfully", data=wire.EvaluationData(wire.Evaluation.from_evaluation(created))
    )


@_operation("GET", "/v1/evaluations", raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def list_evaluations(
    request: ApiRequest, params: NamedDependency[wire.EvaluationsQuery]
) -> wire.EvaluationsAnswer:
    """List evaluations. Newest first. With `pageSize` the list is paginated."""
    db, scope = request.services.db, request.scope_of(params.namespace_id)
    await namespaces.require_namespace(db, scope.organization, scope.namespace)
    page_request = await request.read_page(params.to_page(), scope.namespace)
    page = await evaluations.list_evaluations(db, scope, page_request)
    data = wire.EvaluationsData(
        evaluations=[wire.Evaluation.from_evaluation(evaluation) for evaluation in page.items]
    ).set_page(page_request, await request.write_cursor(page.cursor, scope.namespace))
    return wire.EvaluationsAnswer(message="Evaluations fetched successfully", data=data)


@_operation("GET", _EVALUATION_PATH, raises=_NOT_FOUND_CODES)
async def get_evaluation(
    request: ApiRequest, evaluation_id: FromPath[str], params: NamedDependency[wire.EvaluationQuery]
) -> wire.EvaluationAnswer:
    """Get an evaluation. With the number of questions and the judged external ids that do not exist."""
    scope = request.scope_of(params.namespace_id)
    evaluation = await evaluations.get_evaluation(request.services.db, scope, evaluation_id)
    return wire.EvaluationAnswer(
        message="Evaluation fetched successfully", data=wire.EvaluationData(wire.Evaluation.from_evaluation(evaluation))
    )


@_operation(
    "PATCH",
    _EVALUATION_PATH,
    raises=_NOT_FOUND_CODES,
    example={**_NAMESPACE_EXAMPLE, "add": [_QUESTION_EXAMPLE], "remove": ["How do I close it?"]},
)
async def update_evaluation(
    request: ApiRequest, evaluation_id: FromPath[str], data: JSONBody[wire.UpdateEvaluation]
) -> wire.EvaluationAnswer:
    """Change an evaluation.

    Questions are removed by their query, then added; `judge` is applied last. Finished runs do not change.
    """
    scope = request.scope_of(data.namespace_id)
    changed = await evaluations.change_evaluation(
        request.services.db,
        scope,
        evaluation_id,
        name=data.name or None,
        add=[entry.to_values(f"add[{number}]") for number, entry in enumerate(data.add)],
        remove=data.remove,
        verdicts=[entry.to_values(f"judge[{number}]") for number, entry in enumerate(data.judge)],
    )
    return wire.EvaluationAnswer(
        message="Evaluation updated successfully", data=wire.EvaluationData(wire.Evaluation.from_evaluation(changed))
    )


@_operation("GET", f"{_EVALUATION_PATH}/questions", raises=_NOT_FOUND_CODES)
async def list_questions(
    request: ApiRequest, evaluation_id: FromPath[str], params: NamedDependency[wire.QuestionsQuery]
) -> wire.QuestionsAnswer:
    """List the questions of an evaluation.

    50 per page by default. With `query`, only questions with exactly this query.
    """
    scope = request.scope_of(params.namespace_id)
    page_request = await request.read_page(params.to_page() or PageRequest(), scope.namespace) or PageRequest()
    evaluation = evaluation_id
    page = await evaluations.list_questions(request.services.db, scope, evaluation, page_request, params.query)
    data = wire.QuestionsData(
        questions=msgspec.convert(page.items, list[wire.Question], from_attributes=True)
    ).set_page(page_request, await request.write_cursor(page.cursor, scope.namespace))
    return wire.QuestionsAnswer(message="Questions fetched successfully", data=data)


@_operation("DELETE", _EVALUATION_PATH, raises=_NOT_FOUND_CODES)
async def delete_evaluation(
    request: ApiRequest, evaluation_id: FromPath[str], params: NamedDependency[wire.EvaluationQuery]
) -> wire.EvaluationDeletedAnswer:
    """Delete an evaluation. Its questions and runs are deleted too."""
    await evaluations.delete_evaluation(request.services.db, request.scope_of(params.namespace_id), evaluation_id)
    return wire.EvaluationDeletedAnswer(message="Evaluation deleted successfully")


@_operation(
    "POST",
    f"{_EVALUATION_PATH}/runs",
    raises=_NOT_FOUND_CODES,
    notifies=True,
    example={
        **_NAMESPACE_EXAMPLE,
        "settings": [
            {"name": "meaning", "semanticWeight": 1, "keywordWeight": 0},
            {"name": "hybrid", "semanticWeight": 0.5, "keywordWeight": 0.5},
        ],
    },
)
@idempotent
async def start_run(request: ApiRequest, evaluation_id: FromPath[str], data: JSONBody[wire.StartRun]) -> wire.RunAnswer:
    """Compare settings. Starts a flow that runs every question under every setting."""
    scope, settings = request.scope_of(data.namespace_id), data.to_values()
    for number, setting in enumerate(data.settings):
        if setting.rerank_config is not UNSET:
            field = f"settings[{number}].rerankConfig"
            validation.require_local_reranker(request.services.settings, ErrorCode.INVALID_REQUEST, field)
    run = await runs.create_run(request.services.db, scope, evaluation_id, settings)
    return wire.RunAnswer(message="Run of the evaluation started", data=wire.RunData(wire.EvaluationRun.from_run(run)))


@_operation("GET", f"{_EVALUATION_PATH}/runs", raises=_NOT_FOUND_CODES)
async def list_runs(
    request: ApiRequest, evaluation_id: FromPath[str], params: NamedDependency[wire.EvaluationsQuery]
) -> wire.RunsAnswer:
    """List runs. Newest first, without their questions."""
    scope = request.scope_of(params.namespace_id)
    page_request = await request.read_page(params.to_page(), scope.namespace)
    page = await runs.list_runs(request.services.db, scope, evaluation_id, page_request)
    data = wire.RunsData(runs=[wire.EvaluationRun.from_run(run, whole=False) for run in page.items]).set_page(
        page_request, await request.write_cursor(page.cursor, scope.namespace)
    )
    return wire.RunsAnswer(message="Runs fetched successfully", data=data)


@_operation("GET", f"{_EVALUATION_PATH}/runs/{{run_id:str}}", raises=_NOT_FOUND_CODES)
async def get_run(
    request: ApiRequest,
    evaluation_id: FromPath[str],
    run_id: FromPath[str],
    params: NamedDependency[wire.EvaluationRunQuery],
) -> wire.RunAnswer:
    """Get a run.

    Its status, and from its end on the metrics of each setting and the ranks of each question; with
    `questionLimit` its progress, how many questions each setting answers better and worse than the first, and
    so many questions.
    """
    scope = request.scope_of(params.namespace_id)
    run = await runs.get_run(request.services.db, scope, evaluation_id, run_id)
    return wire.RunAnswer(message="Run fetched successfully", data=wire.RunData(wire.compare_settings(run, params)))


ROUTE_HANDLERS = (
    create_evaluation,
    list_evaluations,
    get_evaluation,
    update_evaluation,
    list_questions,
    delete_evaluation,
    start_run,
    list_runs,
    get_run,
)
