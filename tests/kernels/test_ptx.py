"""The PTX that ships is what the sources in the repository give."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sglab.gpu import GpuError
from sglab.kernels import ptx

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    "attention_tile",
    "blackwell_tile",
    "faulty",
    "faulty_attention",
    "flash_mla_plan",
    "merge",
    "mla_decode_sm100",
    "mla_decode_sm90",
    "mma_fragments",
    "paged_decode",
    "scores",
    "shared_storage",
    "split_kv_combine",
    "tcgen05_tile",
    "tma_pipeline",
    "wgmma_tile",
]


def test_the_kernels_that_ship() -> None:
    assert list(ptx.names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_provenance_names_the_sources_as_they_are(name: str) -> None:
    found = ptx.provenance(name)
    assert found.source in found.sha256
    for path, digest in found.sha256.items():
        assert hashlib.sha256((ROOT / path).read_bytes()).hexdigest() == digest, (
            f"{path} has changed since {name}.ptx.xz was made: run python csrc/kernels/build_ptx.py"
        )


@pytest.mark.parametrize("name", NAMES)
def test_ptx_loads_and_names_no_folder_of_the_machine_it_was_made_on(name: str) -> None:
    module = ptx.module(name)
    assert module.target == ptx.provenance(name).arch
    assert len(module) > 0
    assert str(ROOT) not in module.ptx


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_recompiling_gives_the_ptx_that_ships() -> None:
    """One of them; the linters compile all."""
    script = ROOT / "csrc" / "kernels" / "build_ptx.py"
    ran = subprocess.run([sys.executable, script, "--check", "scores"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(GpuError, match="mla_decode_sm90"):
        ptx.text("nothing")
