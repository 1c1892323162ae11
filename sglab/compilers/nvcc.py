"""CUDA C++ to PTX with nvcc: the machine's own, or the one from PyPI (extra `nvcc`)."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from sglab.compilers.cache import cached, content_key
from sglab.compilers.vouched import vouch
from sglab.gpu.architecture import Architecture
from sglab.gpu.errors import CompileError, MissingDependencyError
from sglab.gpu.progress import announced

_SHOWN_LINES = 30  # of nvcc's output; a template error can fill thousands


def find_nvcc() -> Path:
    """nvcc from $CUDA_HOME, the PATH, or the Python environment.

    Raises:
        MissingDependencyError: there is none.
    """
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if (root := os.environ.get(variable)) and (nvcc := Path(root) / "bin" / "nvcc").exists():
            return nvcc
    if found := shutil.which("nvcc"):
        return Path(found)
    for folder in _wheel_folders():
        if (nvcc := folder / "bin" / "nvcc").exists():
            return nvcc
    raise MissingDependencyError(
        "compiling CUDA C++ needs nvcc: install the CUDA toolkit and set CUDA_HOME, or pip install 'sglab[nvcc]'"
    )


def _wheel_folders() -> list[Path]:
    """Where NVIDIA's wheels put a toolkit: nvidia/cu13 and its like."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    return sorted((folder for root in roots for folder in root.glob("cu[0-9]*")), reverse=True)


@cache
def nvcc_version(nvcc: Path) -> str:
    """Such as 13.0.88."""
    ran = subprocess.run([nvcc, "--version"], capture_output=True, text=True)
    found = re.search(r"V(\d+\.\d+\.\d+)", ran.stdout)
    if not found:
        raise CompileError(f"{nvcc} --version failed:\n{ran.stdout}{ran.stderr}")
    return found[1]


def compile_cuda(
    source: str | Path,
    arch: str = "sm_100a",
    options: Sequence[str] = (),
    include: Sequence[str | Path] = (),
    name: str = "<cuda>",
) -> str:
    """PTX of CUDA C++ text, or of a .cu file, with source lines. Cached until it or a header it includes changes.

    Args:
        options: further nvcc options, such as -DNAME=1.
        include: folders for #include.

    Raises:
        CompileError: with nvcc's output.
        MissingDependencyError: there is no nvcc.
    """
    return compiled_cuda(source, arch, options, include, name)[0]


def compiled_cuda(
    source: str | Path,
    arch: str,
    options: Sequence[str],
    include: Sequence[str | Path],
    name: str,
) -> tuple[str, Path]:
    """As `compile_cuda`; and the folder with what was compiled, by the name that the line table has."""
    target = str(Architecture.parse(arch))
    if isinstance(source, Path):
        name = source.name
        include = [source.parent, *include]
        source = source.read_text()
    nvcc = find_nvcc()
    flags = [
        "-std=c++20",
        "-O3",
        "-lineinfo",
        f"-arch={target}",
        *options,
        *(f"-I{Path(p).resolve()}" for p in include),
    ]
    key = content_key(nvcc_version(nvcc), name, source, *flags)

    def build(folder: Path) -> None:
        with announced(f"compiling {name} for {target} with nvcc"):
            _run(nvcc, source, name, flags, folder)

    folder = cached("nvcc", key, build, _headers_unchanged)
    return vouch(_by_name((folder / "kernel.ptx").read_text(), key)), folder


def _by_name(ptx: str, key: str) -> str:
    """Line tables name the source by its name alone, not by its copy in the cache."""
    return "".join(_file_by_name(line, f"/{key}.") for line in ptx.splitlines(keepends=True))


def _file_by_name(line: str, folder: str) -> str:
    """.file 1 "/cache/nvcc/<key>.<random>/kernel.cu" -> .file 1 "kernel.cu"."""
    if folder not in line or not line.lstrip().startswith(".file"):
        return line
    before, _, path = line.partition('"')
    name = path.rpartition(folder)[2].partition("/")[2]
    return f'{before}"{name}' if name else line


def _run(nvcc: Path, source: str, name: str, flags: Sequence[str], folder: Path) -> None:
    file = folder / (re.sub(r"[^\w.]+", "_", name).strip("_") or "kernel")
    file = file.with_suffix(".cu")
    file.write_text(source)
    dependencies = folder / "kernel.d"
    command = [str(nvcc), *flags, "-ptx", file.name, "-o", "kernel.ptx", "-MD", "-MF", dependencies.name]
    run_nvcc(command, name, folder)
    headers = [Path(p) for p in re.split(r"[\s\\]+", dependencies.read_text().split(":", 1)[1]) if p]
    stamps = {str(p): _stamp(p) for p in headers if p.is_absolute()}
    (folder / "headers.json").write_text(json.dumps(stamps))


def run_nvcc(command: Sequence[str], name: str, folder: Path) -> None:
    """Runs nvcc in `folder`. raises CompileError: with its errors, without its warnings."""
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        lines = (ran.stdout + ran.stderr).strip().splitlines()
        first = next((i for i, line in enumerate(lines) if _is_error(line)), 0)
        shown = lines[first : first + _SHOWN_LINES]
        more = [f"… and {len(lines) - first - len(shown)} more lines"] if first + len(shown) < len(lines) else []
        raise CompileError("\n".join([f"nvcc could not compile {name}:", *shown, *more]))


def _is_error(line: str) -> bool:
    """The linker's own lines, which come before "error: ld returned 1", do not say "error"."""
    from_linker = re.match(r"\S*\bld(\.\w+)?: ", line) is not None
    return "error" in line or (from_linker and "warning" not in line)


def _headers_unchanged(folder: Path) -> bool:
    stamps = json.loads((folder / "headers.json").read_text())
    return all(_stamp(Path(path)) == stamp for path, stamp in stamps.items())


def _stamp(path: Path) -> list[int]:
    try:
        stat = path.stat()
    except OSError:
        return []
    return [stat.st_size, stat.st_mtime_ns]
