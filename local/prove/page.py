"""Page of a proof: one self-contained HTML file in light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from local.prove.measures import HOSTED_RESULTS

_PAGE_STYLE = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#16202c;--soft:#5c6b7a;--line:#dfe4ea;--main:#0b6e4f;
--bar:#b9c4cf;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--page:#11161c;--card:#19212a;--ink:#e8edf2;--soft:#9aa9b8;--line:#2c3743;
--main:#4cc38a;--bar:#465463;--bad:#ff8a80}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:980px;margin:0 auto;padding:40px 24px 64px}h1{font-size:30px;line-height:1.2;margin:0 0 6px}
h2{font-size:19px;margin:36px 0 10px}p{margin:6px 0;max-width:75ch}.soft{color:var(--soft);font-size:14px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(250px,1fr));gap:12px;margin-top:22px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
.tile b{display:block;font-size:28px;line-height:1.2}.tile.main b{color:var(--main);font-size:40px}
.tile span{color:var(--soft);font-size:14px}table{border-collapse:collapse;width:100%;font-size:15px}
th,td{text-align:left;padding:7px 10px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:500;font-size:14px}tr:last-child td{border-bottom:0}td.n,th.n{text-align:right}
tr.us td{font-weight:600;color:var(--main)}.yes{color:var(--main);font-weight:600}.no{color:var(--bad);font-weight:600}
code,pre{font:14px/1.5 ui-monospace,monospace}pre{margin:0;overflow-x:auto}svg{display:block;width:100%;height:auto}
svg text{fill:var(--ink);font:14px system-ui,sans-serif}.scroll{overflow-x:auto}
"""
_MEASURES_TEXT = """
bench-v0: 81 company documents and 50 questions, 5 of them without an answer. Each question asks for five chunks by the
default hybrid request; reranked: with the service's own reranker, too. Score = 100 (.7 recall of the cited files + .3
precision of the files of the chunks). The interval holds 95 % of 2,000 resampled scores.

Reading: PDFs that this command draws, with tables (grid, rules, neither), two and three columns whose lines are stored
across the page, and Hebrew stored from both sides. Share of table rows that are read cell by cell, and of words in the
order of the truth.

Rows: a price list, asked for the price of some of its articles by number.

Isolation: a user asks the same before and after other people and another tenant have documents in the namespace.
Results, scores, listings and counts are compared.

Kills: SIGKILL to the worker and to the API while texts are ingested. Then every text is counted and searched, and
tables, files and vectors are checked against each other.
"""


def build_page(figures: dict[str, Any]) -> str:
    mine = figures.get("mine")
    body = _build_mine(mine, figures["machine"]) if mine else _build_proof(figures)
    machine = figures["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    seconds = figures["seconds"]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Retrieval Service: proof of {machine["at"][:10]}</title><style>{_PAGE_STYLE}</style></head><body><main>
{body}
<h2>Repeat it</h2>
<div class="card"><pre>{escape(figures["command"])}</pre>
<p class="soft">Took {seconds // 60} min {seconds % 60} s. It needs no network, starts an instance of its own and leaves
nothing behind but this page and prove.json.</p></div>
<h2>Machine and versions</h2>
<p class="soft">{escape(machine["cpu"])}, {machine["cores"]} cores, {machine["memoryGiB"]} GiB; load at the end
{machine["load"][0]}; {escape(machine["system"])}; Python {machine["python"]}; {escape(versions)}.
Measured {machine["at"]}.</p>
</main></body></html>
"""


def _build_proof(figures: dict[str, Any]) -> str:
    bench, rows, isolation = figures["benchV0"], figures["rows"], figures["isolation"]
    kills, cost, reading = figures["kills"], figures["cost"], figures["reading"]
    damage = kills["lost"] + kills["doubled"]
    is_quick, best = figures["quick"], HOSTED_RESULTS[0]
    subset = f"{bench['questions']} questions of bench-v0 on the documents that they cite"
    tiles = (
        (
            "main",
            f"{bench['score']:.1f}",
            subset if is_quick else f"points on bench-v0; best hosted service {best[1]:.1f}",
        ),
        ("", f"{bench['p50Milliseconds']:.0f} ms", "a search, at the median, on this machine"),
        ("", _show_share(rows["first3"]), f"of rows of a table of {rows['rows']} among the first three"),
        ("", _show_share(reading["tables"]), "of table rows read from PDFs cell by cell"),
        ("", str(isolation["differing"]), f"of {isolation['answers']} answers reveal a hidden document"),
        ("", str(damage), f"of {kills['documents']} texts lost or doubled by two kills"),
    )
    us = _list_system("Retrieval Service", bench)
    systems = [us] if is_quick else sorted([us, *HOSTED_RESULTS], key=lambda row: -row[1])
    reranked = bench.get("reranked")
    lines = _build_system(_list_system("Retrieval Service, reranked", reranked), reranked) if reranked else ""
    lines += "".join(_build_system(row, bench if row is us else None) for row in systems)
    promises = "".join(
        f"<tr><td class={'yes' if promise['holds'] else 'no'}>{'holds' if promise['holds'] else 'broken'}</td>"
        f"<td>{escape(promise['promise'])}</td><td>{escape(promise['measured'])}</td></tr>"
        for promise in figures["promises"]
    )
    quick = "<p class=no>Quick run on small sets: not comparable with other systems.</p>" if is_quick else ""
    comparison = "" if is_quick else ", next to the published results of four hosted services"
    late = "" if reranked else " No row of reranked searches: this machine was too busy to rerank each in time."
    return f"""<h1>Search that you can check</h1>
<p class="soft">Measured by <code>retrieval prove</code> on this machine{comparison}.</p>{quick}{
        _note_load(figures["machine"])
    }
{_build_tiles(tiles)}
<h2>{"Score" if is_quick else "Beside hosted services"}</h2>
<div class="card">{_build_chart([(row[0], row[1], row is us) for row in systems], (bench["low"], bench["high"]))}</div>
<div class="card scroll" style="margin-top:12px"><table><tr><th>System</th><th class=n>Score (95 % interval)</th>
<th class=n>Recall</th><th class=n>Precision</th><th class=n>p50</th></tr>{lines}</table></div>
<p class="soft">Hosted rows: RetrievalCI's README at commit d804620
(github.com/colon-md/retrievalci), without intervals; their latencies include the network. The bars begin at
50.{late}</p>
<h2>Promises</h2><div class="card scroll"><table>{promises}</table></div>
<h2>Cost of 1,000 documents</h2>
{
        _build_tiles(
            (
                ("", f"{cost['cpuSeconds']:,} s", "of processor time, parsing and embedding included"),
                ("", f"{cost['diskMegabytes']:,} MB", "on disk: database, vectors, files"),
                ("", f"{cost['memoryMegabytes']:,} MB", "of memory: the whole installation after all measurements"),
            )
        )
    }
<p class="soft">Scaled from the {figures["benchV0"]["cost"]["documents"]} documents of bench-v0, of
{cost["documentBytes"] / 1000:.0f} kB each.</p>
<h2>What was measured</h2>{"".join(f"<p>{escape(text)}</p>" for text in _MEASURES_TEXT.split(chr(10) * 2))}"""


def _list_system(name: str, figures: dict[str, Any]) -> tuple[str, float, float, float, float]:
    return name, figures["score"], figures["recall"], figures["precision"], figures["p50Milliseconds"]


def _build_system(row: tuple[str, float, float, float, float], measured: dict[str, Any] | None) -> str:
    """Return a table row; `measured` adds the interval of a local measurement."""
    name, score, recall, precision, milliseconds = row
    interval = f" ({measured['low']:.1f} to {measured['high']:.1f})" if measured else ""
    return (
        f"<tr{' class=us' if measured else ''}><td>{name}</td><td class=n>{score:.1f}{interval}</td>"
        f"<td class=n>{recall:.3f}</td><td class=n>{precision:.3f}</td><td class=n>{milliseconds:,.0f} ms</td></tr>"
    )


def _note_load(machine: dict[str, Any]) -> str:
    """Return a note for a machine with other load."""
    if machine["load"][0] <= 2 * machine["cores"]:
        return ""
    return (
        f"<p class=soft>The machine was busy with other work (load {machine['load'][0]:.0f} on {machine['cores']} "
        "cores): times are longer than on a quiet one.</p>"
    )


def _build_mine(mine: dict[str, Any], machine: dict[str, Any]) -> str:
    tiles = (
        ("main", _show_share(mine["first1"]), "of questions: the right document is the first result"),
        ("", _show_share(mine["first5"]), "among the first five"),
        ("", f"{mine['files'] - len(mine['unread']):,}", f"of {mine['files']:,} files are searchable"),
        ("", f"{mine['questions']:,}", "questions made from your files"),
        ("", f"{mine['meanMilliseconds']:.0f} ms", "a search, on average"),
    )
    tables = "".join(
        f"<h2>By kind of {name}</h2><div class='card scroll'><table><tr><th>Kind</th><th class=n>Questions</th>"
        f"<th class=n>First</th><th class=n>First five</th></tr>{_build_kinds(mine[key])}</table></div>"
        for name, key in (("file", "byFile"), ("question", "byQuestion"))
    )
    unread = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(why)}</td></tr>" for name, why in sorted(mine["unread"].items())
    )
    misses = "".join(
        f"<tr><td>{escape(miss['question'])}</td><td>{escape(miss['document'])}</td></tr>" for miss in mine["misses"]
    )
    return f"""<h1>Your files, searched</h1>
<p class="soft">Folder <code>{escape(mine["folder"])}</code>: every file was ingested into an instance of its own and
asked for by questions that were made from it: content words of titles, headings, table rows and first sentences,
without stop words.</p>
{_note_load(machine)}{_build_tiles(tiles)}{tables}
<h2>Files that could not be read</h2><div class="card scroll"><table>{unread or "<tr><td>None.</td></tr>"}</table></div>
<h2>Questions without the document among the first five</h2>
<div class="card scroll"><table>{misses or "<tr><td>None.</td></tr>"}</table></div>"""


def _build_kinds(kinds: dict[str, dict[str, float]]) -> str:
    return "".join(
        f"<tr><td>{escape(kind)}</td><td class=n>{shares['questions']:.0f}</td>"
        f"<td class=n>{_show_share(shares['first1'])}</td><td class=n>{_show_share(shares['first5'])}</td></tr>"
        for kind, shares in kinds.items()
    )


def _build_tiles(tiles: Iterable[tuple[str, str, str]]) -> str:
    cells = "".join(
        f'<div class="tile {name}"><b>{value}</b><span>{escape(text)}</span></div>' for name, value, text in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _build_chart(bars: Sequence[tuple[str, float, bool]], interval: tuple[float, float]) -> str:
    """Return bars from 50 to 100 points, with the interval of the local measurement."""

    def bar_end(score: float) -> float:
        return 200 + (max(score, 50.0) - 50) * 12.4

    parts = []
    for number, (name, score, is_us) in enumerate(bars):
        y = 8 + number * 38
        parts.append(f'<text x="0" y="{y + 19}">{escape(name)}</text>')
        colour = "var(--main)" if is_us else "var(--bar)"
        parts.append(f'<rect x="200" y="{y}" width="{bar_end(score) - 200:.1f}" height="28" rx="4" fill="{colour}"/>')
        end = bar_end(score)
        if is_us:
            low, high = map(bar_end, interval)
            parts.append(
                f'<path d="M{low:.1f} {y + 14}H{high:.1f}M{low:.1f} {y + 8}v12M{high:.1f} {y + 8}v12" '
                'stroke="var(--ink)" stroke-width="2" fill="none"/>'
            )
            end = high
        parts.append(f'<text x="{end + 10:.1f}" y="{y + 19}">{score:.1f}</text>')
    axis = "".join(
        f'<text x="{bar_end(mark) - 8:.0f}" y="{22 + len(bars) * 38}" opacity=".6">{mark}</text>'
        for mark in (50, 60, 70, 80, 90, 100)
    )
    label = "Scores of bench-v0: " + ", ".join(f"{name} {score:.1f}" for name, score, _ in bars)
    view = f"0 0 880 {30 + len(bars) * 38}"
    return f'<svg viewBox="{view}" role="img" aria-label="{escape(label)}">{"".join(parts)}{axis}</svg>'


def _show_share(share: float) -> str:
    return f"{100 * share:.3g} %"
