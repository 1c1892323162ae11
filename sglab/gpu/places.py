"""Places in source files for people: the author's own lines before those of the libraries that he calls."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Sequence
from pathlib import PurePath

Line = tuple[str, int]
_WORD = re.compile(r"(?P<drive>\b[A-Za-z]:(?=[\\/]))?[^\s:,()\[\]]+(?P<line>(?=:\d))?")
"""A word of a message; before a line's number it ends with a file; its path begins at a drive, a slash or a folder."""
LIBRARIES = re.compile(
    r"(^|/)(cu(da)?[^/]*/(bin/\.\./)?(targets|include)/|(cute|cutlass|triton|nvidia_cutlass_dsl|numba|numba_cuda)/)"
)


def places_of(chain: Sequence[Line]) -> list[str]:
    """Of an instruction, in words: "own.cu:8" and "in cuda_pipeline_helpers.h:190", where a library's function was
    inlined at line 8; "own.cu:3" and "called from own.cu:20", where a function of the author's was.

    Args:
        chain: the instruction's file and line, then those at which the function around it was inlined.
    """
    if not chain:
        return []
    at = _own(chain)
    own = f"{shown_path(chain[at][0])}:{chain[at][1]}"
    if at > 0:
        return [own, f"in {_short(chain[0][0])}:{chain[0][1]}"]
    return [own] + [f"called from {shown_path(file)}:{line}" for file, line in chain[1:][-1:]]


def shown_path(path: str) -> str:
    """A file's path; of a notebook's cell, whose file is a number that means nothing to its author, "In[3]"."""
    if "ipykernel" not in path or "IPython" not in sys.modules:
        return path
    from IPython.core.getipython import get_ipython

    number_of = getattr(getattr(get_ipython(), "compile", None), "format_code_name", lambda name: None)
    # PTX in a compiler's cache names the folder of an earlier kernel's process; the file is named for the cell's text
    name = PurePath(path).name
    same = [known for known in [*linecache.cache] if "/ipykernel_" in known and PurePath(known).name == name]
    found = next((named for each in (path, *same) if (named := number_of(each)) is not None), None)
    return path if found is None else str(found[1])


def paths_once(message: str) -> str:
    """A message in which a file's path is whole where it is named first, and only the file's name from then on."""
    met: dict[str, str] = {}

    def shown(found: re.Match[str]) -> str:
        begin = 0 if found["drive"] else found[0].find("/")
        if found["line"] is None or begin < 0:
            return found[0]
        while begin and (found[0][begin - 1].isalnum() or found[0][begin - 1] in "_.~-"):
            begin -= 1  # a relative path begins before its slash
        return found[0][:begin] + once(found[0][begin:])

    def once(path: str) -> str:
        name = re.split(r"[/\\]", path)[-1]
        if name in met:
            return name if met[name] == path else path
        met[name] = path
        return path

    return _WORD.sub(shown, message)


def own_place(chain: Sequence[Line]) -> Line | None:
    """The innermost file and line of the author's; None where nothing is known."""
    return chain[_own(chain)] if chain else None


def is_library(path: str) -> bool:
    """Whether a file belongs to the toolkit or a library that kernels call, rather than to the kernel's author."""
    return LIBRARIES.search(path) is not None


def _own(chain: Sequence[Line]) -> int:
    """Index of the innermost place outside of libraries; 0 where the kernel itself is a library's."""
    return next((at for at, (file, _) in enumerate(chain) if not is_library(file)), 0)


def _short(file: str) -> str:
    """Without the path of the library's headers; an instruction's chain has it."""
    _, include, inside = file.rpartition("/include/")
    return inside if include else PurePath(file).name
