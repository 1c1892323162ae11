"""What a seat's process does first, as the student: lays out the home, then becomes Jupyter's server.

`python -m sglab.classroom.seat …` is what the hub starts; everything after it goes to `jupyterhub-singleuser`.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

NOTEBOOKS = "notebooks"


def lay_out(home: Path, course: Path) -> int:
    """Copies the notebooks that the student does not have yet; returns how many. What is there stays as it is."""
    mine = home / NOTEBOOKS
    mine.mkdir(exist_ok=True)
    copied = 0
    for notebook in sorted(course.glob("*.ipynb")):
        target = mine / notebook.name
        if not target.exists():
            shutil.copyfile(notebook, target)
            target.chmod(0o600)
            copied += 1
    link = home / "course"
    if not link.exists() and not link.is_symlink():
        link.symlink_to(course)
    return copied


def main() -> None:
    home, course = Path(os.environ["HOME"]), Path(os.environ["SGLAB_COURSE"])
    print(f"{home / NOTEBOOKS}: {lay_out(home, course)} notebooks copied", flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "jupyterhub.singleuser", *sys.argv[1:]])


if __name__ == "__main__":
    main()
