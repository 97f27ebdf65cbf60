"""Google's own kinds of documents, shared drives and folders in the pipeline: found, and gone with their folder."""

from __future__ import annotations

import io
import zipfile
from urllib.parse import parse_qsl, urlsplit

import pytest

from connectors import registry
from retrieval import settings
from retrieval.connections import tokens as authorizations
from tests.flows.connected import connected_space
from tests.standins import google_drive
from tests.standins.google_drive_files import Refusal
from tests.standins.place import APP

BACK = "https://here.example/back"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MARKDOWN = (
    "# The observatory\n\nIts dome was painted green by the harbour committee.\n\n![a dome][image1]\n\n"
    "[image1]: <data:image/png;base64,iVBORw0KGgoAAAANSUhEUg>\n"
)


def workbook(*sheets: tuple[str, str]) -> bytes:
    """Sheets of one cell each."""
    spread = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{XLSX}.main+xml"/>'
        + "".join(
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType='
            '"application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>'
            for n in range(len(sheets))
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{spread}" xmlns:r="{office}"><sheets>'
        + "".join(f'<sheet name="{name}" sheetId="{n + 1}" r:id="s{n}"/>' for n, (name, _) in enumerate(sheets))
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        + "".join(
            f'<Relationship Id="s{n}" Type="{office}/worksheet" Target="worksheets/sheet{n}.xml"/>'
            for n in range(len(sheets))
        )
        + "</Relationships>",
    }
    for n, (_, text) in enumerate(sheets):
        parts[f"xl/worksheets/sheet{n}.xml"] = (
            f'<worksheet xmlns="{spread}"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>{text}</t></is></c>'
            "</row></sheetData></worksheet>"
        )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return out.getvalue()


@pytest.fixture
def account():
    with google_drive.serving() as made:
        yield made


@pytest.fixture
def space(db, account, monkeypatch):
    with connected_space(db, account, monkeypatch) as made:
        yield made


def documents(space):
    rows = space.db.rows(
        "select d.* from documents d where d.connection_id = %(id)s and d.deleted_at is null", {"id": space.connection}
    )
    return {row["external_id"]: row for row in rows}


def test_documents_and_all_sheets_are_found_whatever_their_names_end_in(space, account):
    marketing = account.shared_drive("Marketing")
    told = account.put_native("plans/Plan 1.0", "document", {"text/markdown": MARKDOWN.encode()}, drive=marketing)
    sheets = workbook(("first", "Barley is stored in the northern barn."), ("second", "Walnut oil is sold in spring."))
    counted = account.put_native("Stock.csv", "spreadsheet", {XLSX: sheets})
    large = account.put_native("Too much", "spreadsheet", {XLSX: Refusal(403, "exportSizeLimitExceeded")})
    account.put_native("Survey", "form", {})
    run = space.ingest()
    assert run.status == "COMPLETED"
    assert run.progress["skippedReasons"] == {"a Google Form": 1}
    assert ["10 MB" in entry.error for entry in run.failed] == [True]
    assert "Plan 1.0" in space.search("the dome that was painted green", top_k=1)[0]
    assert "Stock.csv" in space.search("walnut oil sold in spring", top_k=1)[0]
    known = documents(space)
    chunks = space.db.rows("select content from chunks where document_id = %(id)s", {"id": known[told]["id"]})
    assert [chunk["content"] for chunk in chunks if "dome" in chunk["content"]]
    assert not [chunk["content"] for chunk in chunks if "base64" in chunk["content"]]
    assert known[told]["properties"]["path"] == "Marketing/plans/Plan 1.0"
    assert known[told]["properties"]["title"] == "The observatory"
    assert known[counted]["properties"]["owner"] == "Ada"
    assert known[large]["status"] == "FAILED"


def test_a_folder_in_the_trash_takes_its_documents_from_search_and_gives_them_back(space, account):
    account.put("old/deep/tide.txt", "A spring tide follows the full moon.")
    for number in range(6):
        account.put(f"kept/{number}.txt", f"Number {number} is about ships and sails.")
    space.ingest()
    assert "tide" in space.search("spring tide and full moon", top_k=1)[0]
    account.delete(account.folder("old"))
    assert space.ingest().progress["removed"] == 1
    assert not [name for name in space.search("spring tide and full moon", top_k=9) if "tide" in name]
    account.restore(account.folder("old"))
    space.ingest()
    assert "tide" in space.search("spring tide and full moon", top_k=1)[0]


def test_a_renamed_folder_changes_paths_and_nothing_is_downloaded(space, account):
    one = account.put("old/one.txt", "Owls hunt mice at night without a sound.")
    space.ingest()
    account.rename(account.folder("old"), "new")
    account.asked.clear()
    space.ingest()
    assert documents(space)[one]["properties"]["path"] == "new/one.txt"
    assert [said for name, said in account.asked if said.get("alt") == "media"] == []


def test_another_account_lists_everything_anew_and_removes_nothing_unasked(space, account):
    old = {account.put(f"{number}.txt", f"Text {number} of the first account.") for number in range(3)}
    space.ingest()
    account.vendor.account = "account-2"
    for one in old:
        account.nodes.pop(one)
    fresh = account.put("fresh.txt", "Fresh snow covers the railway.")
    authorizer = registry.authorizer("GOOGLE_DRIVE", APP, settings.load())
    visited = account.visit(authorizer.authorize_url(redirect_uri=BACK, state="s", challenge=None))
    code = dict(parse_qsl(urlsplit(visited).query))["code"]
    tokens = authorizer.exchange_code(code, redirect_uri=BACK, verifier=None)
    space.call(authorizations.granted(space.db, space.ring, space.connection, tokens))
    run = space.ingest()
    assert fresh in documents(space)
    assert old <= set(documents(space))
    assert run.progress["awaitingConfirmation"] == 3
