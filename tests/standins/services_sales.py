"""Services of sales and customers that are read by a description, on loopback."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.standins.described_base import DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler

MAX_FOUND = 10_000
ACTIVITIES = ("emails", "notes", "calls", "meetings")


class HubSpot(DescribedService):
    """https://developers.hubspot.com/docs/api-reference/2026-03/crm/objects/tickets/get-tickets (limit: at most 100)
    https://developers.hubspot.com/docs/api-reference/2026-03/crm/search-the-crm (limit: at most 200; 10,000 in all)
    https://developers.hubspot.com/docs/api-reference/latest/crm/properties/get-properties
    https://developers.hubspot.com/docs/api-reference/files-files-v3/files/get-files-v3-files-fileId-signed-url

    `fields`: properties of tickets by key, `activities`: properties by ticket and kind; `records`: deals and companies.
    """

    connector, config_url = "HUBSPOT", "https://app.hubspot.com/contacts/4711"
    serves_files = True

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, dict[str, Any]] = {}
        self.activities: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.records: dict[str, dict[str, dict[str, Any]]] = {"deals": {}, "companies": {}}
        self.host = ""

    def locate(self, key: str) -> str:
        return f"https://app.hubspot.com/contacts/4711/record/0-5/{key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        _, area, *place = path.split("/")
        if area == "files":
            file = {"url": f"{self.host}/{place[2]}", "name": "plan", "extension": "txt"}
            return handler.reply(200, file)
        kind, version, name, *rest = *place, *[""] * (3 - len(place))
        assert (area, version) == ("crm", "2026-03")
        if kind == "objects":
            return self._answer_objects(handler, method, name, rest, query, json.loads(body or b"{}"))
        if kind == "owners":
            part, following = self.cut(OWNERS, int(query.get("after", 0)), 1)
            page = {} if following is None else {"paging": {"next": {"after": str(following)}}}
            return handler.reply(200, {"results": part, **page})
        lists: dict[str, Any] = {"pipelines": PIPELINES.get(name), "properties": PROPERTIES}
        return handler.reply(200, {"results": lists[kind]})

    def _answer_objects(
        self, handler: Handler, method: str, name: str, rest: list[str], query: dict[str, str], body: dict[str, Any]
    ) -> None:
        records = self._list_records(name)
        if rest == ["search"]:
            assert method == "POST"
            assert body["limit"] <= 200
            found = self._search(name, records, body)
            start = int(body.get("after", 0))
            if start + body["limit"] > MAX_FOUND:
                return handler.reply(400, {"status": "error", "category": "VALIDATION_ERROR", "message": "too many"})
            part, following = self.cut(found, start, body["limit"])
            page = {} if following is None else {"paging": {"next": {"after": str(following)}}}
            return handler.reply(200, {"total": len(found), "results": [_show(entry, "") for entry in part], **page})
        if rest:
            record = next((entry for entry in records if entry["id"] == rest[0]), None)
            missing = {"status": "error", "message": "resource not found", "category": "OBJECT_NOT_FOUND"}
            if record is None:
                return handler.reply(404, missing)
            kinds = [kind for kind in query.get("associations", "").split(",") if kind]
            shown = _show(record, query.get("properties", ""))
            ids = {kind: self._list_ids(record["id"], kind) for kind in kinds}
            related = {kind: {"results": [{"id": key} for key in keys]} for kind, keys in ids.items() if keys}
            return handler.reply(200, {**shown, **({"associations": related} if related else {})})
        assert int(query["limit"]) <= 100
        part, following = self.cut(records, int(query.get("after", 0)), int(query["limit"]))
        page = {} if following is None else {"paging": {"next": {"after": str(following)}}}
        return handler.reply(200, {"results": [_show(entry, query["properties"]) for entry in part], **page})

    def _list_ids(self, key: str, kind: str) -> list[str]:
        if kind in ACTIVITIES:
            return [str(number) for number, _ in enumerate(self.activities.get((key, kind), []))]
        return ["7", "7"] if kind in {"contacts", "companies"} and key in self.fields else []

    def _search(self, name: str, records: list[dict[str, Any]], body: dict[str, Any]) -> list[dict[str, Any]]:
        filters = body.get("filterGroups", [{"filters": []}])[0]["filters"]
        if name in ACTIVITIES:
            assert filters[0]["operator"] == "EQ"
            assert filters[0]["propertyName"] == f"associations.{self._find_type(filters[0]['value'])}"
            found = [{"properties": entry} for entry in self.activities.get((filters[0]["value"], name), [])]
            return [{"id": str(number), **entry} for number, entry in enumerate(found)]
        for condition in filters:
            assert (condition["propertyName"], condition["operator"]) == ("hs_lastmodifieddate", "GTE")
            since = datetime.fromtimestamp(int(condition["value"]) / 1000, UTC).isoformat()
            records = [entry for entry in records if entry["updatedAt"] >= since]
        return records

    def _find_type(self, key: str) -> str:
        types = {"deals": "deal", "companies": "company"}
        return next((types[name] for name, records in self.records.items() if key in records), "ticket")

    def _list_records(self, name: str) -> list[dict[str, Any]]:
        if name == "contacts":
            return [{"id": "7", "properties": {"firstname": "Ada", "lastname": "Berg", "email": "ada@example.com"}}]
        others = {"companies": {"7": {"name": "Owl Ltd"}}} if self.fields else {}
        if name != "tickets":
            known = {**others.get(name, {}), **self.records.get(name, {})}
            times = {"createdAt": "2026-05-14T10:00:00Z", "updatedAt": "2026-05-14T10:00:00Z"}
            return [{"id": key, "properties": fields, **times} for key, fields in known.items()]
        return [
            {
                "id": key,
                "properties": {"subject": item.title, "content": item.text, **self.fields.get(key, {})},
                "createdAt": item.created.isoformat(),
                "updatedAt": item.updated.isoformat(),
            }
            for key, item in self.items.items()
        ]


class Intercom(DescribedService):
    """https://developers.intercom.com/docs/references/rest-api/api.intercom.io/conversations/searchconversations
    https://developers.intercom.com/docs/references/rest-api/api.intercom.io/articles/listarticles (newest change first)
    https://developers.intercom.com/docs/build-an-integration/learn-more/rest-apis/pagination/

    `about`: further fields of conversations by id, `parts`: their parts, not in lists; `articles`: records.
    """

    connector, config_url = "INTERCOM", "https://app.intercom.com/a/apps/abcd1234"
    serves_files = True

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, dict[str, Any]] = {}
        self.parts: dict[str, list[dict[str, Any]]] = {}
        self.articles: list[dict[str, Any]] = []

    def locate(self, key: str) -> str:
        return f"https://app.intercom.com/a/apps/abcd1234/conversations/{key}"

    def is_open(self, path: str) -> bool:
        return path in self.downloads

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        assert handler.headers["intercom-version"] == "2.11"
        kind, _, key = path.strip("/").partition("/")
        number = int(query.get("page", 1))
        names: dict[str, Any] = {
            "admins": {"admins": [{"id": "31", "name": "Bob Lund"}]},
            "teams": {"teams": [{"id": "41", "name": "Night shift"}]},
            "help_center": {
                "data": COLLECTIONS[number - 1 : number],
                "pages": {"page": number, "total_pages": 2},
            },
        }
        if kind in names:
            return handler.reply(200, names[kind])
        if key == "search":
            return self._search(handler, json.loads(body))
        records = [self._describe(key) for key in self.items] if kind == "conversations" else self.articles
        if key:
            record = next((record for record in records if record["id"] == key), None)
            parts = {"conversation_parts": {"conversation_parts": self.parts.get(key, [])}}
            missing = {"type": "error.list", "errors": [{"code": "not_found", "message": "Resource Not Found"}]}
            return handler.reply(200 if record else 404, {**record, **parts} if record else missing)
        size = min(int(query["per_page"]), self.page)
        ordered = sorted(records, key=lambda record: -record["updated_at"])
        pages = {"page": number, "per_page": size, "total_pages": -(-len(records) // size)}
        name = "conversations" if kind == "conversations" else "data"
        part = ordered[(number - 1) * size : number * size]
        return handler.reply(200, {name: part, "pages": pages, "total_count": len(records)})

    def _search(self, handler: Handler, body: dict[str, Any]) -> None:
        condition, pagination = body["query"], body["pagination"]
        assert pagination["per_page"] <= 150
        assert condition["operator"] == ">"
        records = [self._describe(key) for key in self.items]
        matches = [record for record in records if record[condition["field"]] > condition["value"]]
        part, following = self.cut(matches, int(pagination.get("starting_after", 0)), pagination["per_page"])
        following_page = {} if following is None else {"next": {"page": 2, "starting_after": str(following)}}
        answer = {"conversations": part, "pages": {"type": "pages", **following_page}, "total_count": len(matches)}
        return handler.reply(200, answer)

    def _describe(self, key: str) -> dict[str, Any]:
        item = self.items[key]
        source = {"body": f"<p>{item.text}</p>", "author": {"type": "user", "name": "Ada Berg"}, "attachments": []}
        times = {"created_at": int(item.created.timestamp()), "updated_at": item.updated.timestamp()}
        about = {"type": "conversation", "id": key, "title": item.title, "state": "open", "source": source}
        return {**about, **times, "tags": {"tags": []}, **self.about.get(key, {})}


def _show(record: dict[str, Any], properties: str) -> dict[str, Any]:
    """The record with the properties that a request names, all of them for "", as text or null."""
    names = properties.split(",") if properties else list(record["properties"])
    return {**record, "properties": {name: record["properties"].get(name) for name in names}}


COLLECTIONS = [{"id": "50", "name": "Fish"}, {"id": "51", "name": "Birds"}]
OWNERS = [
    {"id": "30", "firstName": "", "lastName": "", "email": "cleo@example.com"},
    {"id": "31", "firstName": "Bob", "lastName": "Lund", "email": "bob@example.com"},
]
PIPELINES = {
    "tickets": [{"id": "0", "label": "Support", "stages": [{"id": "2", "label": "Waiting for us"}]}],
    "deals": [{"id": "default", "label": "Sales", "stages": [{"id": "closedwon", "label": "Won"}]}],
}
PROPERTIES = [
    {"name": "subject", "label": "Ticket name", "hubspotDefined": True, "hidden": False, "options": []},
    {
        "name": "hs_ticket_priority",
        "label": "Priority",
        "hubspotDefined": True,
        "options": [{"value": "HIGH", "label": "High"}],
    },
    {
        "name": "habitat",
        "label": "Natural habitat",
        "hubspotDefined": False,
        "hidden": False,
        "options": [{"value": "barn", "label": "Old barn"}, {"value": "wood", "label": "Wood"}],
    },
    {"name": "secret", "label": "Hidden", "hubspotDefined": False, "hidden": True, "options": []},
]

SERVICES = {"HUBSPOT": HubSpot, "INTERCOM": Intercom}
