"""A page per student: points, feedback, and the timeline of each kernel."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from sglab.labs.coursework import lab
from sglab.labs.lab import Criterion, Lab, Mark

from .grade import Grade

STYLE = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1f2328; --soft: #59636e; --line: #d1d9e0; --good: #1a7f37;
  --bad: #9a4a00; --bar: #d8dee4 }
@media (prefers-color-scheme: dark) { :root { --bg: #0e1013; --fg: #e6e8eb; --soft: #9aa4af; --line: #30363d;
  --good: #57ab5a; --bad: #e0a35a; --bar: #2b3138 } }
body { margin: 0 auto; max-width: 900px; padding: 24px; font: 15px/1.5 system-ui, sans-serif; background: var(--bg);
  color: var(--fg) }
h1 { font-size: 22px } h2 { font-size: 18px; margin-top: 32px } h3 { font-size: 15px; margin: 20px 0 4px }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: 6px 8px; vertical-align: top;
  border-bottom: 1px solid var(--line) } td.n, th.n { text-align: right; white-space: nowrap }
tr.full td.n { color: var(--good) } tr.part td.n { color: var(--bad) }
.feedback { color: var(--soft); overflow-wrap: anywhere; white-space: pre-wrap } .idea { color: var(--bad) }
pre { border: 1px solid var(--line); padding: 8px; overflow: auto; max-height: 240px }
.bar { height: 8px; background: var(--bar) } .bar i { display: block; height: 100%; background: var(--good) }
a { color: inherit } small { color: var(--soft) }
"""


def write_reports(grades: Sequence[Grade], folder: Path) -> list[Path]:
    """Writes student.html for each student, and a page beside it for each timeline; returns the pages of students."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for student in sorted({each.student for each in grades}):
        mine = [each for each in grades if each.student == student]
        links: dict[tuple[str, str], str] = {}
        for each in mine:
            for exercise, page in each.timelines.items():
                name = f"{student}.{each.lab}.{exercise}.html"
                (folder / name).write_text(page, "utf-8")
            for exercise in each.marks:
                name = f"{student}.{each.lab}.{exercise}.html"
                if (folder / name).exists():
                    links[each.lab, exercise] = name
        pages.append(folder / f"{student}.html")
        pages[-1].write_text(student_page(student, mine, links), "utf-8")
    return pages


def student_page(student: str, grades: Sequence[Grade], links: Mapping[tuple[str, str], str]) -> str:
    """HTML with nothing from outside; whatever a submission wrote is text in it."""
    points, of = sum(each.points for each in grades), sum(each.of for each in grades)
    body = "".join(_lab(each, lab(each.lab), links) for each in grades)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(student)}: labs</title><style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(student)}: {points:g} of {of:g} points</h1>{_bar(points, of)}{body}</body></html>\n"
    )


def _bar(points: float, of: float) -> str:
    share = 100 * points / of if of else 0
    return f'<div class="bar" role="img" aria-label="{share:.0f} %"><i style="width:{share:.0f}%"></i></div>'


def _lab(one: Grade, which: Lab, links: Mapping[tuple[str, str], str]) -> str:
    hints = f" after {one.hint_cost:g} for hints" if one.hint_cost else ""
    time = f" Modelled time: {one.modelled_ns / 1000:.2f} µs." if one.modelled_ns else ""
    parts = [
        f"<h2>{which.id} {html.escape(which.title)}: {one.points:g} of {one.of:g}{hints}</h2>",
        f"<p>{html.escape(which.goal)}{time}</p>",
        *(f'<p class="idea">{html.escape(problem)}</p>' for problem in one.problems),
    ]
    rows: dict[str, list[tuple[Criterion, Mark]]] = {}
    for name, criterion, mark in one.rows(which):
        rows.setdefault(name, []).append((criterion, mark))
    for name, marks in rows.items():
        parts.append(f"<h3>{html.escape(which[name].title)}</h3><table><tr><th>for</th><th class=n>points</th></tr>")
        parts += [_row(criterion, mark) for criterion, mark in marks]
        parts.append("</table>")
        if link := links.get((one.lab, name)):
            parts.append(f'<p><a href="{quote(link)}">Timeline of the kernel, warp by warp (emulated)</a></p>')
        if printed := one.printed.get(name):
            parts.append(f"<h3>It printed</h3><pre>{_text(printed)}</pre>")
    held = "; ".join(one.enforced) or "nothing: no code of the submission ran"
    parts.append(
        f"<p><small>Judged in {one.seconds:.1f} s; its processes were held by: {html.escape(held)}.</small></p>"
    )
    return "".join(parts)


def _row(criterion: Criterion, mark: Mark) -> str:
    kind = "full" if mark.share == 1 else "part"
    idea = f' <span class="idea">({html.escape(mark.idea)})</span>' if mark.idea else ""
    said = f'<div class="feedback">{_text(mark.feedback)}</div>' if mark.feedback else ""
    points = f"{criterion.points * mark.share:.3g} of {criterion.points:g}"
    return f'<tr class="{kind}"><td>{html.escape(criterion.text)}{idea}{said}</td><td class=n>{points}</td></tr>'


def _text(value: str) -> str:
    """A submission's text, without control characters."""
    return html.escape(re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "\ufffd", value))
