"""Makes the shipped checkpoint of what train.py wrote: config.json, model.safetensors (bfloat16), loss.json.

python tools/tiny/export.py OUT sglab/models/tiny
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch
from model import checkpoint
from safetensors.torch import save_file

LIMIT = 6_000_000
"""Bytes: it ships with every install."""


def export(trained: Path, folder: Path) -> None:
    saved = torch.load(trained / "tiny.pt", map_location="cpu", weights_only=True)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(checkpoint(saved["state"]), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(saved["config"], indent=2) + "\n")
    if (trained / "loss.json").exists():
        shutil.copy(trained / "loss.json", folder / "loss.json")
    size = (folder / "model.safetensors").stat().st_size
    if size > LIMIT:
        sys.exit(f"model.safetensors: expected at most {LIMIT:,} bytes, got {size:,}: train a smaller model")


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]))
