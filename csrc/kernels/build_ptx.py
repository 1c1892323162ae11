"""Compiles our kernels to the PTX that the package ships. After a change: python csrc/kernels/build_ptx.py [NAME ...]

With --check it writes nothing and fails where what is shipped is not what the sources give.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import lzma
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "sglab" / "kernels" / "ptx"
FLAGS = ("-std=c++20", "-O3", "-lineinfo")
CUTLASS = "nvidia-cutlass"
"""The package on PyPI whose headers are CuTe's; .ci/lint.py installs it, with --no-deps."""


@dataclass(frozen=True)
class Kernel:
    """What nvcc makes PTX of.

    source: from the repository's root; arch: its target; cutlass: whether it includes CuTe
    """

    source: str
    arch: str
    cutlass: bool = False


KERNELS = {
    "mla_decode_sm100": Kernel("csrc/kernels/sm100/mla_decode.cu", "sm_100a", cutlass=True),
    "mla_decode_sm90": Kernel("csrc/kernels/sm90/mla_decode.cu", "sm_90a"),
    "split_kv_combine": Kernel("csrc/kernels/portable/combine.cu", "sm_90"),
    "flash_mla_plan": Kernel("csrc/kernels/portable/flash_mla_plan.cu", "sm_80"),
    "merge": Kernel("csrc/kernels/portable/merge.cu", "sm_90"),
    "blackwell_tile": Kernel("csrc/kernels/lessons/blackwell_tile.cu", "sm_100a"),
    "faulty": Kernel("csrc/kernels/lessons/faulty.cu", "sm_90"),
    "faulty_attention": Kernel("csrc/kernels/lessons/faulty_attention.cu", "sm_90a"),
    "scores": Kernel("csrc/kernels/lessons/scores.cu", "sm_80"),
    "shared_storage": Kernel("csrc/kernels/lessons/shared_storage.cu", "sm_80"),
    "mma_fragments": Kernel("csrc/kernels/lessons/mma_fragments.cu", "sm_80"),
    "wgmma_tile": Kernel("csrc/kernels/lessons/wgmma_tile.cu", "sm_90a"),
    "tcgen05_tile": Kernel("csrc/kernels/lessons/tcgen05_tile.cu", "sm_100a"),
    "attention_tile": Kernel("csrc/kernels/lessons/attention_tile.cu", "sm_100a"),
    "tma_pipeline": Kernel("csrc/kernels/lessons/tma_pipeline.cu", "sm_90a"),
    "paged_decode": Kernel("csrc/kernels/portable/paged_decode.cu", "sm_80"),
}
"""A portable kernel's PTX runs on its target and everything newer."""


def compiler() -> str:
    """Such as "nvcc 13.0.88"."""
    output = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"V(\d+\.\d+\.\d+)", output)
    assert found is not None, output
    return f"nvcc {found[1]}"


def cutlass_headers() -> Path | None:
    """Where CuTe's headers are, if their package is installed; found without importing it."""
    spec = importlib.util.find_spec("cutlass_library")
    folders = [Path(root) / "source" / "include" for root in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if (folder / "cute").is_dir()), None)


def headers(kernel: Kernel) -> dict[str, str]:
    """The packages of headers that a kernel needs, with the versions that are installed."""
    if not kernel.cutlass:
        return {}
    return {CUTLASS: importlib.metadata.version(CUTLASS) if cutlass_headers() else "not installed"}


INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def sources(name: str) -> list[Path]:
    """The .cu file and the headers of ours that it includes, directly or not."""
    found: list[Path] = []
    open_ = [ROOT / KERNELS[name].source]
    while open_:
        path = open_.pop()
        if path in found:
            continue
        found.append(path)
        open_ += [(path.parent / each).resolve() for each in INCLUDE.findall(path.read_text())]
    return [found[0], *sorted(found[1:])]


def digests(name: str) -> dict[str, str]:
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sources(name)}


def ptx(name: str) -> str:
    """PTX whose source lines name the repository's own files, no matter where it was compiled."""
    kernel = KERNELS[name]
    include = cutlass_headers() if kernel.cutlass else None
    if kernel.cutlass and include is None:
        sys.exit(f"{name} needs CuTe's headers: pip install --no-deps {CUTLASS}")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kernel.ptx"
        options = [*FLAGS, f"-arch={kernel.arch}", *([f"-I{include}"] if include else [])]
        subprocess.run(["nvcc", *options, "-ptx", kernel.source, "-o", str(target)], cwd=ROOT, check=True)
        text = target.read_text()
    text = text.replace(f"{ROOT}/", "")
    if include:
        text = text.replace(f"{include}/", "cutlass/")
    return re.sub(r'"[^"]*/(targets|include)/', r'"cuda/\1/', text)


LAUNCH_SIZES = re.compile(r"// launch with (\d+) threads, (\d+) bytes")


def launch_sizes(ptx: str) -> dict[str, int]:
    """Threads and bytes of dynamic shared memory per CTA, where the source says so (csrc/kernels/launch_sizes.cuh)."""
    found = LAUNCH_SIZES.search(ptx)
    return {"threads": int(found[1]), "shared_bytes": int(found[2])} if found else {}


def provenance(name: str, ptx: str) -> str:
    kernel = KERNELS[name]
    content = {
        "source": kernel.source,
        "arch": kernel.arch,
        "compiler": compiler(),
        "flags": FLAGS,
        "headers": headers(kernel),
        **launch_sizes(ptx),
        "sha256": digests(name),
    }
    return json.dumps(content, indent=2) + "\n"


def text(shipped: Path) -> str:
    return lzma.decompress(shipped.read_bytes()).decode()


def code(text: str) -> str:
    """PTX without what nvcc hashes of the checkout's path: in internal names, and in the debug strings."""
    return re.sub(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}", r"\1", text.partition(".section\t.debug")[0])


def check(names: Iterable[str]) -> list[str]:
    """What is stale, in words."""
    return [f"{name}: {problem}" for name in names if (problem := stale(name))]


def stale(name: str) -> str | None:
    shipped, record = SHIPPED / f"{name}.ptx.xz", SHIPPED / f"{name}.json"
    if not shipped.exists() or not record.exists():
        return "nothing is shipped"
    made, now = json.loads(record.read_text()), json.loads(provenance(name, text(shipped)))
    tools = ("compiler", "headers")
    if {**made, **{tool: now[tool] for tool in tools}} != now:
        return "its sources or flags are not those that the shipped PTX was made of"
    if any(made[tool] != now[tool] for tool in tools):
        print(f"{name}: made with {made['compiler']} and {made['headers']}, not compared with what is here")
        return None
    return None if code(text(shipped)) == code(ptx(name)) else "the shipped PTX is not what its sources give"


def build(names: Iterable[str]) -> None:
    SHIPPED.mkdir(exist_ok=True)
    for name in names:
        made = ptx(name)
        (SHIPPED / f"{name}.ptx.xz").write_bytes(lzma.compress(made.encode(), preset=9))
        (SHIPPED / f"{name}.json").write_text(provenance(name, made))
        print(f"{name}: {(SHIPPED / f'{name}.ptx.xz').stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(KERNELS)}; none: all")
    parser.add_argument("--check", action="store_true", help="compare with what is shipped")
    options = parser.parse_args()
    if unknown := set(options.names) - set(KERNELS):
        parser.error(f"no kernel is called {', '.join(sorted(unknown))}; there are {', '.join(KERNELS)}")
    names = options.names or KERNELS
    if not options.check:
        build(names)
    elif problems := check(names):
        sys.exit("\n".join([*problems, "Run python csrc/kernels/build_ptx.py and commit what it writes."]))


if __name__ == "__main__":
    main()
