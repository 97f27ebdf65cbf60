"""Slack as people read it: threads, days, names, markup, blocks; edits, replies and deletions at the next listing."""

from __future__ import annotations

import pytest

from connectors.sources.described.filters import chat
from retrieval.errors import Fatal
from retrieval.sync_filter import SyncFilter
from tests.connectors.sources.reading import list_items, list_pages, open_connector, texts
from tests.standins import described_services
from tests.standins.slack import Channel, at

ARCHIVE = "https://acme.slack.com/archives"
GENERAL, ENGINE = "C0123456789", "C0ENGINE"


@pytest.fixture
def slack():
    with described_services.serving("SLACK") as account:
        account.channels[ENGINE] = Channel("eng-search")
        yield account


def fill(account):
    first = account.post("Shall we tag <@U2>? See <#C0ENGINE>.", at("2026-05-14", "10:32"), thread=True)
    account.reply(first, "Yes, *today*. <https://ci.example.com/7|Build 7>", at("2026-05-15", "08:05"))
    account.post("Lunch &amp; cake", at("2026-05-14", "12:00"))
    account.post("Keys are at the desk", at("2026-05-14", "13:01"), user="U2")
    account.post("New day", at("2026-05-16", "09:00"), channel=ENGINE)
    return first


def test_a_thread_is_a_document_and_other_messages_are_grouped_by_channel_and_day(slack, tmp_path):
    thread = fill(slack)
    read = texts(slack, tmp_path)
    assert read == {
        f"{ARCHIVE}/{GENERAL}/p{thread}": "# #general, 14 May 2026\n\n"
        "Ada Berg, 14 May 10:32: Shall we tag @Bob Lund? See #eng-search.\n\n"
        "Bob Lund, 15 May 08:05: Yes, **today**. [Build 7](https://ci.example.com/7)",
        f"{ARCHIVE}/{GENERAL}/days/2026-05-14": "# #general, 14 May 2026\n\n"
        "Ada Berg, 14 May 12:00: Lunch & cake\n\nBob Lund, 14 May 13:01: Keys are at the desk",
        f"{ARCHIVE}/{ENGINE}/days/2026-05-16": "# #eng-search, 16 May 2026\n\nAda Berg, 16 May 09:00: New day",
    }
    items, last = list_items(slack)
    assert last.whole
    day = items[f"{ARCHIVE}/{GENERAL}/days/2026-05-14"]
    assert (day.name, day.properties["path"]) == ("#general, 14 May 2026", "general/2026-05-14")
    assert day.properties["url"] == f"{ARCHIVE}/{GENERAL}/p1778760000000000"
    assert items[f"{ARCHIVE}/{GENERAL}/p{thread}"].name == "Shall we tag @Bob Lund? See #eng-search."


def test_a_day_that_is_cut_by_pages_is_whole_and_a_listing_goes_on_at_any_page(slack, tmp_path):
    for hour in range(8, 15):
        slack.post(f"At {hour}", at("2026-05-14", f"{hour:02}:00"))
        slack.post(f"Before {hour}", at("2026-05-13", f"{hour:02}:00"))
    whole = texts(slack, tmp_path)
    assert len(whole) == 2
    for size in (1, 2, 3, 5):
        slack.page = size
        assert texts(slack, tmp_path) == whole
        for page in list_pages(slack)[:-1]:
            rest = texts(slack, tmp_path, cursor=page.cursor)
            assert rest.items() <= whole.items()
            assert {item.external_id for item in page.items} | rest.keys() >= whole.keys() - {
                item.external_id for earlier in list_pages(slack) for item in earlier.items
            }


def test_a_channel_that_is_found_anew_is_listed_and_one_without_the_app_is_counted(slack, tmp_path):
    fill(slack)
    _, last = list_items(slack)
    slack.channels["C0NEW"] = Channel("eng-new")
    slack.channels["C0OTHER"] = Channel("random", is_member=False)
    slack.post("Hello", at("2026-05-17", "09:00"), channel="C0NEW")
    slack.channels[ENGINE].is_member = False
    items, later = list_items(slack, last.cursor)
    assert f"{ARCHIVE}/C0NEW/days/2026-05-17" in items
    assert later.skipped == {"channels without the app, which has to be invited": 2}
    connector, tokens = open_connector(slack)
    assert connector.is_deleted(tokens, f"{ARCHIVE}/{ENGINE}/days/2026-05-16")


def test_channels_are_chosen_by_a_pattern_and_others_are_not_requested(slack, tmp_path):
    fill(slack)
    for choice in (
        SyncFilter(include=({"path": "eng-*"},)),
        SyncFilter(include=({"id": ENGINE},)),
        SyncFilter(exclude=({"id": GENERAL},)),
    ):
        slack.requests.clear()
        assert set(texts(slack, tmp_path, choice)) == {f"{ARCHIVE}/{ENGINE}/days/2026-05-16"}
        assert slack.requests.count("GET /conversations.history") == 1
        connector, tokens = open_connector(slack)
        assert connector.with_choice(choice).is_deleted(tokens, f"{ARCHIVE}/{GENERAL}/days/2026-05-14")
    level = connector.browse(tokens, None, None)
    assert {(entry.id, entry.path) for entry in level.entries} == {(GENERAL, "general"), (ENGINE, "eng-search")}
    (day,) = connector.browse(tokens, ENGINE, None).entries
    assert (day.path, day.is_folder) == ("eng-search/2026-05-16", False)


def test_a_channel_without_the_app_names_the_remedy_and_one_without_names_shows_ids(tmp_path):
    with described_services.serving("SLACK_CHANNEL") as account:
        account.scopes = set()
        account.post("Hello <@U2>", at("2026-05-14", "09:00"))
        assert list(texts(account, tmp_path).values()) == ["# #C0123456789, 14 May 2026\n\nU1, 14 May 09:00: Hello @U2"]
        account.channels[GENERAL].is_private = False
        account.channels[GENERAL].is_member = False
        with pytest.raises(Fatal, match=r"not_in_channel\. Invite the app to the channel"):
            list_pages(account)


def rich(kind, *elements, **options):
    return {"type": kind, "elements": [*elements], **options}


def words(text, **options):
    return {"type": "text", "text": text, **options}


def markdown(text):
    return {"type": "mrkdwn", "text": text}


LIST = rich(
    "rich_text_list",
    rich("rich_text_section", words("one")),
    rich("rich_text_section", words("two ", style={"bold": True})),
    style="ordered",
)
QUOTE = rich("rich_text_quote", {"type": "user", "user_id": "U1"}, {"type": "emoji", "name": "wave"})
CELLS = [[{"type": "raw_text", "text": "a"}], 3]
BLOCKS = [
    ([{"type": "header", "text": {"type": "plain_text", "text": "Deploy *7*"}}], "## Deploy *7*"),
    (
        [{"type": "section", "text": markdown("*Done* by <@U1>"), "fields": [markdown("A")]}],
        "**Done** by @Ada\n\nA",
    ),
    (
        [rich("rich_text", LIST, rich("rich_text_preformatted", words("x = 1")), QUOTE)],
        "1. one\n2. **two** \n\n```\nx = 1\n```\n\n> @Ada:wave:",
    ),
    ([{"type": "image", "alt_text": "A chart", "image_url": "https://x"}], "A chart"),
    ([rich("context", markdown("by"), {"type": "image", "alt_text": "Bot"})], "by Bot"),
    ([{"type": "divider"}, 7, {"type": "unknown"}, {"type": "table", "rows": CELLS}], "| a |\n| --- |"),
    ("no list", ""),
]


@pytest.mark.parametrize(("blocks", "text"), BLOCKS)
def test_blocks_are_read(blocks, text):
    assert chat.read_blocks({"_names": lambda kind, key: {"U1": "Ada"}.get(key, key)}, blocks) == text


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("<!here> ask <!subteam^S1> or <!subteam^S2|@leads>", "@here ask @on-call or @leads"),
        ("a &lt;b&gt; `<@U1> *x*` ~no~", "a <b> `<@U1> *x*` ~~no~~".replace("<@U1>", "@U1")),
        ("<!date^1392734382^{date}|14 May> 2*3*4 snake_case", "14 May 2*3*4 snake_case"),
        ("<mailto:a@b.example|a@b.example> <https://x.example>", "a@b.example https://x.example"),
        ("*bold* and *two words*, _it_", "**bold** and **two words**, _it_"),
    ],
)
def test_markup_is_read(text, markdown):
    assert chat.convert_markup(text, lambda _kind, key: {"S1": "on-call"}.get(key, key)) == markdown


def test_attachments_and_files_are_in_the_text(slack, tmp_path):
    fields = [{"title": "Host", "value": "web-1"}]
    attachment = {"title": "Alert", "title_link": "https://m.example/1", "text": "CPU *high*", "fields": fields}
    file = {"name": "plan.pdf", "title": "Plan", "permalink": "https://acme.slack.com/files/1"}
    about = {"user": "", "username": "Monitor", "subtype": "bot_message"}
    slack.post("", at("2026-05-14", "10:00"), attachments=[attachment], files=[file], **about)
    (text,) = texts(slack, tmp_path).values()
    assert text.split("\n\n")[1:] == [
        "Monitor, 14 May 10:00:",
        "[Alert](https://m.example/1)",
        "CPU **high**",
        "Host: web-1",
        "File: [Plan](https://acme.slack.com/files/1)",
    ]
