"""Read charts of workbooks before 2007 (XLS, [MS-XLS]): titles, axes, and series with their values."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from connectors.parsers.formats import number_formats
from connectors.parsers.formats.blocks import Series, series_markdown
from connectors.parsers.formats.ooxml_charts import LookUp
from connectors.parsers.formats.sheet_tables import cell_reference

_BEGIN_STREAM, _END_STREAM, _SHEET, _SHEET_REFERENCES = 0x0809, 0x000A, 0x0085, 0x0017
_SERIES, _SERIES_PARENT, _TEXT, _STRING, _SOURCE, _LINK, _BEGIN, _END = (
    0x1003,
    0x104A,
    0x1025,
    0x100D,
    0x1051,
    0x1027,
    0x1033,
    0x1034,
)
_CACHE, _NUMBER, _LABEL = 0x1065, 0x0203, 0x0204
_BIFF_8, _CHART_STREAM = 0x0600, 0x0020
# Sources of a series, and caches of values, by number.
_NAME, _VALUES, _CATEGORIES = 0, 1, 2
_TITLE_LINK, _AXIS_LINKS = 1, (3, 2, 7)
# Operands for a cell and a range of another sheet.
_CELL_OPERANDS, _RANGE_OPERANDS = (0x3A, 0x5A, 0x7A), (0x3B, 0x5B, 0x7B)


@dataclass
class _Chart:
    """Texts and series of a chart in order of the file."""

    titles: dict[int, str] = field(default_factory=dict)
    # By source: reference to cells.
    series: list[dict[int, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    # By cache and series: texts by point.
    cached: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)
    # Numbers of trend lines, computed from another series.
    derived: set[int] = field(default_factory=set)

    def markdown(self, look_up: LookUp) -> str:
        series: list[Series] = []
        for at, sources in enumerate(self.series):
            if at in self.derived:
                continue
            name = self.names[at] or " ".join(look_up(sources.get(_NAME, "")))
            series.append((name, self._points(at, _CATEGORIES, look_up), self._points(at, _VALUES, look_up)))
        axes = (self.titles.get(link, "") for link in _AXIS_LINKS)
        return series_markdown(self.titles.get(_TITLE_LINK, ""), axes, series)

    def _points(self, at: int, kind: int, look_up: LookUp) -> list[str]:
        """Return texts of the cells, else as they were when the file was saved."""
        cached = self.cached.get((kind, at), {})
        size = max(cached, default=-1) + 1
        texts = look_up(self.series[at].get(kind, ""))
        while texts and not texts[-1]:
            texts = texts[:-1]  # a range beyond the data
        if kind == _CATEGORIES and 1 < size < len(texts) and len(texts) % size == 0:  # of several levels
            width = len(texts) // size
            texts = [" / ".join(filter(None, texts[row * width : (row + 1) * width])) for row in range(size)]
        return texts or [cached.get(point, "") for point in range(size)]


def read_charts(stream: bytes, look_up: LookUp) -> dict[str, list[str]]:
    """Return the charts as Markdown by sheet name, in order of the sheets, including chart sheets."""
    names: dict[int, str] = {}
    references: list[tuple[int, int]] = []
    charts: dict[str, list[str]] = {}
    sheet = ""
    kinds: list[int] = []
    chart_records: list[tuple[int, bytes]] = []
    for start, kind, data in _read_records(stream):
        if kind == _BEGIN_STREAM and len(data) >= 4:
            version, stream_kind = struct.unpack_from("<HH", data)
            if version != _BIFF_8:
                return {}
            sheet = names.get(start, sheet)
            kinds.append(stream_kind)
            chart_records = []
        elif kind == _END_STREAM and kinds:
            if kinds.pop() == _CHART_STREAM:
                chart = _read_chart(chart_records, [*names.values()], references)
                if chart.series:
                    charts.setdefault(sheet, []).append(chart.markdown(look_up))
        elif kind == _SHEET:
            names[struct.unpack_from("<I", data)[0]] = name = _read_text(data, 6)
            charts[name] = []
        elif kind == _SHEET_REFERENCES:
            references = [struct.unpack_from("<HH", data, 4 + at) for at in range(0, len(data) - 7, 6)]
        elif kinds and kinds[-1] == _CHART_STREAM:
            chart_records.append((kind, data))
    return charts


def _read_records(stream: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield position, type and content of each record."""
    at = 0
    while at + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        yield at, kind, stream[at + 4 : at + 4 + size]
        at += 4 + size


def _read_chart(records: list[tuple[int, bytes]], sheets: list[str], references: list[tuple[int, int]]) -> _Chart:
    chart = _Chart()
    owners = [0]
    previous = cache = link = 0
    text = ""
    for kind, data in records:
        owner = owners[-1]
        if kind == _BEGIN:
            owners.append(previous)
            text, link = ("", 0) if previous == _TEXT else (text, link)
            if previous == _SERIES:
                chart.series.append({})
                chart.names.append("")
        elif kind == _END and len(owners) > 1:
            if owners.pop() == _TEXT and link:
                chart.titles.setdefault(link, " ".join(text.split()))
        elif kind == _STRING:
            text = _read_text(data, 2)
            if owner == _SERIES:
                chart.names[-1] = " ".join(text.split())
        elif kind == _LINK and owner == _TEXT:
            (link,) = struct.unpack_from("<H", data)
        elif kind == _SOURCE and owner == _SERIES:
            chart.series[-1][data[0]] = _read_reference(data[8:], sheets, references)
        elif kind == _SERIES_PARENT and owner == _SERIES:
            chart.derived.add(len(chart.series) - 1)
        elif kind == _CACHE:
            (cache,) = struct.unpack_from("<H", data)
        elif kind in (_NUMBER, _LABEL) and cache:
            point, series = struct.unpack_from("<HH", data)
            number = struct.unpack_from("<d", data, 6)[0] if kind == _NUMBER else 0.0
            words = number_formats.format_general(number) if kind == _NUMBER else _read_text(data, 6, wide=True)
            chart.cached.setdefault((cache, series), {})[point] = words
        previous = kind
    return chart


def _read_reference(formula: bytes, sheets: list[str], references: list[tuple[int, int]]) -> str:
    """Return a reference such as `'Sales'!B2:B9`; "" for other formulas."""
    if len(formula) >= 7 and formula[0] in _CELL_OPERANDS:
        at, top, start_column = struct.unpack_from("<HHH", formula, 1)
        bottom, right = top, start_column
    elif len(formula) >= 11 and formula[0] in _RANGE_OPERANDS:
        at, top, bottom, start_column, right = struct.unpack_from("<HHHHH", formula, 1)
    else:
        return ""
    first, last = references[at] if at < len(references) else (len(sheets), 0)
    if first != last or first >= len(sheets):
        return ""
    cells = (cell_reference(row + 1, (column & 0x3FFF) + 1) for row, column in ((top, start_column), (bottom, right)))
    name = sheets[first].replace("'", "''")
    return f"'{name}'!{':'.join(cells)}"


def _read_text(data: bytes, at: int, *, wide: bool = False) -> str:
    """Return a text after its length (1 byte, 2 if `wide`) and its flag of UTF-16."""
    length, flags = struct.unpack_from("<HB" if wide else "<BB", data, at)
    start = at + (3 if wide else 2)
    return data[start : start + length * (1 + flags % 2)].decode("utf-16-le" if flags % 2 else "latin-1", "replace")
