"""What a run came to, as lines for people, as JSON and as a table for docs/reliability.md."""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path
from typing import Any

from sglab_fuzz.search import Result


def line(result: Result) -> str:
    """One target in one line."""
    rate = result.units / result.seconds if result.seconds else 0
    shown = f"{result.name:13} {result.cases:>10,} cases {result.units:>13,} {result.unit:10} {rate:>12,.0f}/s"
    return f"{shown}  {len(result.found)} findings" + (f"\n              {result.note}" if result.note else "")


def described(found: dict[str, Any]) -> str:
    """A finding for people."""
    state = "" if found.get("confirmed", True) else " (not seen again alone)"
    kept = f"\n  kept as {found['file']}" if "file" in found else ""
    text = "".join(f"\n  | {each}" for each in found.get("text", "").splitlines()[:30])
    whole = f"{found['target']}: {found['signature']}, {found['times']} times{state}\n  {found['message']}{text}{kept}"
    return whole.encode("utf-8", "backslashreplace").decode()


def table(results: list[Result], seed: int, device: str) -> str:
    """Markdown: a row per target."""
    day = datetime.datetime.now(datetime.timezone.utc).date()
    rows = [
        f"Seed {seed}, {device}, {platform.machine()}, {day}.",
        "",
        "| Target | Cases | Units | Seconds | Findings |",
        "|---|---|---|---|---|",
    ]
    for each in results:
        rows.append(
            f"| {each.name} | {each.cases:,} | {each.units:,} {each.unit} | {each.seconds:.0f} | {len(each.found)} |"
        )
    rows += [f"\n{each.name}: {each.note}." for each in results if each.note]
    return "\n".join(rows) + "\n"


def write(path: Path, results: list[Result], seed: int, device: str) -> None:
    """`path`.json and `path`.md."""
    entries = [vars(each) for each in results]
    path.with_suffix(".json").write_text(json.dumps({"seed": seed, "device": device, "targets": entries}, indent=1))
    path.with_suffix(".md").write_text(table(results, seed, device))
