"""Findings as files: one JSON each, below tests/fuzz/findings, which tests run again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from sglab_fuzz.process import ROOT

FOLDER = ROOT / "tests" / "fuzz" / "findings"


def save(name: str, seed: int, number: int, text: str, found: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Write a finding; the same text has the same name."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = name.rpartition(".")[2].partition(":")[0]
    path = folder / f"{stem}-{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}.json"
    entry = {
        "target": name,
        "kind": found["kind"],
        "signature": found["signature"],
        "message": found["message"],
        "seed": seed,
        "number": number,
        "text": text.splitlines(keepends=True),
    }
    path.write_text(json.dumps(entry, indent=1) + "\n")
    return path


def read(path: Path) -> tuple[str, str]:
    """Target and text of a finding."""
    entry = json.loads(path.read_text())
    return entry["target"], "".join(entry["text"])
