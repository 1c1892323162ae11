"""Compiled results on disk, by content: the key says everything that a result depends on.

The folder is $SGLAB_CACHE, else $XDG_CACHE_HOME/sglab, else ~/.cache/sglab. Deleting it is always safe. Several
processes may request one key at the same time: one of them builds, the others wait for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Where compiled results are kept."""
    if named := os.environ.get("SGLAB_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sglab"


def content_key(*parts: object) -> str:
    """A short name for everything in `parts`; their order and boundaries count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def cached(
    kind: str,
    key: str,
    build: Callable[[Path], None],
    valid: Callable[[Path], bool] = lambda folder: True,
) -> Path:
    """The folder with the result for `key`; `build` fills it if it is missing.

    Args:
        kind: compiler, one level of folders.
        build: gets an empty folder; what it raises comes through, and nothing is kept.
        valid: whether a kept result is still valid.
    """
    home = cache_folder() / kind
    folder = home / key
    if folder.is_dir() and valid(folder):
        return folder
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / f"{key}.lock"):
        if folder.is_dir():
            if valid(folder):
                return folder
            shutil.rmtree(folder)
        draft = Path(tempfile.mkdtemp(prefix=f"{key}.", dir=home))
        try:
            build(draft)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
