"""Described services through the pipeline: a job run, then search; changes are there after the next."""

from __future__ import annotations

import pytest

from tests.standins.slack import Channel, at, days_ago


def find(space, query, text):
    """Return True if search finds the text."""
    return any(text in hit.content for hit in space.find_hits(query, top_k=20))


@pytest.mark.parametrize("account", ["SLACK"], indirect=True)
def test_a_workspace_of_slack_is_searched_and_kept_in_step(space, account):
    general, tide = account.first, "C0TIDE"
    account.channels[tide] = Channel("tide")
    thread = account.post("When does the lighthouse open?", at("2026-05-14", "10:32"))
    reply = account.reply(thread, "In spring, says <@U1>.", days_ago(1))
    account.post("The harbour master counts ships at dawn.", at("2026-05-14", "11:00"))
    owls = account.post("Owls hunt mice at night.", at("2026-05-15", "11:00"))
    for day in range(1, 9):
        account.post(f"Tide table number {day}.", at(f"2026-04-{day:02}", "09:00"), channel=tide)
    run = space.ingest()
    assert (run.status, run.failed, len(run.completed)) == ("COMPLETED", [], 11)
    assert find(space, "when does the lighthouse open", "Bob Lund, ")
    assert find(space, "when does the lighthouse open", "In spring, says @Ada Berg.")
    assert find(space, "harbour master", "Ada Berg, 14 May 11:00: The harbour master counts ships at dawn.")
    account.requests.clear()
    stored = "select count(*) as files from sweeps where kind = 'file'"
    (document_before,) = space.db.rows(stored)
    run = space.ingest()
    assert space.db.rows(stored) == [document_before], "Content that did not change is not stored again."
    assert (run.failed, run.progress["parsed"], run.progress["embedded"]) == ([], 0, 0)
    assert account.requests.count("GET /conversations.replies") == 1  # a recent thread, whose replies may be edited

    account.channels[general].replies[thread][reply]["text"] = "In autumn, after the repair."
    account.reply(thread, "Bring a lamp.", days_ago(0.1))
    account.channels[tide].messages["1775034000.000000"]["text"] = "Tide table with a spring tide."
    account.channels[tide].name = "tide-tables"
    del account.channels[general].messages[owls]
    run = space.ingest()
    assert (run.failed, run.progress["removed"]) == ([], 1)
    assert find(space, "lighthouse open", "In autumn, after the repair.")
    assert find(space, "lamp", "Bring a lamp.")
    assert find(space, "spring tide", "# #tide-tables, 1 April 2026")
    assert not find(space, "owls at night", "Owls hunt")


@pytest.mark.parametrize("account", ["JIRA_SITE"], indirect=True)
def test_a_site_of_jira_is_searched_and_kept_in_step(space, account):
    account.has_comments = False
    keys = [account.put(f"Ship {number}", f"The harbour master counts ship {number}.") for number in range(12)]
    account.set_fields(keys[0], status={"name": "Blocked"}, assignee={"displayName": "Ada Berg"})
    account.put_comment(keys[1], "Bob", "Owls hunt mice at night.")
    account.attach(keys[2], "10001", "bees.txt", "text/plain", b"Bees dance where the clover grows.")
    run = space.ingest()
    assert (run.status, run.failed, len(run.completed)) == ("COMPLETED", [], 13)
    assert find(space, "blocked ships of Ada Berg", "Assignee: Ada Berg")
    assert find(space, "owls at night", "Owls hunt mice")
    assert find(space, "bees and clover", "Bees dance")
    account.set_fields(keys[0], status={"name": "Afloat"})
    account.put_comment(keys[1], "Ada", "A spring tide follows the full moon.")
    account.rename(keys[3], "Renamed lighthouse")
    del account.files[keys[2]]["10001"]
    account.set_fields(keys[2])
    account.delete(keys[7])
    run = space.ingest()
    assert (run.failed, run.progress["removed"]) == ([], 2)
    assert find(space, "afloat", "Status: Afloat")
    assert find(space, "spring tide and moon", "full moon")
    assert find(space, "renamed lighthouse", "Renamed lighthouse")
    assert not find(space, "bees and clover", "Bees dance")
    assert not find(space, "harbour master counts ship 7", "ship 7")
