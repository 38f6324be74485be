"""One self-contained HTML page from tables, curves, a masked matrix and pictures; light and dark, no script."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape as escape_markup
from pathlib import Path

from maskedcrf.files import atomic_file
from maskedcrf.tags.constraints import Constraints

COLOURS = ("#c25a1c", "#1b7f5c", "#4967b5", "#8a4fa3")


def escape(text: str) -> str:
    """Text of strangers, its markup escaped and its control characters shown: nothing in it is obeyed."""
    return escape_markup("".join(each if each.isprintable() else ascii(each)[1:-1] for each in text))


def page(title: str, sections: Sequence[tuple[str, str, str]], *, contents: bool = False) -> str:
    """A page of (heading, a sentence of text, HTML body) sections, with links to them on top if `contents`."""
    links = "".join(f'<li><a href="#s{number}">{escape(each[0])}</a></li>' for number, each in enumerate(sections))
    body = "".join(
        f"<section id=s{number}><h2>{escape(heading)}</h2>{f'<p>{escape(text)}</p>' if text else ''}"
        f'<div class=scroll role="region" tabindex="0" aria-label="{escape(heading)}">{html}</div></section>'
        for number, (heading, text, html) in enumerate(sections)
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style><main><h1>{escape(title)}</h1>"
        f"{f'<nav><ul>{links}</ul></nav>' if contents else ''}{body}</main></html>"
    )


def write(path: Path, html: str) -> None:
    """Write the page; the file appears whole or not at all."""
    with atomic_file(path) as handle:
        handle.write(html.encode())


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, is_matrix: bool = False) -> str:
    """An HTML table; the first column is text, the others are figures. A matrix has its names upright."""
    head = "".join(f'<th scope="col"><span>{escape(cell)}</span></th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    class_ = " class=matrix" if is_matrix else ""
    return f"<table{class_}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(name: str, html: str) -> str:
    """What is shown only when its name is clicked."""
    return f"<details><summary>{escape(name)}</summary>{html}</details>"


def bullets(lines: Sequence[str]) -> str:
    """An HTML list."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def marked(
    tokens: Sequence[str],
    segments: Iterable[tuple[int, int, str]],
    *,
    wrong: Collection[tuple[int, int, str]] = (),
    blanks: Sequence[str] | None = None,
) -> str:
    """A sentence with its segments marked and named; those that are wrong look so without any colour, too.

    `blanks` stand between the tokens; one each where they are not given.
    """
    blanks = [*(blanks if blanks is not None else [" "] * (len(tokens) - 1)), ""]
    ends = {start: (end, kind) for start, end, kind in segments}
    parts, place = [], 0
    while place < len(tokens):
        end, kind = ends.get(place, (place + 1, ""))
        inner = [*blanks[place : end - 1], ""]
        words = escape("".join(token + blank for token, blank in zip(tokens[place:end], inner, strict=True)))
        if kind:
            class_ = " class=wrong" if (place, end, kind) in wrong else ""
            words = f"<mark{class_}>{words}&nbsp;<small>{escape(kind)}</small></mark>"
        parts.append(words + blanks[end - 1])
        place = end
    return f"<bdi>{''.join(parts)}</bdi>"


def readings(note: str, rows: Sequence[tuple[str, str]]) -> str:
    """One sentence read in several ways: a note above, then each reader's name and what it read (HTML)."""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{html}</dd>" for name, html in rows)
    return f"<article><p>{escape(note)}</p><dl>{lines}</dl></article>"


def matrix(constraints: Constraints) -> str:
    """The masked transition matrix of the paper's Figure 2; masked cells are marked by colour and by a cross."""
    head = "".join(f'<th scope="col"><span>{escape(tag)}</span></th>' for tag in (*constraints.tags, "end"))
    lines = [("start", constraints.start, None)]
    lines += list(zip(constraints.tags, constraints.legal, constraints.end, strict=True))
    body = ""
    for name, cells, last in lines:
        marks = [bool(cell) for cell in cells] + ([] if last is None else [bool(last)])
        body += f'<tr><th scope="row">{escape(name)}</th>'
        body += "".join("<td></td>" if mark else "<td class=masked>&times;</td>" for mark in marks) + "</tr>"
    return f"<table class=matrix><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"


def curves(
    series: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str,
    ticks: Sequence[str] = (),
    mark: int | None = None,
    width: int = 640,
    height: int = 340,
) -> str:
    """Lines over `ticks`, or over 1, 2, 3, ..., as SVG: one colour a series, with axes and a key; an upright `mark`."""
    left, bottom, right = 62, 44, 18
    key, top = _key(tuple(series), left=left, width=width)
    values = [value for line in series.values() for value in line]
    longest = max((len(line) for line in series.values()), default=0)
    if not values:
        return "<p>nothing to draw</p>"
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def at(step: int, value: float) -> tuple[float, float]:
        across = left + (width - left - right) * (step / max(longest - 1, 1))
        return across, top + (height - top - bottom) * (1 - (value - low) / span)

    parts = [key]
    for tick in range(5):
        value = low + span * tick / 4
        height_of = at(0, value)[1]
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{height_of:.1f}" y2="{height_of:.1f}" class="grid"/>')
        parts.append(f'<text x="{left - 6}" y="{height_of + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for step in sorted({round(part * (longest - 1) / 5) for part in range(6)}):
        parts.append(
            f'<text x="{at(step, low)[0]:.1f}" y="{height - bottom + 16}" text-anchor="middle">'
            f"{escape(ticks[step]) if ticks else step + 1}</text>"
        )
    if mark is not None:
        across = f"{at(mark, low)[0]:.1f}"
        parts.append(f'<line x1="{across}" x2="{across}" y1="{top}" y2="{height - bottom}" class="mark"/>')
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{across:.1f},{up:.1f}" for across, up in (at(s, v) for s, v in enumerate(line)))
        parts.append(f'<polyline points="{points}" style="stroke:{colour}"><title>{escape(name)}</title></polyline>')
    parts.append(f'<text x="{(left + width) / 2:.0f}" y="{height - 6}" text-anchor="middle">{escape(x)}</text>')
    middle = f"{height / 2:.0f}"
    rotation = f'text-anchor="middle" transform="rotate(-90 14 {middle})"'
    parts.append(f'<text x="14" y="{middle}" {rotation}>{escape(y)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" class="curves"><title>{escape(y)} against {escape(x)}</title>{"".join(parts)}</svg>'
    )


def _key(names: Sequence[str], *, left: int, width: int) -> tuple[str, int]:
    """Which colour is which line, in rows above the plot, and the height they take."""
    parts, across, down = [], left, 12
    for number, name in enumerate(names):
        needed = 44 + 7 * len(name)
        if across + needed > width and across > left:
            across, down = left, down + 18
        parts.append(
            f'<line x1="{across}" x2="{across + 24}" y1="{down}" y2="{down}" '
            f'style="stroke:{COLOURS[number % len(COLOURS)]};stroke-width:2.4"/>'
            f'<text x="{across + 30}" y="{down + 4}">{escape(name)}</text>'
        )
        across += needed
    return "".join(parts), down + 16


STYLE = (
    ":root{color-scheme:light dark;--ink:#222;--paper:#fff;--line:#ddd;--soft:#666}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#17191c;--line:#3a3d42;--soft:#a0a4aa}}"
    "body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}"
    "main{max-width:62rem;margin:2rem auto;padding:0 1rem}h2{margin-top:2.4rem}p{color:var(--soft)}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th,td{padding:.35rem .8rem;border-bottom:1px solid var(--line);text-align:right}th:first-child{text-align:left}"
    ".matrix td,.matrix th{padding:.2rem .45rem;border:1px solid var(--line);text-align:center;font-size:.8rem}"
    ".matrix thead span{writing-mode:vertical-rl;transform:rotate(180deg)}"
    ".matrix .masked{background:#d33c3c33;color:#d33c3c}"
    ".curves{max-width:100%;min-width:32rem;height:auto}li{margin:.3rem 0}"
    ".curves text{font:12px system-ui,sans-serif;fill:var(--soft)}.curves .grid{stroke:var(--line)}"
    "@media(max-width:40rem){th,td{padding:.3rem .4rem;font-size:.85rem}}"
    "li{overflow-wrap:anywhere}nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;list-style:none}"
    "a{color:inherit}summary{cursor:pointer;margin:.6rem 0}"
    "article{margin:1rem 0;padding:.2rem .8rem;border-left:3px solid var(--line)}"
    "article p{margin:.2rem 0;font-size:.85rem}"
    "dl{margin:.2rem 0;display:grid;grid-template-columns:max-content 1fr;gap:.15rem .8rem}dt{color:var(--soft)}"
    "dd{margin:0;overflow-wrap:anywhere}mark{background:#1b7f5c2e;color:inherit;border-radius:.2rem;padding:0 .2rem}"
    "mark.wrong{background:#d33c3c33;outline:1px dashed #d33c3c}mark small{color:inherit;font-size:.75rem}"
    ".curves polyline{fill:none;stroke-width:2.4}.curves .mark{stroke:var(--soft);stroke-dasharray:4 3}"
)
