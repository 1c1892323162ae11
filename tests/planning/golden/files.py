"""The golden files: where their values come from, and cases. Arrays of more than 24 entries are kept as digests."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
LONGEST = 24


def cases(name: str) -> list[Any]:
    return list(json.loads((HERE / f"{name}.json").read_text())["cases"])


def compact(values: Any) -> Any:
    """A number or short list as it is, a longer one as its size and the SHA-256 of its little-endian int64."""
    array = np.asarray(values).astype("<i8")
    if array.size <= LONGEST:
        return array.ravel().tolist() if array.ndim else int(array)
    return {"size": array.size, "sha256": hashlib.sha256(array.tobytes()).hexdigest()}


def text(source: str, made: list[Any]) -> str:
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in made)
    return f'{{"source":{json.dumps(source)},"cases":[\n{lines}\n]}}\n'


def main(described: str | None, make: Callable[[], dict[str, str]]) -> None:
    """Writes what `make` answers, name -> text, or with --check compares it with what is there."""
    parser = argparse.ArgumentParser(description=described, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    check = parser.parse_args().check
    for name, made in make().items():
        path = HERE / f"{name}.json"
        if not check:
            path.write_text(made)
        elif path.read_text() != made:
            raise SystemExit(f"{path.name} is not what its source gives")
        print(path.name)
