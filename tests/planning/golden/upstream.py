"""Where the generators of golden files take the real planners from: wheels of PyPI, commits of public repositories.

Both are kept in sglab's cache. $SGLAB_UPSTREAM names a folder of clones (FlashMLA, flash-attention) for a machine
without a network. Nothing of them is copied into this repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from sglab.compilers.cache import cached, content_key


def wheel(requirement: str, *members: str) -> Path:
    """The files of a wheel whose paths begin with one of `members`: wheel("sglang==0.5.9", "sglang/srt/")."""

    def download(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check"]
        subprocess.run([*pip, requirement, "-d", str(folder / "wheel")], check=True)
        with zipfile.ZipFile(next((folder / "wheel").iterdir())) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(members)])
        shutil.rmtree(folder / "wheel")

    return cached("upstream", content_key(requirement, *members), download)


def checkout(repository: str, commit: str, *paths: str) -> Path:
    """Files of a GitHub repository ("owner/name") at a commit."""
    clones = os.environ.get("SGLAB_UPSTREAM")

    def export(folder: Path) -> None:
        source = Path(clones, repository.split("/")[1]) if clones else folder / "clone"
        if not clones:
            address = f"https://github.com/{repository}.git"
            subprocess.run(["git", "clone", "-q", "--filter=blob:none", "--bare", address, str(source)], check=True)
        archive = ["git", "-C", str(source), "archive", commit, *paths]
        packed = subprocess.run(archive, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)

    return cached("upstream", content_key(repository, commit, *paths), export)
