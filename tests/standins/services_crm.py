"""Salesforce on loopback: as much of SOQL as the description sends.

https://developer.salesforce.com/docs/platform/api-rest/guide/resources-query.md
https://developer.salesforce.com/docs/platform/api-rest/guide/resources-queryall.html
https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/errorcodes.htm
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.standins.described_base import DescribedService, Item

if TYPE_CHECKING:
    from tests.standins.faults import Handler

VERSION = "/services/data/v66.0/"


class Salesforce(DescribedService):
    """`fields`: further fields of cases by id, `comments` and `files` of cases; `emails` and `articles`: records, None
    for an organization without the object; `bin`: deleted cases with their times;
    `hidden`: object with a hidden field."""

    connector, config_url = "SALESFORCE", "https://acme.my.salesforce.com"
    unauthorized = [{"message": "SECRET VENDOR WORDS", "errorCode": "INVALID_SESSION_ID"}]  # noqa: RUF012
    page = 2000

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, dict[str, Any]] = {}
        self.comments: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, list[dict[str, Any]]] = {}
        self.emails: list[dict[str, Any]] | None = []
        self.articles: list[dict[str, Any]] | None = []
        self.bin: dict[str, tuple[Item, datetime]] = {}
        self.hidden = ""
        self.queries: list[tuple[str, str]] = []

    def make_key(self, number: int) -> str:
        return f"500{number:012}AAA"

    def locate(self, key: str) -> str:
        return f"https://acme.lightning.force.com/lightning/r/Case/{key}/view"

    def delete(self, key: str) -> None:
        self.bin[key] = self.items.pop(key), datetime.now(UTC)

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "application/octet-stream"})
        kind, _, rest = path.removeprefix(VERSION).partition("/")
        name, _, key = rest.partition("/")
        if kind in {"query", "queryAll"}:
            return self._answer_query(handler, kind, query.get("q", ""), rest)
        if key == "describe":
            return handler.reply(200, {"name": name, "fields": DESCRIBED[name]})
        record = next((record for record in self._list_records(name) or () if record["Id"] == key), None)
        missing = [{"errorCode": "NOT_FOUND", "message": "The requested resource does not exist"}]
        return handler.reply(404 if record is None else 200, missing if record is None else record)

    def _answer_query(self, handler: Handler, kind: str, query: str, locator: str) -> None:
        if locator:
            number, _, start = locator.partition("-")
            kind, query = self.queries[int(number)]
        else:
            self.queries.append((kind, query))
            number, start = str(len(self.queries) - 1), "0"
        plain = re.sub(r"\([^()]*\bFROM\b[^()]*\)", "", query)
        name = re.findall(r"FROM (\w+)", plain)[0]
        records = self._list_records(name)
        if records is None:
            message = f"sObject type '{name}' is not supported."
            return handler.reply(400, [{"errorCode": "INVALID_TYPE", "message": message}])
        if name == self.hidden:
            return handler.reply(400, [{"errorCode": "INVALID_FIELD", "message": "No such column 'TextBody'"}])
        if kind == "queryAll":
            records = [
                {"Id": key, "Subject": item.title, "IsDeleted": True, "SystemModstamp": _stamp(moment)}
                for key, (item, moment) in self.bin.items()
            ]
        where = re.search(r" WHERE (.*?)(?: ORDER BY | LIMIT |$)", plain)
        for condition in where[1].split(" AND ") if where else ():
            records = [record for record in records if _meets(record, condition)]
        part, following = self.cut(records, int(start), 2000)
        locator = f"{VERSION}query/{number}-{following}"
        more = {} if following is None else {"nextRecordsUrl": locator}
        shown = [_select(record, query) for record in part]
        return handler.reply(200, {"totalSize": len(records), "done": not more, "records": shown, **more})

    def _list_records(self, name: str) -> list[dict[str, Any]] | None:
        if name == "CaseComment":
            return [{**entry, "ParentId": key} for key, entries in self.comments.items() for entry in entries]
        if name != "Case":
            return {"EmailMessage": self.emails, "Knowledge__kav": self.articles}[name]
        return [self._describe(key, item) for key, item in self.items.items()]

    def _describe(self, key: str, item: Item) -> dict[str, Any]:
        comments, files = self.comments.get(key, []), self.files.get(key, [])
        more = {"nextRecordsUrl": f"{VERSION}query/x"} if len(comments) > 2 else {}
        people = {"Owner": {"Name": "Bob Lund"}, "Contact": None, "Account": None}
        return {
            "Id": key,
            "CaseNumber": key[7:15],
            "Subject": item.title,
            "Description": item.text,
            "CreatedDate": _stamp(item.created),
            "SystemModstamp": _stamp(item.updated),
            **people,
            **self.fields.get(key, {}),
            "CaseComments": {"totalSize": len(comments), "records": comments[:2], **more} if comments else None,
            "ContentDocumentLinks": {"totalSize": len(files), "records": files} if files else None,
        }


def _select(record: dict[str, Any], query: str) -> dict[str, Any]:
    """The fields that a query names; related records have the first part of a name."""
    names = {part.partition(".")[0] for part in re.findall(r"[\w.]+", query.partition(" FROM Case")[0])}
    custom = {name for name in record if name.endswith("__c")} if "FIELDS(CUSTOM)" in query else set()
    names |= set(re.findall(r"FROM (\w+)", query)) | custom
    return {name: value for name, value in record.items() if name in names}


def _meets(record: dict[str, Any], condition: str) -> bool:
    name, operator, value = condition.split(" ")
    if operator == "!=":
        return record.get(name) is not None
    if operator == ">=":
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value)  # a date without quotes
        return bool(record[name] >= value)
    return bool(str(record[name]) == (value.capitalize() if value == "true" else value.strip("'")))


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000+0000")


DESCRIBED: dict[str, list[dict[str, Any]]] = {
    "Case": [
        {"name": "Subject", "label": "Subject", "custom": False, "type": "string", "htmlFormatted": False},
        {"name": "Habitat__c", "label": "Natural habitat", "custom": True, "type": "multipicklist"},
        {"name": "Place__c", "label": "Place", "custom": True, "type": "location"},
    ],
    "Knowledge__kav": [
        {"name": "Answer__c", "label": "Answer", "custom": True, "type": "textarea", "htmlFormatted": True},
        {"name": "Audience__c", "label": "Audience", "custom": True, "type": "string", "htmlFormatted": False},
    ],
}

SERVICES = {"SALESFORCE": Salesforce}
