"""NVIDIA's CUDA samples: whole programs that check themselves, with the runtime's streams, graphs, events and memory.

They are not on PyPI: clone https://github.com/NVIDIA/cuda-samples and name the folder in CUDA_SAMPLES. Those that draw, read
textures, need several GPUs, a library beyond the toolkit's headers or launches from kernels are left out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tools.compatibility.case import Case
from tools.compatibility.families import AbsentError, Family
from tools.compatibility.programs import program

FOLDER = "CUDA_SAMPLES"
SAMPLES = """
@SAMPLES@
"""
"""One a line: its folder, and arguments that make it smaller where it takes some."""


def family() -> Family:
    folder = Path(os.environ.get(FOLDER, ""))
    if not os.environ.get(FOLDER) or not (folder / "Samples").is_dir():
        raise AbsentError(f"clone https://github.com/NVIDIA/cuda-samples and set {FOLDER} to its folder")
    versions = re.findall(r"^### CUDA ([\d.]+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)
    cases = [_case(folder, *line.split()) for line in SAMPLES.strip().splitlines()]
    return Family("CUDA samples", f"cuda-samples {versions[0] if versions else ''}".strip(), cases)


def _case(folder: Path, name: str, *arguments: str) -> Case:
    """The file with `main`; the others are compiled with it, but for those that are included."""
    place = folder / "Samples" / name
    texts = {path: path.read_text(errors="replace") for path in sorted((*place.glob("*.cu"), *place.glob("*.cpp")))}
    own = next(path for path, text in texts.items() if re.search(r"^\s*int main\(|^main\(", text, re.MULTILINE))
    included = {included for text in texts.values() for included in re.findall(r'#include ["<]([^">]+)', text)}
    others = [str(path) for path in texts if path != own and path.name not in included]
    return program(place.name, own, arguments, "", [folder / "Common"], "sm_90a", ("-lpthread", *others))
