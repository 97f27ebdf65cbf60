"""Services of help desks and customers that are read by a description, on loopback."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from tests.standins.described_base import DescribedService

if TYPE_CHECKING:
    from tests.standins.faults import Handler


class ServiceNow(DescribedService):
    """https://www.servicenow.com/docs/r/api-reference/rest-apis/c_TableAPI.html (Link, X-Total-Count,
    sysparm_display_value=all: `value` in UTC, journals joined in `display_value`),
    https://www.servicenow.com/docs/r/api-reference/rest-apis/c_AttachmentAPI.html,
    https://servicenow.github.io/sdk/guides/encoded-query-guide (^, ORDERBY)

    `fields`: further fields by key, as their display values; `articles`: records of kb_knowledge by id; `files`: names
    of attachments by id of the record.
    """

    connector, config_url = "SERVICENOW", "https://acme.service-now.com"
    names: ClassVar[tuple[str, ...]] = ("user", "token")
    table: ClassVar[str] = "incident"

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, dict[str, str]] = {}
        self.articles: dict[str, dict[str, str]] = {}
        self.files: dict[str, list[str]] = {}

    def make_key(self, number: int) -> str:
        return f"{number:032x}"

    def locate(self, key: str) -> str:
        return f"https://acme.service-now.com/incident.do?sys_id={key}"

    def answer(self, handler: Handler, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        if path in self.downloads:
            return handler.reply(200, self.downloads[path], {"Content-Type": "text/plain"})
        area, _, key = path.removeprefix("/api/now/").removeprefix("table/").partition("/")
        if area == "attachment":
            return handler.reply(200, {"result": self._list_files(query["sysparm_query"])})
        if area == "sys_dictionary":
            return handler.reply(200, {"result": [{"element": "u_habitat", "column_label": "Natural habitat"}]})
        records = self._list_records(area)
        if key:
            found = next((record for record in records if record["sys_id"]["value"] == key), None)
            missing = {"error": {"message": "No Record found", "detail": "Record doesn't exist"}, "status": "failure"}
            return handler.reply(404 if found is None else 200, _show(found, query) if found else missing)
        for condition in query.get("sysparm_query", "").split("^"):
            records = [record for record in records if _meets(record, condition)]
        part, following = self.cut(records, int(query.get("sysparm_offset", 0)), int(query["sysparm_limit"]))
        headers = {"X-Total-Count": str(len(records))}
        if following is not None:
            address = f"{self.base}{path}?{urlencode({**query, 'sysparm_offset': str(following)})}"
            headers["Link"] = f'<{self.base}{path}>;rel="first",<{address}>;rel="next"'
        return handler.reply(200, {"result": [_show(record, query)["result"] for record in part]}, headers)

    def _list_records(self, table: str) -> list[dict[str, Any]]:
        if table == "kb_knowledge":
            return [
                _describe({"sys_id": key, "short_description": key, "sys_created_on": "2026-05-14 10:00:00", **article})
                for key, article in self.articles.items()
            ]
        assert table == "incident"
        return [
            _describe(
                {
                    "sys_id": key,
                    "number": f"INC{int(key, 16):07}",
                    "short_description": item.title,
                    "description": item.text,
                    "sys_created_on": _stamp(item.created),
                    "sys_updated_on": _stamp(item.updated),
                    **self.fields.get(key, {}),
                }
            )
            for key, item in self.items.items()
        ]

    def _list_files(self, query: str) -> list[dict[str, str]]:
        table, _, key = query.removeprefix("table_name=").partition("^table_sys_id=")
        assert table == ("kb_knowledge" if key in self.articles else "incident")
        return [
            {"sys_id": f"{key}-{name}", "file_name": name, "table_sys_id": key, "table_name": table}
            for name in self.files.get(key, [])
        ]


def _describe(fields: dict[str, str]) -> dict[str, Any]:
    """The record with both values of each field; references and choices have ids or numbers as values."""
    named = {"state": "2", "caller_id": "5137153cc611227c000bbd1bd8cd2005", "kb_category": "a1", "author": "b2"}
    journals = ("comments", "work_notes")
    return {
        name: {"display_value": text, "value": "" if name in journals else named.get(name, text)}
        for name, text in {"workflow_state": "", "comments": "", "work_notes": "", **fields}.items()
    }


def _show(record: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    """The answer with the fields and the values that a request names."""
    names = query.get("sysparm_fields", "").split(",") if "sysparm_fields" in query else list(record)
    whole = query.get("sysparm_display_value") == "all"
    return {"result": {name: record[name] if whole else record[name]["value"] for name in names if name in record}}


def _meets(record: dict[str, Any], condition: str) -> bool:
    if condition.startswith("ORDERBY"):
        return True
    if minutes := re.fullmatch(r"sys_updated_onRELATIVEGT@minute@ago@(\d+)", condition):
        return bool(record["sys_updated_on"]["value"] >= _stamp(datetime.now(UTC) - timedelta(minutes=int(minutes[1]))))
    name, _, value = condition.partition("=")
    return not name or bool(record[name]["value"] == value)


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


SERVICES = {"SERVICENOW": ServiceNow}
