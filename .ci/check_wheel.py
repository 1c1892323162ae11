"""Tries an installed sglab from an empty folder: files, extension, doctor, an SM100 decode, a host program, a notebook.

Run by cibuildwheel in the clean environment of each wheel; needs the extras lab, torch, kernels, and nbclient.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    "widgets/static",
    "labs/options.py",
    "kernels/ptx",
    "csrc/kernels/sm100/mla_decode.cu",
    "lib/libsglab_cudart.so",
    "py.typed",
)


def check_files() -> None:
    import sglab

    package = Path(sglab.__file__).parent
    if ROOT in package.parents and "site-packages" not in package.parts:
        sys.exit(f"this is the checkout's sglab, not an installed one: {package}")
    missing = [name for name in FILES if not (package / name).exists()]
    if missing:
        sys.exit(f"missing from the wheel: {', '.join(missing)}")


def check_lab_extension() -> None:
    listed = subprocess.run([sys.executable, "-m", "jupyter", "labextension", "list"], capture_output=True, text=True)
    lines = [line for line in (listed.stdout + listed.stderr).splitlines() if " sglab v" in line]
    if len(lines) != 1 or "enabled" not in lines[0] or "OK" not in lines[0]:
        sys.exit(f"JupyterLab does not list the extension as enabled and OK: {lines}")
    bundles = Path(sys.prefix, "share", "jupyter", "labextensions", "sglab", "static", "widgets")
    if not (bundles / "kernel_debugger.js").exists():
        sys.exit(f"the bundles that draw recordings are missing: {bundles}")


def check_decode() -> None:
    import torch

    import sglab
    from sglab.cudart.program import run_program

    batch = sglab.decode_batch(seq_lens=[300, 77], num_heads=128, page_size=128, dtype="float16", seed=0)
    out = sglab.attend(batch, backend="cutlass_mla")
    expected = sglab.attend(batch, backend="torch_native")
    torch.testing.assert_close(out.float(), expected.float(), atol=2e-3, rtol=2e-3)
    assert run_program(["/bin/true"]).returncode == 0


def check_notebook(name: str) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        check_files()
        subprocess.run([Path(sys.executable).parent / "sglab", "doctor"], check=True)
        check_lab_extension()
        check_decode()
        check_notebook("02_page_tables.ipynb")
    print("the installed sglab works")


if __name__ == "__main__":
    main()
