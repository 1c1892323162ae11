"""The command line: `python -m sglab_fuzz --help`."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from pathlib import Path

from sglab_fuzz import findings, process, report
from sglab_fuzz.guided import build
from sglab_fuzz.guided.search import GuidedSearch
from sglab_fuzz.search import Result, Search
from sglab_fuzz.target import NAMES

NIGHT = 8 * 3600
SHARES = {"front": 1, "programs": 2, "arithmetic": 2, "engine": 1, "launch": 1, "widgets": 1}
"""How the time of `all` is divided."""


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sglab_fuzz", description=__doc__)
    parser.add_argument("what", help=f"all, night, replay, or one of {', '.join(NAMES)}")
    parser.add_argument("files", nargs="*", type=Path, help="replay: findings")
    parser.add_argument("--seconds", type=float, help="of all targets together (60; night: 8 hours)")
    parser.add_argument("--seed", type=int, help="a fresh one by default; the same seed makes the same cases")
    parser.add_argument("--jobs", type=int, help="worker processes (1; night: one per core)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="arithmetic on the GPU")
    parser.add_argument("--guided", action="store_true", help="front: by coverage, in a build of its own with clang")
    parser.add_argument("--report", type=Path, help="write PATH.json and PATH.md")
    parser.add_argument("--keep", type=Path, default=findings.FOLDER, help="where findings are written")
    return parser


def main() -> int:
    """Returns 1 if anything was found."""
    asked = _arguments().parse_args()
    if asked.what == "replay":
        return _replay(asked.files)
    night = asked.what == "night"
    if asked.guided and asked.what != "front":
        sys.exit("only the target front is guided by coverage: python -m sglab_fuzz front --guided")
    names = NAMES if asked.what in ("all", "night") else (asked.what,)
    if asked.what not in (*NAMES, "all", "night"):
        sys.exit(f"unknown target {asked.what!r}; known are all, night, replay, {', '.join(NAMES)}")
    seed = secrets.randbits(32) if asked.seed is None else asked.seed
    seconds = asked.seconds if asked.seconds is not None else NIGHT if night else 60
    jobs = asked.jobs or (os.cpu_count() or 1 if night else 1)
    print(f"seed {seed}, {jobs} jobs, {seconds:.0f} s", flush=True)
    whole = sum(SHARES[name] for name in names)
    results: list[Result] = []
    for name in names:
        share = seconds * SHARES[name] / whole
        if name == "front" and night and build.missing() is None:
            share /= 2  # the other half is guided
            results.append(_guided(seed, share, jobs, asked.keep))
            _print(results[-1])
        search = Search(name, seed, share, jobs, asked.device, asked.keep)
        results.append(_guided(seed, share, jobs, asked.keep) if asked.guided else search.run())
        _print(results[-1])
    path = asked.report or (Path("build/fuzz") if night else None)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        report.write(path, results, seed, asked.device)
    return int(any(result.found for result in results))


def _print(result: Result) -> None:
    print(report.line(result), flush=True)
    for found in result.found:
        print(report.described(found), flush=True)


def _guided(seed: int, seconds: float, jobs: int, keep: Path) -> Result:
    try:
        return GuidedSearch(seed, seconds, jobs, keep).run()
    except RuntimeError as error:
        sys.exit(str(error))


def _replay(files: list[Path]) -> int:
    shown = 0
    for path in files:
        name, text = findings.read(path)
        found = process.run_text(name, "cpu", text)
        print(f"{path}: {found['signature'] + ': ' + found['message'] if found else 'nothing'}")
        shown |= found is not None
    return int(shown)


if __name__ == "__main__":
    raise SystemExit(main())
