"""How much memory the notebooks take, for machines that have little: Binder gives 2 GB to everything.

python binder/memory.py [notebook …]

Runs each in a kernel of its own, as a reader would, and prints the most that its processes held together (each page
that n of
them share counts 1/n), sampled five times a second. JupyterLab's own server comes on top: about 100 MiB.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


def held(of: psutil.Process) -> int:
    """Bytes of a process and all it has started."""
    total = 0
    for one in of.children(recursive=True):
        try:
            text = Path(f"/proc/{one.pid}/smaps_rollup").read_text()
            total += int(text.split("\nPss:")[1].split()[0]) * 1024
        except (OSError, IndexError, psutil.NoSuchProcess):
            continue
    return total


def most(notebook: Path) -> int:
    """Bytes at most while the notebook runs."""
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.2):
            peak = max(peak, held(psutil.Process()))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        book = nbformat.read(notebook, as_version=4)
        NotebookClient(book, timeout=None, resources={"metadata": {"path": str(notebook.parent)}}).execute()
    finally:
        done.set()
        watching.join()
    return peak


if __name__ == "__main__":
    chosen = [Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb"))
    for each in chosen:
        print(f"{each.name:28} {most(each) / 2**20:6.0f} MiB", flush=True)
