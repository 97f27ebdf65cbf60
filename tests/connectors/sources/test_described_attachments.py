"""Files attached to items of described services: who requests them, and what becomes of those that cannot be read."""

from __future__ import annotations

import re

from tests.connectors.sources.reading import file_host, list_items, read
from tests.standins import described_services, github

PLAN, NOTE = b"The keeper paints the tower in June.", b"The lamp is broken. SECRET"


def test_files_of_a_ticket_are_apart_for_public_and_private_parts(tmp_path):
    with described_services.serving("FRESHDESK") as desk, file_host({"/p/1": PLAN, "/p/2": NOTE}) as (host, received):
        key = desk.put("Tower", "We paint.")
        desk.attachments[key] = [{"name": "plan.txt", "attachment_url": f"{host}/p/1"}]
        private = {"name": "note.txt", "attachment_url": f"{host}/p/2"}
        gone = {"name": "gone.pdf", "attachment_url": f"{host}/p/3"}
        desk.replies[key] = [
            {"body": "b", "private": True, "attachments": [private]},
            {"body": "c", "private": False, "attachments": [gone]},
        ]
        contents = read(desk, tmp_path)
        text, files = contents[desk.locate(key)]
        assert files == {"plan.txt": PLAN}
        assert (
            "<p>Attachment gone.pdf was not read: The address at which Freshdesk has the file answers 404.</p>" in text
        )
        assert contents[f"{desk.locate(key)}?notes=private"][1] == {"note.txt": NOTE}
        assert received == [None] * 3


def test_uploads_in_issues_and_comments_are_read_from_the_servers_own_host(tmp_path):
    with github.serving_enterprise() as hub, file_host({"/signed/plan": PLAN}) as (host, received):
        plan, shot = "/user-attachments/files/7/plan%20b.txt", "/user-attachments/assets/0f-1"
        hub.uploads = {plan: f"{host}/signed/plan", shot: b"picture"}
        other = "https://evil.example/user-attachments/files/1/x.pdf"
        hub.put_issue("Tower", f"See [the plan]({hub.base}{plan}), {other} and [out]({host}/signed/plan).")
        hub.comments[1] = [{"user": {"login": "mona"}, "body": f"![Shot]({hub.base}{shot})", "created_at": ""}]
        hub.change_issue(1, comments=1)
        hub.put_issue("No files", "text")
        contents = read(hub, tmp_path)
        (text, files) = next(value for name, value in contents.items() if name.endswith("issues/1"))
        assert files == {"plan b.txt": PLAN, "Shot.png": b"picture"}
        assert "not read" not in text
        assert received == [None]
        assert list_items(hub)[0][f"{hub.base}/octo-org/handbook/issues/2"].content


def test_files_of_zendesk_are_read_unless_they_are_inline_or_dangerous(tmp_path):
    with described_services.serving("ZENDESK_TICKETS") as account:
        key = account.put("Tower", "We paint.")
        url = f"{account.base}/attachments/token/a"
        account.downloads = {"/attachments/token/a": PLAN}
        wanted = {"file_name": "plan.txt", "content_url": url, "inline": False}
        others = [{**wanted, "file_name": "logo", "inline": True}, {**wanted, "malware_scan_result": "malware_found"}]
        note = {"file_name": "note.txt", "content_url": url}
        account.comments[key] = [
            {"public": True, "html_body": "x", "attachments": [wanted, *others]},
            {"public": False, "html_body": "y", "attachments": [note]},
        ]
        contents = read(account, tmp_path)
        assert contents[account.locate(key)][1] == {"plan.txt": PLAN}
        assert contents[f"{account.locate(key)}?notes=internal"][1] == {"note.txt": PLAN}


def test_files_of_slack_are_read_with_the_token_and_a_page_in_their_place_is_not(tmp_path):
    with described_services.serving("SLACK") as account:
        url = f"{account.base}/files-pri/T1-F1/download/plan.txt"
        account.downloads = {"/files-pri/T1-F1/download/plan.txt": PLAN}
        file = {"name": "plan.txt", "permalink": "https://acme.slack.com/files/1", "url_private_download": url}
        locked = {**file, "name": "locked.pdf", "url_private_download": f"{account.base}/files-pri/login"}
        moment = described_services.slack.at("2026-05-14", "10:00")
        account.post("Look", moment, files=[file, locked])
        ((text, files),) = read(account, tmp_path).values()
        assert files == {"plan.txt": PLAN}
        assert "Attachment locked.pdf was not read: The service answers with a page" in text
        assert re.search(r"File: \[plan\.txt\]", text)
