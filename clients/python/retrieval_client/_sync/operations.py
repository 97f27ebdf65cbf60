"""Every operation of the API as a method. Written by `generate.py` from the API's description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from retrieval_client import bodies, models
from retrieval_client._sync.transport import Transport, Upload
from retrieval_client.requests import segment


class Operations:
    """Every operation of the API, with the names of its description; `data` of the answer is what comes back.

    RetrievalError: what the service refuses.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ingest(self, source: str, body: Mapping[str, Any], *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest from any source but a file, by the last part of its path: `POST /v1/ingest/{source}`."""
        path = f"/v1/ingest/{segment(source)}"
        answer = self._transport.json(
            "POST", path, body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def list_namespaces(
        self,
        *,
        cursor: str | None = None,
        page_size: int | None = None,
        name: str | None = None,
        sort: Literal["documents", "name", "newest", "searches"] | None = None,
        counts: bool | None = None,
    ) -> models.NamespacesData:
        """List namespaces: `GET /v1/namespaces`."""
        answer = self._transport.json(
            "GET",
            "/v1/namespaces",
            query={"cursor": cursor, "pageSize": page_size, "name": name, "sort": sort, "counts": counts},
            repeatable=True,
        )
        return models.NamespacesData(answer["data"])

    def create_namespace(
        self, body: bodies.CreateNamespace, *, idempotency_key: str | None = None
    ) -> models.NamespaceData:
        """Create a namespace: `POST /v1/namespaces`."""
        answer = self._transport.json(
            "POST", "/v1/namespaces", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.NamespaceData(answer["data"])

    def test_namespace(self, body: bodies.DraftConfigs) -> models.ConfigTestsData:
        """Test configs without storing them: `POST /v1/namespaces/test`."""
        answer = self._transport.json("POST", "/v1/namespaces/test", body=body, repeatable=False)
        return models.ConfigTestsData(answer["data"])

    def get_namespace(self, namespace_id: str) -> models.NamespaceData:
        """Get a namespace: `GET /v1/namespaces/{namespace_id}`."""
        answer = self._transport.json("GET", f"/v1/namespaces/{segment(namespace_id)}", repeatable=True)
        return models.NamespaceData(answer["data"])

    def delete_namespace(self, namespace_id: str) -> models.NamespaceDeletedAnswer:
        """Delete a namespace: `DELETE /v1/namespaces/{namespace_id}`."""
        answer = self._transport.json("DELETE", f"/v1/namespaces/{segment(namespace_id)}", repeatable=True)
        return models.NamespaceDeletedAnswer(answer)

    def update_namespace(self, namespace_id: str, body: bodies.UpdateNamespace) -> models.NamespaceData:
        """Change a namespace: `PATCH /v1/namespaces/{namespace_id}`."""
        answer = self._transport.json("PATCH", f"/v1/namespaces/{segment(namespace_id)}", body=body, repeatable=True)
        return models.NamespaceData(answer["data"])

    def ingest_text(self, body: bodies.IngestText, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest a text: `POST /v1/ingest/text`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/text", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_file(
        self, form: dict[str, str], file: Upload, *, idempotency_key: str | None = None
    ) -> models.IngestData:
        """Ingest a file: `POST /v1/ingest/file`."""
        answer = self._transport.json(
            "POST",
            "/v1/ingest/file",
            form=form,
            file=file,
            repeatable=False,
            keyed=True,
            idempotency_key=idempotency_key,
        )
        return models.IngestData(answer["data"])

    def create_upload(
        self, form: dict[str, str], file: Upload, *, idempotency_key: str | None = None
    ) -> models.FileUploadData:
        """Store a file for an ingestion of several: `POST /v1/ingest/uploads`."""
        answer = self._transport.json(
            "POST",
            "/v1/ingest/uploads",
            form=form,
            file=file,
            repeatable=False,
            keyed=True,
            idempotency_key=idempotency_key,
        )
        return models.FileUploadData(answer["data"])

    def ingest_files(self, body: bodies.IngestFiles, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest several uploaded files by a single job run: `POST /v1/ingest/files`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/files", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def convert_file(self, form: dict[str, str], file: Upload) -> models.ConvertData:
        """Convert a file to Markdown: `POST /v1/convert/file`."""
        answer = self._transport.json("POST", "/v1/convert/file", form=form, file=file, repeatable=True)
        return models.ConvertData(answer["data"])

    def ingest_urls(self, body: bodies.IngestUrls, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest a list of URLs: `POST /v1/ingest/urls`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/urls", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_sitemap(self, body: bodies.IngestSitemap, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest the pages of a sitemap: `POST /v1/ingest/sitemap`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/sitemap", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_website(self, body: bodies.IngestWebsite, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest the pages of a website: `POST /v1/ingest/website`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/website", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_notion(self, body: bodies.IngestNotion, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest from Notion: `POST /v1/ingest/notion`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/notion", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_google_drive(
        self, body: bodies.IngestGoogleDrive, *, idempotency_key: str | None = None
    ) -> models.IngestData:
        """Ingest from Google Drive: `POST /v1/ingest/google-drive`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/google-drive", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_dropbox(self, body: bodies.IngestDropbox, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest from Dropbox: `POST /v1/ingest/dropbox`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/dropbox", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_onedrive(self, body: bodies.IngestOnedrive, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest from OneDrive: `POST /v1/ingest/onedrive`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/onedrive", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_sharepoint(
        self, body: bodies.IngestSharepoint, *, idempotency_key: str | None = None
    ) -> models.IngestData:
        """Ingest from SharePoint: `POST /v1/ingest/sharepoint`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/sharepoint", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_box(self, body: bodies.IngestBox, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest from Box: `POST /v1/ingest/box`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/box", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_outlook_mail(
        self, body: bodies.IngestOutlookMail, *, idempotency_key: str | None = None
    ) -> models.IngestData:
        """Ingest from Outlook mail: `POST /v1/ingest/outlook-mail`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/outlook-mail", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_gmail(self, body: bodies.IngestGmail, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest from Gmail: `POST /v1/ingest/gmail`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/gmail", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def ingest_source(self, body: bodies.IngestSource, *, idempotency_key: str | None = None) -> models.IngestData:
        """Ingest from a storage or service by its URL: `POST /v1/ingest/source`."""
        answer = self._transport.json(
            "POST", "/v1/ingest/source", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.IngestData(answer["data"])

    def list_job_runs(
        self,
        *,
        namespace_id: str,
        status: Literal["COMPLETED", "PRE_PROCESSING", "PROCESSING", "QUEUED"] | None = None,
        outcome: Literal["CANCELLED", "COMPLETED_WITH_FAILURES", "FAILED", "SUCCEEDED"] | None = None,
        source: str | None = None,
        q: str | None = None,
        ids: str | None = None,
        sort: Literal["longest", "newest", "oldest", "status"] | None = None,
        cursor: str | None = None,
        page_size: int | None = None,
    ) -> models.JobRunsData:
        """List ingestion job runs: `GET /v1/ingest-job-runs`."""
        answer = self._transport.json(
            "GET",
            "/v1/ingest-job-runs",
            query={
                "namespaceId": namespace_id,
                "status": status,
                "outcome": outcome,
                "source": source,
                "q": q,
                "ids": ids,
                "sort": sort,
                "cursor": cursor,
                "pageSize": page_size,
            },
            repeatable=True,
        )
        return models.JobRunsData(answer["data"])

    def get_job_run(
        self,
        ingest_job_run_id: str,
        *,
        namespace_id: str,
        document_limit: int | None = None,
        wait_seconds: int | None = None,
        since: Literal["COMPLETED", "PRE_PROCESSING", "PROCESSING", "QUEUED"] | None = None,
        with_flow_run: bool | None = None,
    ) -> models.JobRunData:
        """Get an ingestion job run: `GET /v1/ingest-job-runs/{ingest_job_run_id}`."""
        answer = self._transport.json(
            "GET",
            f"/v1/ingest-job-runs/{segment(ingest_job_run_id)}",
            query={
                "namespaceId": namespace_id,
                "documentLimit": document_limit,
                "waitSeconds": wait_seconds,
                "since": since,
                "withFlowRun": with_flow_run,
            },
            repeatable=True,
        )
        return models.JobRunData(answer["data"])

    def cancel_job_run(self, ingest_job_run_id: str, body: bodies.RunRequest) -> models.JobRunData:
        """Cancel an ingestion job run: `POST /v1/ingest-job-runs/{ingest_job_run_id}/cancel`."""
        answer = self._transport.json(
            "POST", f"/v1/ingest-job-runs/{segment(ingest_job_run_id)}/cancel", body=body, repeatable=False
        )
        return models.JobRunData(answer["data"])

    def retry_job_run(
        self, ingest_job_run_id: str, body: bodies.RetryRequest, *, idempotency_key: str | None = None
    ) -> models.JobRunData:
        """Retry the failed documents of a job run: `POST /v1/ingest-job-runs/{ingest_job_run_id}/retry`."""
        answer = self._transport.json(
            "POST",
            f"/v1/ingest-job-runs/{segment(ingest_job_run_id)}/retry",
            body=body,
            repeatable=False,
            keyed=True,
            idempotency_key=idempotency_key,
        )
        return models.JobRunData(answer["data"])

    def list_schedules(
        self, *, cursor: str | None = None, page_size: int | None = None, namespace_id: str | None = None
    ) -> models.SchedulesData:
        """List schedules: `GET /v1/schedules`."""
        answer = self._transport.json(
            "GET",
            "/v1/schedules",
            query={"cursor": cursor, "pageSize": page_size, "namespaceId": namespace_id},
            repeatable=True,
        )
        return models.SchedulesData(answer["data"])

    def create_schedule(
        self, body: bodies.CreateSchedule, *, idempotency_key: str | None = None
    ) -> models.ScheduleData:
        """Create a schedule: `POST /v1/schedules`."""
        answer = self._transport.json(
            "POST", "/v1/schedules", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.ScheduleData(answer["data"])

    def get_schedule(self, schedule_id: str, *, namespace_id: str) -> models.ScheduleData:
        """Get a schedule: `GET /v1/schedules/{schedule_id}`."""
        answer = self._transport.json(
            "GET", f"/v1/schedules/{segment(schedule_id)}", query={"namespaceId": namespace_id}, repeatable=True
        )
        return models.ScheduleData(answer["data"])

    def delete_schedule(self, schedule_id: str, *, namespace_id: str) -> models.ScheduleData:
        """Delete a schedule: `DELETE /v1/schedules/{schedule_id}`."""
        answer = self._transport.json(
            "DELETE", f"/v1/schedules/{segment(schedule_id)}", query={"namespaceId": namespace_id}, repeatable=True
        )
        return models.ScheduleData(answer["data"])

    def update_schedule(self, schedule_id: str, body: bodies.UpdateSchedule) -> models.ScheduleData:
        """Change a schedule, pause it or continue it: `PATCH /v1/schedules/{schedule_id}`."""
        answer = self._transport.json("PATCH", f"/v1/schedules/{segment(schedule_id)}", body=body, repeatable=True)
        return models.ScheduleData(answer["data"])

    def semantic_search(self, body: bodies.SearchRequest) -> models.SearchData:
        """Semantic search: `POST /v1/search`."""
        answer = self._transport.json("POST", "/v1/search", body=body, repeatable=True)
        return models.SearchData(answer["data"])

    def hybrid_search(self, body: bodies.HybridSearchRequest) -> models.SearchData:
        """Hybrid search: `POST /v1/search/hybrid`."""
        answer = self._transport.json("POST", "/v1/search/hybrid", body=body, repeatable=True)
        return models.SearchData(answer["data"])

    def batch_search(self, body: bodies.SearchBatchRequest) -> models.SearchBatchData:
        """Run several searches: `POST /v1/search/batch`."""
        answer = self._transport.json("POST", "/v1/search/batch", body=body, repeatable=True)
        return models.SearchBatchData(answer["data"])

    def why_search(self, body: bodies.WhyRequest) -> models.WhyData:
        """Explain a search result: `POST /v1/search/why`."""
        answer = self._transport.json("POST", "/v1/search/why", body=body, repeatable=True)
        return models.WhyData(answer["data"])

    def list_weak_searches(self, *, namespace_id: str) -> models.WeakSearchesData:
        """List queries without good results: `GET /v1/weak-searches`."""
        answer = self._transport.json("GET", "/v1/weak-searches", query={"namespaceId": namespace_id}, repeatable=True)
        return models.WeakSearchesData(answer["data"])

    def dify_retrieval(self, body: bodies.DifyRetrieval) -> models.DifyAnswer:
        """Search as Dify's external knowledge API: `POST /v1/compat/dify/retrieval`."""
        answer = self._transport.json("POST", "/v1/compat/dify/retrieval", body=body, repeatable=True)
        return models.DifyAnswer(answer)

    def vector_store_search(self, namespace_id: str, body: bodies.VectorStoreSearch) -> models.VectorStoreSearchAnswer:
        """Search as a vector store of OpenAI: `POST /v1/vector_stores/{namespace_id}/search`."""
        answer = self._transport.json(
            "POST", f"/v1/vector_stores/{segment(namespace_id)}/search", body=body, repeatable=True
        )
        return models.VectorStoreSearchAnswer(answer)

    def list_evaluations(
        self, *, cursor: str | None = None, page_size: int | None = None, namespace_id: str
    ) -> models.EvaluationsData:
        """List evaluations: `GET /v1/evaluations`."""
        answer = self._transport.json(
            "GET",
            "/v1/evaluations",
            query={"cursor": cursor, "pageSize": page_size, "namespaceId": namespace_id},
            repeatable=True,
        )
        return models.EvaluationsData(answer["data"])

    def create_evaluation(
        self, body: bodies.CreateEvaluation, *, idempotency_key: str | None = None
    ) -> models.EvaluationData:
        """Create an evaluation: `POST /v1/evaluations`."""
        answer = self._transport.json(
            "POST", "/v1/evaluations", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.EvaluationData(answer["data"])

    def get_evaluation(self, evaluation_id: str, *, namespace_id: str) -> models.EvaluationData:
        """Get an evaluation: `GET /v1/evaluations/{evaluation_id}`."""
        answer = self._transport.json(
            "GET", f"/v1/evaluations/{segment(evaluation_id)}", query={"namespaceId": namespace_id}, repeatable=True
        )
        return models.EvaluationData(answer["data"])

    def delete_evaluation(self, evaluation_id: str, *, namespace_id: str) -> models.EvaluationDeletedAnswer:
        """Delete an evaluation: `DELETE /v1/evaluations/{evaluation_id}`."""
        answer = self._transport.json(
            "DELETE", f"/v1/evaluations/{segment(evaluation_id)}", query={"namespaceId": namespace_id}, repeatable=True
        )
        return models.EvaluationDeletedAnswer(answer)

    def update_evaluation(self, evaluation_id: str, body: bodies.UpdateEvaluation) -> models.EvaluationData:
        """Change an evaluation: `PATCH /v1/evaluations/{evaluation_id}`."""
        answer = self._transport.json("PATCH", f"/v1/evaluations/{segment(evaluation_id)}", body=body, repeatable=True)
        return models.EvaluationData(answer["data"])

    def list_questions(
        self,
        evaluation_id: str,
        *,
        cursor: str | None = None,
        page_size: int | None = None,
        namespace_id: str,
        query: str | None = None,
    ) -> models.QuestionsData:
        """List the questions of an evaluation: `GET /v1/evaluations/{evaluation_id}/questions`."""
        answer = self._transport.json(
            "GET",
            f"/v1/evaluations/{segment(evaluation_id)}/questions",
            query={"cursor": cursor, "pageSize": page_size, "namespaceId": namespace_id, "query": query},
            repeatable=True,
        )
        return models.QuestionsData(answer["data"])

    def list_runs(
        self, evaluation_id: str, *, cursor: str | None = None, page_size: int | None = None, namespace_id: str
    ) -> models.RunsData:
        """List runs: `GET /v1/evaluations/{evaluation_id}/runs`."""
        answer = self._transport.json(
            "GET",
            f"/v1/evaluations/{segment(evaluation_id)}/runs",
            query={"cursor": cursor, "pageSize": page_size, "namespaceId": namespace_id},
            repeatable=True,
        )
        return models.RunsData(answer["data"])

    def start_run(
        self, evaluation_id: str, body: bodies.StartRun, *, idempotency_key: str | None = None
    ) -> models.RunData:
        """Compare settings: `POST /v1/evaluations/{evaluation_id}/runs`."""
        answer = self._transport.json(
            "POST",
            f"/v1/evaluations/{segment(evaluation_id)}/runs",
            body=body,
            repeatable=False,
            keyed=True,
            idempotency_key=idempotency_key,
        )
        return models.RunData(answer["data"])

    def get_run(
        self,
        evaluation_id: str,
        run_id: str,
        *,
        namespace_id: str,
        question_limit: int | None = None,
        changed: str | None = None,
    ) -> models.RunData:
        """Get a run: `GET /v1/evaluations/{evaluation_id}/runs/{run_id}`."""
        answer = self._transport.json(
            "GET",
            f"/v1/evaluations/{segment(evaluation_id)}/runs/{segment(run_id)}",
            query={"namespaceId": namespace_id, "questionLimit": question_limit, "changed": changed},
            repeatable=True,
        )
        return models.RunData(answer["data"])

    def fetch_documents(self, body: bodies.FetchDocuments) -> models.DocumentsData:
        """List documents: `POST /v1/documents`."""
        answer = self._transport.json("POST", "/v1/documents", body=body, repeatable=True)
        return models.DocumentsData(answer["data"])

    def delete_documents(self, body: bodies.DeleteDocuments) -> models.DocumentsDeletedAnswer:
        """Delete documents: `DELETE /v1/documents`."""
        answer = self._transport.json("DELETE", "/v1/documents", body=body, repeatable=True)
        return models.DocumentsDeletedAnswer(answer)

    def update_documents(self, body: bodies.UpdateDocuments) -> models.UpdatedDocumentsData:
        """Change metadata or access of documents: `PATCH /v1/documents`."""
        answer = self._transport.json("PATCH", "/v1/documents", body=body, repeatable=True)
        return models.UpdatedDocumentsData(answer["data"])

    def delete_documents_by_post(
        self, body: bodies.DeleteDocuments, *, idempotency_key: str | None = None
    ) -> models.DocumentsDeletedAnswer:
        """Delete documents by POST: `POST /v1/documents/delete`."""
        answer = self._transport.json(
            "POST", "/v1/documents/delete", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.DocumentsDeletedAnswer(answer)

    def resync_documents(
        self, body: bodies.ResyncDocuments, *, idempotency_key: str | None = None
    ) -> models.ResyncData:
        """Ingest documents again: `POST /v1/documents/resync`."""
        answer = self._transport.json(
            "POST", "/v1/documents/resync", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.ResyncData(answer["data"])

    def get_deletion(self, deletion_id: str) -> models.DeletionData:
        """Get the receipt of a deletion: `GET /v1/deletions/{deletion_id}`."""
        answer = self._transport.json("GET", f"/v1/deletions/{segment(deletion_id)}", repeatable=True)
        return models.DeletionData(answer["data"])

    def verify_deletion(self, body: bodies.VerifyDeletion) -> models.VerifiedDeletion:
        """Verify the receipt of a deletion: `POST /v1/deletions/verify`."""
        answer = self._transport.json("POST", "/v1/deletions/verify", body=body, repeatable=True)
        return models.VerifiedDeletion(answer["data"])

    def list_chunks(
        self,
        document_id: str,
        *,
        namespace_id: str,
        cursor: str | None = None,
        first_index: int | None = None,
        page_size: int | None = None,
    ) -> models.ChunksData:
        """List the chunks of a document: `GET /v1/documents/{document_id}/chunks`."""
        answer = self._transport.json(
            "GET",
            f"/v1/documents/{segment(document_id)}/chunks",
            query={"namespaceId": namespace_id, "cursor": cursor, "firstIndex": first_index, "pageSize": page_size},
            repeatable=True,
        )
        return models.ChunksData(answer["data"])

    def list_history(
        self, document_id: str, *, namespace_id: str, cursor: str | None = None, page_size: int | None = None
    ) -> models.HistoryData:
        """List the job runs of a document: `GET /v1/documents/{document_id}/history`."""
        answer = self._transport.json(
            "GET",
            f"/v1/documents/{segment(document_id)}/history",
            query={"namespaceId": namespace_id, "cursor": cursor, "pageSize": page_size},
            repeatable=True,
        )
        return models.HistoryData(answer["data"])

    def draw_document_page(self, document_id: str, page: str, *, namespace_id: str, chunk: int | None = None) -> bytes:
        """Draw a page of a document: `GET /v1/documents/{document_id}/pages/{page}`."""
        return self._transport.content(
            "GET",
            f"/v1/documents/{segment(document_id)}/pages/{segment(page)}",
            query={"namespaceId": namespace_id, "chunk": chunk},
        )

    def read_file(
        self,
        document_id: str,
        kind: Literal["raw", "parsed"],
        *,
        expires: str,
        signature: str,
        key: str | None = None,
        principal: str | None = None,
        groups: str | None = None,
    ) -> bytes:
        """Read a file by its signed link: `GET /v1/files/{document_id}/{kind}`."""
        return self._transport.content(
            "GET",
            f"/v1/files/{segment(document_id)}/{segment(kind)}",
            query={"expires": expires, "signature": signature, "key": key, "principal": principal, "groups": groups},
        )

    def hide_passage(
        self, document_id: str, body: bodies.HidePassage, *, idempotency_key: str | None = None
    ) -> models.HiddenPassageData:
        """Hide a passage from search: `POST /v1/documents/{document_id}/hidden-passages`."""
        answer = self._transport.json(
            "POST",
            f"/v1/documents/{segment(document_id)}/hidden-passages",
            body=body,
            repeatable=False,
            keyed=True,
            idempotency_key=idempotency_key,
        )
        return models.HiddenPassageData(answer["data"])

    def list_hidden_passages(
        self, *, cursor: str | None = None, page_size: int | None = None, namespace_id: str
    ) -> models.HiddenPassagesData:
        """List hidden passages: `GET /v1/hidden-passages`."""
        answer = self._transport.json(
            "GET",
            "/v1/hidden-passages",
            query={"cursor": cursor, "pageSize": page_size, "namespaceId": namespace_id},
            repeatable=True,
        )
        return models.HiddenPassagesData(answer["data"])

    def show_passage(self, document_id: str, passage_id: str, *, namespace_id: str) -> models.ObjectReference:
        """Show a hidden passage in searches again: `DELETE
        /v1/documents/{document_id}/hidden-passages/{passage_id}`.
        """
        answer = self._transport.json(
            "DELETE",
            f"/v1/documents/{segment(document_id)}/hidden-passages/{segment(passage_id)}",
            query={"namespaceId": namespace_id},
            repeatable=True,
        )
        return models.ObjectReference(answer["data"])

    def get_group(self, group_id: str, *, namespace_id: str) -> models.GroupData:
        """Get a group: `GET /v1/groups/{group_id}`."""
        answer = self._transport.json(
            "GET", f"/v1/groups/{segment(group_id)}", query={"namespaceId": namespace_id}, repeatable=True
        )
        return models.GroupData(answer["data"])

    def put_group(self, group_id: str, body: bodies.PutGroup) -> models.GroupData:
        """Create or replace a group: `PUT /v1/groups/{group_id}`."""
        answer = self._transport.json("PUT", f"/v1/groups/{segment(group_id)}", body=body, repeatable=True)
        return models.GroupData(answer["data"])

    def delete_group(self, group_id: str, *, namespace_id: str | None = None) -> models.DeletedGroup:
        """Delete a group: `DELETE /v1/groups/{group_id}`."""
        answer = self._transport.json(
            "DELETE", f"/v1/groups/{segment(group_id)}", query={"namespaceId": namespace_id}, repeatable=True
        )
        return models.DeletedGroup(answer["data"])

    def list_connections(
        self,
        *,
        cursor: str | None = None,
        page_size: int | None = None,
        namespace_id: str,
        connector: Literal[
            "AIRTABLE",
            "ASANA",
            "AZURE_DEVOPS",
            "BOX",
            "CLICKUP",
            "CONFLUENCE",
            "CUSTOM",
            "DISCOURSE",
            "DROPBOX",
            "FEED",
            "FRESHDESK",
            "GITHUB",
            "GITLAB",
            "GMAIL",
            "GOOGLE_DRIVE",
            "HUBSPOT",
            "INTERCOM",
            "JIRA",
            "LINEAR",
            "MONDAY",
            "NOTION",
            "OBJECTS",
            "ONEDRIVE",
            "OUTLOOK_MAIL",
            "SALESFORCE",
            "SERVICENOW",
            "SHAREPOINT",
            "SLACK",
            "SQL",
            "TEAMS",
            "WORDPRESS",
            "ZENDESK",
        ]
        | None = None,
    ) -> models.ConnectionsData:
        """List connections: `GET /v1/connections`."""
        answer = self._transport.json(
            "GET",
            "/v1/connections",
            query={"cursor": cursor, "pageSize": page_size, "namespaceId": namespace_id, "connector": connector},
            repeatable=True,
        )
        return models.ConnectionsData(answer["data"])

    def create_connection(
        self, body: bodies.CreateConnection, *, idempotency_key: str | None = None
    ) -> models.CreatedConnectionData:
        """Create a connection: `POST /v1/connections`."""
        answer = self._transport.json(
            "POST", "/v1/connections", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.CreatedConnectionData(answer["data"])

    def get_connection(self, connection_id: str, *, namespace_id: str | None = None) -> models.ConnectionData:
        """Get a connection: `GET /v1/connections/{connection_id}`."""
        answer = self._transport.json(
            "GET", f"/v1/connections/{segment(connection_id)}", query={"namespaceId": namespace_id}, repeatable=True
        )
        return models.ConnectionData(answer["data"])

    def update_connection(self, connection_id: str, body: bodies.UpdateConnection) -> models.UpdatedConnectionData:
        """Change or re-authorize a connection: `PATCH /v1/connections/{connection_id}`."""
        answer = self._transport.json("PATCH", f"/v1/connections/{segment(connection_id)}", body=body, repeatable=True)
        return models.UpdatedConnectionData(answer["data"])

    def browse_connection(self, connection_id: str, body: bodies.BrowseConnection) -> models.BrowsedData:
        """Browse the account of a connection: `POST /v1/connections/{connection_id}/browse`."""
        answer = self._transport.json(
            "POST", f"/v1/connections/{segment(connection_id)}/browse", body=body, repeatable=True
        )
        return models.BrowsedData(answer["data"])

    def revoke_connection(self, connection_id: str, body: bodies.RevokeConnection) -> models.RevokedConnectionData:
        """Revoke a connection: `POST /v1/connections/{connection_id}/revoke`."""
        answer = self._transport.json(
            "POST", f"/v1/connections/{segment(connection_id)}/revoke", body=body, repeatable=False
        )
        return models.RevokedConnectionData(answer["data"])

    def turn_push_on(self, connection_id: str, body: bodies.TurnPushOn) -> models.PushData:
        """Turn push on: `POST /v1/connections/{connection_id}/push`."""
        answer = self._transport.json(
            "POST", f"/v1/connections/{segment(connection_id)}/push", body=body, repeatable=False
        )
        return models.PushData(answer["data"])

    def turn_push_off(self, connection_id: str, *, namespace_id: str) -> models.ObjectReference:
        """Turn push off: `DELETE /v1/connections/{connection_id}/push`."""
        answer = self._transport.json(
            "DELETE",
            f"/v1/connections/{segment(connection_id)}/push",
            query={"namespaceId": namespace_id},
            repeatable=True,
        )
        return models.ObjectReference(answer["data"])

    def answer_push_challenge(self, push_id: str, *, challenge: str | None = None) -> bytes:
        """Answer the challenge of a content service: `GET /v1/push/{push_id}`."""
        return self._transport.content("GET", f"/v1/push/{segment(push_id)}", query={"challenge": challenge})

    def receive_push(self, push_id: str, *, validation_token: str | None = None) -> bytes:
        """Receive a hint of a content service: `POST /v1/push/{push_id}`."""
        return self._transport.content(
            "POST", f"/v1/push/{segment(push_id)}", query={"validationToken": validation_token}
        )

    def list_webhooks(self, *, cursor: str | None = None, page_size: int | None = None) -> models.WebhooksData:
        """List webhooks: `GET /v1/webhooks`."""
        answer = self._transport.json(
            "GET", "/v1/webhooks", query={"cursor": cursor, "pageSize": page_size}, repeatable=True
        )
        return models.WebhooksData(answer["data"])

    def create_webhook(self, body: bodies.CreateWebhook, *, idempotency_key: str | None = None) -> models.SecretData:
        """Create a webhook: `POST /v1/webhooks`."""
        answer = self._transport.json(
            "POST", "/v1/webhooks", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.SecretData(answer["data"])

    def get_webhook(self, webhook_id: str) -> models.WebhookData:
        """Get a webhook: `GET /v1/webhooks/{webhook_id}`."""
        answer = self._transport.json("GET", f"/v1/webhooks/{segment(webhook_id)}", repeatable=True)
        return models.WebhookData(answer["data"])

    def delete_webhook(self, webhook_id: str) -> models.WebhookData:
        """Delete a webhook: `DELETE /v1/webhooks/{webhook_id}`."""
        answer = self._transport.json("DELETE", f"/v1/webhooks/{segment(webhook_id)}", repeatable=True)
        return models.WebhookData(answer["data"])

    def update_webhook(self, webhook_id: str, body: bodies.UpdateWebhook) -> models.WebhookData:
        """Change a webhook: `PATCH /v1/webhooks/{webhook_id}`."""
        answer = self._transport.json("PATCH", f"/v1/webhooks/{segment(webhook_id)}", body=body, repeatable=True)
        return models.WebhookData(answer["data"])

    def rotate_webhook(
        self, webhook_id: str, body: bodies.RotateWebhook, *, idempotency_key: str | None = None
    ) -> models.SecretData:
        """Rotate the secret: `POST /v1/webhooks/{webhook_id}/rotate`."""
        answer = self._transport.json(
            "POST",
            f"/v1/webhooks/{segment(webhook_id)}/rotate",
            body=body,
            repeatable=False,
            keyed=True,
            idempotency_key=idempotency_key,
        )
        return models.SecretData(answer["data"])

    def test_webhook(self, webhook_id: str) -> models.DeliveryData:
        """Send a test event: `POST /v1/webhooks/{webhook_id}/test`."""
        answer = self._transport.json("POST", f"/v1/webhooks/{segment(webhook_id)}/test", repeatable=False)
        return models.DeliveryData(answer["data"])

    def list_deliveries(
        self,
        webhook_id: str,
        *,
        cursor: str | None = None,
        page_size: int | None = None,
        status: Literal["DELIVERED", "FAILED", "PENDING"] | None = None,
    ) -> models.DeliveriesData:
        """List deliveries: `GET /v1/webhooks/{webhook_id}/deliveries`."""
        answer = self._transport.json(
            "GET",
            f"/v1/webhooks/{segment(webhook_id)}/deliveries",
            query={"cursor": cursor, "pageSize": page_size, "status": status},
            repeatable=True,
        )
        return models.DeliveriesData(answer["data"])

    def redeliver(self, webhook_id: str, delivery_id: str) -> models.DeliveryData:
        """Redeliver an event: `POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver`."""
        answer = self._transport.json(
            "POST", f"/v1/webhooks/{segment(webhook_id)}/deliveries/{segment(delivery_id)}/redeliver", repeatable=False
        )
        return models.DeliveryData(answer["data"])

    def list_keys(self, *, cursor: str | None = None, page_size: int | None = None) -> models.KeysData:
        """List API keys: `GET /v1/keys`."""
        answer = self._transport.json(
            "GET", "/v1/keys", query={"cursor": cursor, "pageSize": page_size}, repeatable=True
        )
        return models.KeysData(answer["data"])

    def create_key(self, body: bodies.CreateKey, *, idempotency_key: str | None = None) -> models.MadeKeyData:
        """Create an API key: `POST /v1/keys`."""
        answer = self._transport.json(
            "POST", "/v1/keys", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.MadeKeyData(answer["data"])

    def current_key(self) -> models.KeyData:
        """Get the current API key: `GET /v1/keys/current`."""
        answer = self._transport.json("GET", "/v1/keys/current", repeatable=True)
        return models.KeyData(answer["data"])

    def revoke_key(self, key_id: str) -> models.KeyData:
        """Revoke an API key: `DELETE /v1/keys/{key_id}`."""
        answer = self._transport.json("DELETE", f"/v1/keys/{segment(key_id)}", repeatable=True)
        return models.KeyData(answer["data"])

    def list_tenants(self, *, cursor: str | None = None, page_size: int | None = None) -> models.TenantsData:
        """List tenants: `GET /v1/tenants`."""
        answer = self._transport.json(
            "GET", "/v1/tenants", query={"cursor": cursor, "pageSize": page_size}, repeatable=True
        )
        return models.TenantsData(answer["data"])

    def create_tenant(self, body: bodies.CreateTenant, *, idempotency_key: str | None = None) -> models.TenantData:
        """Create a tenant: `POST /v1/tenants`."""
        answer = self._transport.json(
            "POST", "/v1/tenants", body=body, repeatable=False, keyed=True, idempotency_key=idempotency_key
        )
        return models.TenantData(answer["data"])

    def delete_tenant(self, tenant_id: str) -> models.ForgottenTenant:
        """Delete a tenant: `DELETE /v1/tenants/{tenant_id}`."""
        answer = self._transport.json("DELETE", f"/v1/tenants/{segment(tenant_id)}", repeatable=True)
        return models.ForgottenTenant(answer["data"])

    def update_tenant(self, tenant_id: str, body: bodies.UpdateTenant) -> models.TenantData:
        """Set a tenant's quotas: `PATCH /v1/tenants/{tenant_id}`."""
        answer = self._transport.json("PATCH", f"/v1/tenants/{segment(tenant_id)}", body=body, repeatable=True)
        return models.TenantData(answer["data"])

    def read_usage(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        by: Literal["day", "namespace", "tenant"] | None = None,
        daily: bool | None = None,
    ) -> models.UsageData:
        """Get the usage: `GET /v1/usage`."""
        answer = self._transport.json(
            "GET", "/v1/usage", query={"from": from_, "to": to, "by": by, "daily": daily}, repeatable=True
        )
        return models.UsageData(answer["data"])

    def get_organization(self) -> models.OrganizationData:
        """Get the organization: `GET /v1/organization`."""
        answer = self._transport.json("GET", "/v1/organization", repeatable=True)
        return models.OrganizationData(answer["data"])

    def update_organization(self, body: bodies.UpdateOrganization) -> models.OrganizationData:
        """Set the organization's quotas: `PATCH /v1/organization`."""
        answer = self._transport.json("PATCH", "/v1/organization", body=body, repeatable=True)
        return models.OrganizationData(answer["data"])

    def list_audit_entries(
        self,
        *,
        cursor: str | None = None,
        page_size: int | None = None,
        object_type: str | None = None,
        object: str | None = None,
        key_name: str | None = None,
        outcome: Literal["DONE", "REFUSED"] | None = None,
        from_: str | None = None,
        to: str | None = None,
        sort: Literal["newest", "oldest"] | None = None,
    ) -> models.AuditData:
        """List audit entries: `GET /v1/audit`."""
        answer = self._transport.json(
            "GET",
            "/v1/audit",
            query={
                "cursor": cursor,
                "pageSize": page_size,
                "objectType": object_type,
                "object": object,
                "keyName": key_name,
                "outcome": outcome,
                "from": from_,
                "to": to,
                "sort": sort,
            },
            repeatable=True,
        )
        return models.AuditData(answer["data"])

    def read_activity(self, *, namespace_id: str, history: bool | None = None) -> models.ActivityData:
        """Get the activity of a namespace: `GET /v1/activity`."""
        answer = self._transport.json(
            "GET", "/v1/activity", query={"namespaceId": namespace_id, "history": history}, repeatable=True
        )
        return models.ActivityData(answer["data"])

    def read_queue(self) -> models.QueueData:
        """Get the queue: `GET /v1/queue`."""
        answer = self._transport.json("GET", "/v1/queue", repeatable=True)
        return models.QueueData(answer["data"])

    def list_problems(self, *, namespace_id: str | None = None) -> models.ProblemsData:
        """List problems: `GET /v1/problems`."""
        answer = self._transport.json("GET", "/v1/problems", query={"namespaceId": namespace_id}, repeatable=True)
        return models.ProblemsData(answer["data"])

    def read_metrics(self) -> bytes:
        """Get metrics for Prometheus: `GET /metrics`."""
        return self._transport.content("GET", "/metrics", query={})

    def health(self) -> models.Health:
        """The process answers: `GET /health`."""
        answer = self._transport.json("GET", "/health", repeatable=True)
        return models.Health(answer)

    def ready(self) -> models.Readiness:
        """Requests are served and accepted work is on its way: `GET /ready`."""
        answer = self._transport.json("GET", "/ready", repeatable=True)
        return models.Readiness(answer)
