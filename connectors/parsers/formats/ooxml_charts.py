"""Read charts of Office Open XML: titles, axes, and series with their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element

from connectors.parsers.formats import number_formats
from connectors.parsers.formats.blocks import Series, series_markdown

# Returns the cell texts of a reference such as `Sales!$B$2:$B$9`.
LookUp = Callable[[str], list[str]]
MAX_CHART_POINTS = 100_000
_FIELD_LABEL = re.compile(r"(?:\[[A-Z ]+\]|[\s;,:]|\d[\d.,]*%?)*")
C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
# Charts of Office 2016 and later, such as waterfalls, maps and box plots.
CX = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


def unknown_values(_reference: str) -> list[str]:
    """Return no cells, for charts without a workbook."""
    return []


def chart_markdown(chart: Element, look_up: LookUp = unknown_values) -> str:
    """Return title and values of a chart as a table; `look_up` serves charts without cached values."""
    if chart.tag.startswith(CX):
        return _new_chart_markdown(chart, look_up)
    axes = (_title_text(axis, look_up) for axis in _axis_titles(chart))
    series: list[Series] = []
    notes: list[str] = []
    for node in chart.iter(f"{C}ser"):
        labels = _read_points(_first_points(node, "cat", "xVal"), look_up)
        values = _read_points(_first_points(node, "val", "yVal"), look_up)
        name = " ".join(_read_points(node.find(f"{C}tx"), look_up))
        series.append((name, labels, values))
        if sizes := _read_points(node.find(f"{C}bubbleSize"), look_up):
            series.append((f"{name} (size)".strip(), [*labels], sizes))
        notes += _point_labels(node, labels)
    title = _title_text(chart.find(f"{C}chart/{C}title"), look_up)
    return "\n\n".join([series_markdown(title, axes, series), *notes])


def _point_labels(series: Element, names: list[str]) -> Iterator[str]:
    """Yield the texts that authors wrote at points, with the category of each."""
    for label in series.findall(f"{C}dLbls/{C}dLbl"):
        rich, at = label.find(f"{C}tx/{C}rich"), label.find(f"{C}idx")
        words = "" if rich is None else " ".join("".join(run.text or "" for run in rich.iter(f"{_A}t")).split())
        # Fields in brackets, such as [VALUE], repeat what the table has.
        if words and at is not None and not _FIELD_LABEL.fullmatch(words):
            number = int(at.get("val", "0"))
            yield f"Label of {names[number] if number < len(names) else f'point {number + 1}'}: {words}"


def _new_chart_markdown(root: Element, look_up: LookUp) -> str:
    """Return a chart with values in data sets apart from the series."""
    data = {node.get("id", ""): node for node in root.iter(f"{CX}data")}
    series: list[Series] = []
    for node in root.iter(f"{CX}series"):
        chosen = node.find(f"{CX}dataId")
        sets = data.get("" if chosen is None else chosen.get("val", ""))
        labels: list[str] = []
        for part in () if sets is None else sets:
            points = _new_points(part, look_up)
            if part.tag == f"{CX}strDim" and not labels:
                labels = points
            elif points:
                kind = part.get("type", "")
                name = _new_text(node.find(f"{CX}tx"), look_up)
                series.append((name if kind in ("val", "size", "y") else f"{name} ({kind})".strip(), [*labels], points))
    axes = [_new_text(axis.find(f"{CX}title"), look_up) for axis in root.iter(f"{CX}axis")]
    return series_markdown(_new_text(root.find(f"{CX}chart/{CX}title"), look_up), axes, series)


def _new_points(part: Element, look_up: LookUp) -> list[str]:
    levels = []
    for level in part.findall(f"{CX}lvl"):
        code = level.get("formatCode", "") if part.tag == f"{CX}numDim" else ""
        points = {int(point.get("idx", "0")): point.text or "" for point in level.findall(f"{CX}pt")}
        size = min(max(points, default=-1) + 1, MAX_CHART_POINTS)
        levels.append([_format_value(points.get(at, ""), code) for at in range(size)])
    return _join_levels(levels) if levels else look_up(part.findtext(f"{CX}f", ""))


def _new_text(part: Element | None, look_up: LookUp) -> str:
    """Return a title or name: rich text, a saved text, or the text of a cell."""
    if part is None:
        return ""
    words = "".join(run.text or "" for run in part.iter(f"{_A}t")) or next(
        (v.text or "" for v in part.iter(f"{CX}v")), ""
    )
    reference = next(part.iter(f"{CX}f"), None)
    return " ".join((words or " ".join(look_up("" if reference is None else reference.text or ""))).split())


def _axis_titles(chart: Element) -> Iterator[Element | None]:
    for kind in ("catAx", "dateAx", "valAx"):
        yield from (axis.find(f"{C}title") for axis in chart.iter(f"{C}{kind}"))


def _title_text(title: Element | None, look_up: LookUp) -> str:
    if title is None:
        return ""
    return " ".join("".join(run.text or "" for run in title.iter(f"{_A}t")).split()) or " ".join(
        _read_points(title, look_up)
    )


def _first_points(series: Element, *names: str) -> Element | None:
    return next((part for name in names if (part := series.find(f"{C}{name}")) is not None), None)


def _read_points(part: Element | None, look_up: LookUp) -> list[str]:
    """Return texts of a reference or list, from the chart's cache or else the cells."""
    if part is None:
        return []
    levels = [_cached_points(level, "") for level in part.iter(f"{C}lvl")]
    for kind in ("strCache", "strLit", "numCache", "numLit") if not levels else ():
        if (cache := next(part.iter(f"{C}{kind}"), None)) is not None:
            return _cached_points(cache, cache.findtext(f"{C}formatCode", ""))
    if levels:
        return _join_levels(levels)
    reference = next(part.iter(f"{C}f"), None)
    return look_up(reference.text or "") if reference is not None else [part.findtext(f"{C}v", "")]


def _join_levels(levels: list[list[str]]) -> list[str]:
    """Return names of several levels as one, the groups before their members."""
    for level in levels[1:]:
        level.extend([""] * (len(levels[0]) - len(level)))
        for at in range(1, len(level)):
            level[at] = level[at] or level[at - 1]
    return [" / ".join(filter(None, names)) for names in zip(*reversed(levels), strict=False)]


def _cached_points(cache: Element, code: str) -> list[str]:
    points = {int(index): point for point in cache.iter(f"{C}pt") if (index := point.get("idx", "")).isdecimal()}
    size = min(max(points, default=-1) + 1, MAX_CHART_POINTS)
    return [_format_point(points.get(at), code) for at in range(size)]


def _format_point(point: Element | None, code: str) -> str:
    text = "" if point is None else point.findtext(f"{C}v", "")
    return _format_value(text, code if point is None else point.get("formatCode", code))


def _format_value(text: str, code: str) -> str:
    try:
        return number_formats.of_code(code).number(float(text)) if code else text
    except ValueError:
        return text
