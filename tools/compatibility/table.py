"""docs/compatibility.json keeps the rows, docs/compatibility.md shows them."""

from __future__ import annotations

import fcntl
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from tools.compatibility.case import FLOAT64, Row

DOCS = Path(__file__).parents[2] / "docs"
ROWS = DOCS / "compatibility.json"
PAGE = DOCS / "compatibility.md"
BEGIN, END = "<!-- rows: begin -->", "<!-- rows: end -->"


def kept() -> list[Row]:
    """The rows of earlier runs."""
    return [Row(**row) for row in json.loads(ROWS.read_text())] if ROWS.exists() else []


def keep(row: Row) -> None:
    """Puts a row in the place of the one that was kept of this kernel."""
    _change(lambda rows: [*(one for one in rows if key(one) != key(row)), row])


def forget_others(family: str, known: Container[tuple[str, str, str]]) -> None:
    """Drops the rows of a family whose kernels are tried no more."""
    _change(lambda rows: [one for one in rows if one.family != family or key(one) in known])


def _change(change: Callable[[list[Row]], Iterable[Row]]) -> None:
    """Several processes may make the table."""
    with (Path(tempfile.gettempdir()) / f"{ROWS.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = [json.dumps(asdict(one), sort_keys=True) for one in ordered(change(kept()))]
        ROWS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def key(row: Row) -> tuple[str, str, str]:
    """What tells rows apart."""
    return row.family, row.kernel, row.arch


def ordered(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=key)


def page(rows: Iterable[Row]) -> str:
    """The page with a fresh table."""
    before, rest = PAGE.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END)[1]}"


def table(rows: Iterable[Row]) -> str:
    """A summary, then a table per family."""
    rows = ordered(rows)
    families = [(name, list(group)) for name, group in groupby(rows, key=lambda row: row.family)]
    lines = ["| Family | Version | Right | Wrong | Refused | Failed |", "|---|---|---|---|---|---|"]
    lines += [f"| {name} | {_versions(group)} | {_counts(group)} |" for name, group in families]
    lines.append(f"| all | | {_counts(rows)} |")
    for name, group in families:
        lines += [
            "",
            f"### {name}",
            "",
            "| Kernel | GPU | Result | Error | Findings | Warp-instructions | M/s |",
            "|---|---|---|---|---|---|---|",
            *map(line, group),
        ]
    return "\n".join(lines)


def line(row: Row) -> str:
    """A row of a family's table."""
    error = f"{row.worst:.2g}" if row.result in ("right", "wrong") and row.worst is not None else ""
    note = "" if row.reference == FLOAT64 else f" ({row.reference})"
    count = f"{row.warp_instructions:,}" if row.warp_instructions else ""
    rate = f"{row.rate / 1e6:.1f}" if row.rate else ""
    result = row.result + note + (f": {row.message}" if row.message else "")
    return " | ".join((f"| {_cell(row.kernel)}", row.arch, _cell(result), error, _findings(row), count, f"{rate} |"))


def _findings(row: Row) -> str:
    if row.findings is None:
        return "not looked for" if row.result in ("right", "wrong") else ""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(row.findings.items())) or "none"


def _counts(rows: list[Row]) -> str:
    counts = Counter(row.result for row in rows)
    return " | ".join(str(counts[kind]) for kind in ("right", "wrong", "refused", "failed"))


def _versions(rows: list[Row]) -> str:
    return ", ".join(sorted({row.version for row in rows}))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
