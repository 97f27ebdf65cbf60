"""Charts of Office files (DrawingML): their titles, and their categories and series as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.etree.ElementTree import Element

from connectors.parsers.formats import number_formats
from connectors.parsers.formats.grids import cell, table

LookUp = Callable[[str], list[str]]
"""Texts of the cells that a reference such as `Sales!$B$2:$B$9` names."""
MOST_POINTS = 100_000
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"


def unknown(_reference: str) -> list[str]:
    """The cells of a workbook that is not there."""
    return []


def markdown(chart: Element, look_up: LookUp = unknown) -> str:
    """The title of a chart and a table of its values as shown; `look_up` serves charts that keep no copy of these."""
    lines = [f"Chart: {_title(chart.find(f'{_C}chart/{_C}title'), look_up)}".removesuffix(": ")]
    lines += [f"Axis: {words}" for axis in _axes(chart) if (words := _title(axis, look_up))]
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    for number, series in enumerate(chart.iter(f"{_C}ser"), 1):
        name = " ".join(_points(series.find(f"{_C}tx"), look_up)) or f"Series {number}"
        labels = _points(_first(series, "cat", "xVal"), look_up)
        values = _points(_first(series, "val", "yVal"), look_up)
        labels += [str(at + 1) for at in range(len(labels), len(values))]
        tables.setdefault(tuple(labels), []).append([name, *values])
    blocks = ["\n".join(lines)]
    for categories, columns in tables.items():
        padded = [(column + [""] * (len(categories) + 1))[: len(categories) + 1] for column in columns]
        header, *body = zip(("Category", *categories), *padded, strict=True)
        blocks += [table([*map(cell, header)], [[*map(cell, row)] for row in body])] if body else []
    return "\n\n".join(blocks)


def _axes(chart: Element) -> Iterator[Element | None]:
    for kind in ("catAx", "dateAx", "valAx"):
        yield from (axis.find(f"{_C}title") for axis in chart.iter(f"{_C}{kind}"))


def _title(title: Element | None, look_up: LookUp) -> str:
    if title is None:
        return ""
    return " ".join("".join(run.text or "" for run in title.iter(f"{_A}t")).split()) or " ".join(
        _points(title, look_up)
    )


def _first(series: Element, *names: str) -> Element | None:
    return next((part for name in names if (part := series.find(f"{_C}{name}")) is not None), None)


def _points(part: Element | None, look_up: LookUp) -> list[str]:
    """The texts of a reference or a list: from the copy that the chart keeps, or else from the cells."""
    if part is None:
        return []
    levels = [_cached(level, "") for level in part.iter(f"{_C}lvl")]
    for kind in ("strCache", "strLit", "numCache", "numLit") if not levels else ():
        if (cache := next(part.iter(f"{_C}{kind}"), None)) is not None:
            return _cached(cache, cache.findtext(f"{_C}formatCode", ""))
    if levels:
        for level in levels[1:]:
            for at in range(1, len(level)):
                level[at] = level[at] or level[at - 1]
        return [" / ".join(filter(None, names)) for names in zip(*reversed(levels), strict=False)]
    reference = next(part.iter(f"{_C}f"), None)
    return look_up(reference.text or "") if reference is not None else [part.findtext(f"{_C}v", "")]


def _cached(cache: Element, code: str) -> list[str]:
    points = {int(index): point for point in cache.iter(f"{_C}pt") if (index := point.get("idx", "")).isdecimal()}
    size = min(max(points, default=-1) + 1, MOST_POINTS)
    return [_shown(points.get(at), code) for at in range(size)]


def _shown(point: Element | None, code: str) -> str:
    text = "" if point is None else point.findtext(f"{_C}v", "")
    code = code if point is None else point.get("formatCode", code)
    try:
        return number_formats.of_code(code).number(float(text)) if code else text
    except ValueError:
        return text
