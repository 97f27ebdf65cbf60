"""The shared parsing cases through the whole running service, as their manifest's rules say."""

from __future__ import annotations

import json
import unicodedata

import pytest


def plain(text, case):
    joint = "" if "without spaces" in case["note"] else " "
    return joint.join(unicodedata.normalize("NFKC", text).split())


def post(service, folder, case, number):
    content = (folder / case["file"]).read_bytes()
    if not content:
        return None  # refused at acceptance, see tests/api
    ocr = json.dumps({"strategy": case["ocr"]})
    return service.file(case["file"], content, externalId=f"case {number}", ocrConfig=ocr)["ingestJobRunId"]


def text_of(service, document_id):
    """All chunks of a document over the API."""
    parts, cursor = [], None
    while True:
        page_parameters = {"cursor": cursor} if cursor else {}
        answer = service.client.get(
            f"/v1/documents/{document_id}/chunks", params={"namespaceId": service.namespace, **page_parameters}
        )
        data = service.ok(answer)
        parts += [chunk["content"] for chunk in data["chunks"]]
        cursor = data.get("nextCursor")
        if not cursor:
            return "\n".join(parts)


def trouble(service, case, run, document_id):
    """Difference from the manifest, or None."""
    failures = [entry for entry in run["documents"]["failed"] if entry["id"] == document_id]
    if failures:
        useful = len(failures[0]["error"] or "") > 40
        if case["expect"] == "ok" or not useful:
            return f"{case['file']}: FAILED: {failures[0]['error']}"
        return None
    text = text_of(service, document_id)
    plain_text = plain(text, case)
    wrong = [words for words in case["must_not"] if words in text]
    if case["expect"] in ("ok", "ok_or_stretch"):
        wrong += [words for words in case["must"] if plain(words, case) not in plain_text]
    if case["expect"] == "fail" or not plain_text:
        wrong.append("SUCCESS")
    return f"{case['file']}: {wrong}" if wrong else None


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.timeout(1500)
def test_every_shared_case_ends_as_its_manifest_says(service, shared_data):
    folder = shared_data / "files"
    cases = json.loads((folder / "manifest.json").read_text())["files"]
    runs = [post(service, folder, case, number) for number, case in enumerate(cases)]
    ended = dict(zip(filter(None, runs), service.wait(*filter(None, runs), seconds=1200), strict=True))
    ids = {document["externalId"]: document["id"] for document in service.documents()}
    wrong = [
        reason
        for number, (case, run) in enumerate(zip(cases, runs, strict=True))
        if run and (reason := trouble(service, case, ended[run], ids[f"case {number}"]))
    ]
    assert wrong == []
