"""Compiles our kernels to the PTX that the package ships. Run it after a change: python csrc/kernels/build_ptx.py

With --check it writes nothing and fails where what is shipped is not what the sources give.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "sglab" / "kernels" / "ptx"
FLAGS = ("-std=c++20", "-O3", "-lineinfo")
KERNELS = {
    "mla_decode_sm90": ("csrc/kernels/sm90/mla_decode.cu", "sm_90a"),
    "split_kv_combine": ("csrc/kernels/portable/combine.cu", "sm_90"),
    "merge": ("csrc/kernels/portable/merge.cu", "sm_90"),
}
"""Name: source, target. A portable kernel's PTX runs on its target and everything newer."""


def compiler() -> str:
    """Such as "nvcc 13.0.88"."""
    output = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"V(\d+\.\d+\.\d+)", output)
    assert found is not None, output
    return f"nvcc {found[1]}"


def sources(name: str) -> list[Path]:
    """The .cu file and the headers of ours beside it."""
    source = ROOT / KERNELS[name][0]
    return [source, *sorted(source.parent.glob("*.cuh"))]


def digests(name: str) -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sources(name)
        if path.suffix == ".cu" or f'"{path.name}"' in (ROOT / KERNELS[name][0]).read_text()
    }


def ptx(name: str) -> str:
    """PTX whose source lines name the repository's own files, wherever it was compiled."""
    source, arch = KERNELS[name]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kernel.ptx"
        command = ["nvcc", *FLAGS, f"-arch={arch}", "-ptx", source, "-o", str(target)]
        subprocess.run(command, cwd=ROOT, check=True)
        text = target.read_text()
    text = text.replace(f"{ROOT}/", "")
    return re.sub(r'"[^"]*/(targets|include)/', r'"cuda/\1/', text)


def provenance(name: str) -> str:
    source, arch = KERNELS[name]
    content = {"source": source, "arch": arch, "compiler": compiler(), "flags": FLAGS, "sha256": digests(name)}
    return json.dumps(content, indent=2) + "\n"


def text(shipped: Path) -> str:
    return lzma.decompress(shipped.read_bytes()).decode()


def code(text: str) -> str:
    """PTX without what nvcc hashes of the checkout's path: in internal names, and in the debug strings."""
    return re.sub(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}", r"\1", text.partition(".section\t.debug")[0])


def check() -> list[str]:
    """What is stale, in words."""
    problems = []
    for name in KERNELS:
        shipped, record = SHIPPED / f"{name}.ptx.xz", SHIPPED / f"{name}.json"
        if not shipped.exists() or not record.exists():
            problems.append(f"{name}: nothing is shipped")
        elif json.loads(record.read_text())["compiler"] != compiler():
            continue  # another compiler gives other PTX; the digests are checked without one
        elif record.read_text() != provenance(name) or code(text(shipped)) != code(ptx(name)):
            problems.append(f"{name}: the shipped PTX is not what its sources give")
    return problems


def build() -> None:
    SHIPPED.mkdir(exist_ok=True)
    for name in KERNELS:
        (SHIPPED / f"{name}.ptx.xz").write_bytes(lzma.compress(ptx(name).encode(), preset=9))
        (SHIPPED / f"{name}.json").write_text(provenance(name))
        print(f"{name}: {(SHIPPED / f'{name}.ptx.xz').stat().st_size:,} bytes")


if __name__ == "__main__":
    if "--check" not in sys.argv:
        build()
    elif problems := check():
        sys.exit("\n".join([*problems, "Run python csrc/kernels/build_ptx.py and commit what it writes."]))
