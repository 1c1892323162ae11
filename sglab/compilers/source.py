"""The text of the source files that a kernel's line table names, wherever the kernel comes from."""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sglab
from sglab.compilers.nvcc import find_nvcc
from sglab.gpu.errors import GpuError
from sglab.gpu.places import shown_path

PACKAGE = Path(sglab.__file__).parent
SHIPPED = (PACKAGE.parent / "csrc" / "kernels", PACKAGE / "csrc" / "kernels")
"""Where the sources of our own kernels are: in a checkout, in an installed package."""
LARGEST = 4 << 20
"""Bytes; no one steps through a longer source file."""


@dataclass(frozen=True)
class SourceText:
    """A source file's text, or why there is none.

    Attributes:
        path: as the line table has it.
        note: what a reader should know: why the text is missing, or that it may not be what was compiled.
    """

    path: str
    text: str | None
    note: str = ""


def short_name(path: str) -> str:
    """A file's name; of a notebook's cell, whose file is a number that means nothing to the user, "In[3]"."""
    return shown_path(path).rsplit("/", 1)[-1]


class SourceFinder:
    """Finds source text.

    Regular files only, and only where a trusted party says so: below the folders that the user named, in this
    package and in CUDA toolkits; elsewhere if this process compiled the kernel (`trusted`). PTX from elsewhere may name
    any file of this machine, and what a debugger shows may be saved and shared.

    Args:
        folders: where to look for files that are not at the path that the line table has.
        digests: SHA-256 of what was compiled, by path, where that is known.
        trusted: the paths come from a compiler run of this process.
    """

    def __init__(
        self,
        folders: Sequence[str | Path] = (),
        digests: Mapping[str, str] | None = None,
        trusted: bool = False,
    ) -> None:
        self._folders = [Path(folder).resolve() for folder in folders]
        self._digests = dict(digests or {})
        self._trusted = trusted

    def find(self, path: str) -> SourceText:
        if cell := _cell(path):
            return SourceText(path, cell)
        refused = False
        for candidate in self._candidates(path):
            if not self._may_open(candidate):
                refused = refused or candidate.is_file()
                continue
            text = _read(candidate)
            if text is not None:
                return SourceText(path, text, self._changed(path, text))
        return SourceText(path, None, _refusal(path) if refused else _missing(path))

    def _candidates(self, path: str) -> list[Path]:
        given = Path(path)
        named = [folder / part for folder in self._folders for part in (given, given.name)]
        found = [given, *named] if given.is_absolute() else [*named, PACKAGE.parent / given, PACKAGE / given]
        # nvcc's cache is filled under another name: <key>.<random> becomes <key>
        found.append(given.parent.parent / given.parent.stem / given.name)
        if path.startswith("cuda/"):
            found += [toolkit / path.removeprefix("cuda/") for toolkit in _toolkits()]
        return found

    def _may_open(self, candidate: Path) -> bool:
        try:
            real = candidate.resolve()  # a link may lead out of a folder
        except (OSError, RuntimeError, ValueError):
            return False
        known = [*self._folders, *SHIPPED, *(_toolkits() if str(candidate).count("cuda") else [])]
        return self._trusted or any(real.is_relative_to(folder.resolve()) for folder in known)

    def _changed(self, path: str, text: str) -> str:
        digest = self._digests.get(path)
        if digest is None or digest == hashlib.sha256(text.encode()).hexdigest():
            return ""
        return "This file has changed since the kernel was compiled: lines may be off."


def _cell(path: str) -> str:
    """The text of a notebook's cell, which has a name but no file. One that an earlier Jupyter kernel ran is known if
    this one has run it, too: its file is named for its text, its folder for the kernel's process. Never opens a file,
    as linecache.getlines would."""
    names = [path]
    if re.search(r"/ipykernel_\d+/", path):
        name = Path(path).name
        names += [known for known in [*linecache.cache] if Path(known).name == name and "/ipykernel_" in known]
    for known in names:
        entry = linecache.cache.get(known)
        if entry is not None and len(entry) == 4 and not Path(known).exists():
            return "".join(entry[2])
    return ""


def _read(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return None
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None


def _toolkits() -> list[Path]:
    usual = [Path("/usr/local/cuda")]
    try:
        return [find_nvcc().resolve().parents[1], *usual]
    except (GpuError, OSError):
        return usual


def _refusal(path: str) -> str:
    return (
        "This PTX was not compiled here, so a file of this machine that it names is not opened; PTX only. "
        f"To show it, name its folder: KernelDebugger(session, source_paths=[{str(Path(path).parent)!r}])."
    )


def _missing(path: str) -> str:
    if path.startswith("cuda/"):
        return "A header of the CUDA toolkit, which was not found here; PTX only."
    return "The source is not on this machine; PTX only. Name its folder: KernelDebugger(session, source_paths=[...])."
