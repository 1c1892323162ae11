"""NVIDIA's CUDA samples: whole programs that check themselves, with the runtime's streams, graphs, events and memory.

They are on no index: clone https://github.com/NVIDIA/cuda-samples and name the folder in CUDA_SAMPLES. Those that draw,
need several GPUs or a library beside the toolkit, or compare nothing are left out; so are those with textures, surfaces
and launches from kernels, but for one of each, which shows how they are refused.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sglab.compilers.cache import cached, content_key
from tools.compatibility.case import Case, Check, RefusedError
from tools.compatibility.families import AbsentError, Family
from tools.compatibility.meter import Meter
from tools.compatibility.programs import program

FOLDER = "CUDA_SAMPLES"
_SOURCES = (".cu", ".cpp", ".cuh", ".h")


@dataclass(frozen=True)
class _Sample:
    """A sample and how it is made small.

    Attributes:
        name: its folder.
        passed: what it prints once it is content; empty where its exit status alone says so.
        arguments: of its command line.
        sizes: constants of its source and what stands in their place.
        sms: SMs of the GPU; None for all.
        options: of nvcc.
        faults: a kernel of it is meant to fault.
    """

    name: str
    passed: str = ""
    arguments: tuple[str, ...] = ()
    sizes: Mapping[str, str] = field(default_factory=dict)
    sms: int | None = None
    options: tuple[str, ...] = ()
    faults: bool = False


_TILES = {"M_TILES": "16", "N_TILES": "16", "K_TILES": "8", "CPU_DEBUG": "1"}
_GEMM = r"(?s)Verifying correctness(?!.*mismatch)"
_PRODUCT = ("-wA=64", "-hA=64", "-wB=64", "-hB=64")
_SAMPLES = (
    _Sample("0_Introduction/asyncAPI"),
    _Sample("0_Introduction/cudaOpenMP", options=("-Xcompiler", "-fopenmp")),
    _Sample("0_Introduction/fp16ScalarProduct", "PASSED"),
    _Sample("0_Introduction/matrixMul", "Result = PASS", _PRODUCT),
    _Sample("0_Introduction/mergeSort", "OK", sizes={"N": "65536"}),
    _Sample("0_Introduction/simpleAWBarrier", "returned OK", sms=4),
    _Sample("0_Introduction/simpleAssert", "returned OK", faults=True),
    _Sample("0_Introduction/simpleAtomicIntrinsics", "returned OK"),
    _Sample("0_Introduction/simpleCallback", "Success"),
    _Sample("0_Introduction/simpleCooperativeGroups", r"(?s)2016 \(expected 2016\)(.*120 \(expected 120\)){4}"),
    _Sample("0_Introduction/simpleMultiCopy", "", sizes={"N": "1 << 14"}),
    _Sample("0_Introduction/simpleOccupancy", "Test PASSED"),
    _Sample("0_Introduction/simplePrintf", r"^(?s:(?!.*Value is:(?!10\n)).*?)(?:\[\d+, \d+\]:\t\tValue is:10\s+){32}$"),
    _Sample("0_Introduction/simpleSurfaceWrite"),
    _Sample("0_Introduction/simpleTemplates", "Compare OK"),
    _Sample("0_Introduction/simpleTexture"),
    _Sample("0_Introduction/simpleVoteIntrinsics", "OK"),
    _Sample("0_Introduction/simpleZeroCopy"),
    _Sample("0_Introduction/systemWideAtomics", "returned OK"),
    _Sample("0_Introduction/template"),
    _Sample("0_Introduction/vectorAdd", "Test PASSED"),
    _Sample("2_Concepts_and_Techniques/convolutionSeparable", "Test passed", sizes={"imageW": "256", "imageH": "192"}),
    _Sample("2_Concepts_and_Techniques/inlinePTX", "Test Successful"),
    _Sample("2_Concepts_and_Techniques/reduction", "Test passed", ("--n=65536",)),
    _Sample("2_Concepts_and_Techniques/reductionMultiBlockCG", "", ("--n=65536",), sms=4),
    _Sample("2_Concepts_and_Techniques/scalarProd", "Test passed"),
    _Sample("2_Concepts_and_Techniques/scan", "", sizes={"N": "13 * 65536 / 2", "iCycles": "1"}),
    _Sample("2_Concepts_and_Techniques/segmentationTreeThrust"),
    _Sample("2_Concepts_and_Techniques/shfl_scan"),
    _Sample("2_Concepts_and_Techniques/sortingNetworks", "OK", sizes={"N": "8192"}),
    _Sample("2_Concepts_and_Techniques/streamOrderedAllocation", "PASSED"),
    _Sample("2_Concepts_and_Techniques/threadFenceReduction", "", ("--n=65536",)),
    _Sample("3_CUDA_Features/bf16TensorCoreGemm", _GEMM, sizes=_TILES, sms=4),
    _Sample("3_CUDA_Features/cdpSimplePrint", options=("-rdc=true", "-lcudadevrt")),
    _Sample("3_CUDA_Features/cudaTensorCoreGemm", _GEMM, sizes=_TILES, sms=4),
    _Sample("3_CUDA_Features/dmmaTensorCoreGemm", _GEMM, sizes={**_TILES, "K_TILES": "16"}, sms=4),  # its CHUNK_K
    _Sample("3_CUDA_Features/globalToShmemAsyncCopy", "Result = PASS", _PRODUCT, sizes={"nIter": "1"}),
    _Sample("3_CUDA_Features/graphMemoryNodes", "Validation PASSED", sizes={"NUM_ELEMENTS": "80000"}),
    _Sample("3_CUDA_Features/immaTensorCoreGemm", _GEMM, sizes=_TILES, sms=4),
    _Sample("3_CUDA_Features/jacobiCudaGraphs", "PASSED"),
    _Sample("3_CUDA_Features/newdelete", "3/3"),
    _Sample("3_CUDA_Features/tf32TensorCoreGemm", _GEMM, sizes=_TILES, sms=4),
    _Sample("3_CUDA_Features/warpAggregatedAtomicsCG", "CPU max matches GPU max", sizes={"NUM_ELEMS": "100000"}),
    _Sample("4_CUDA_Libraries/conjugateGradientMultiBlockCG", "PASSED", sizes={"N": "4096"}, sms=4),
    _Sample("5_Domain_Specific/BlackScholes", "Test passed", sizes={"OPT_N": "40000", "NUM_ITERATIONS": "1"}),
    _Sample("5_Domain_Specific/binomialOptions", "Test passed", sizes={"MAX_OPTIONS": "32"}),
    _Sample("5_Domain_Specific/dxtc", "Test passed"),
    _Sample("5_Domain_Specific/fastWalshTransform", "Test passed", sizes={"log2Data": "14"}),
    _Sample("5_Domain_Specific/quasirandomGenerator", "", sizes={"N": "16384", "numIterations": "1"}),
    _Sample("5_Domain_Specific/SobolQRNG", "", ("--vectors=10000", "--dimensions=20")),
    _Sample("6_Performance/LargeKernelParameter", "Test passed", sizes={"TEST_ITERATIONS": "2"}),
    _Sample("6_Performance/alignedTypes", "Test passed", sizes={"MEM_SIZE": "500000", "NUM_ITERATIONS": "1"}),
    _Sample("6_Performance/transpose", "Test passed", ("-dimX=128", "-dimY=128"), sizes={"NUM_REPS": "1"}),
)


def family() -> Family:
    folder = Path(os.environ.get(FOLDER, ""))
    if not os.environ.get(FOLDER) or not (folder / "Samples").is_dir():
        raise AbsentError(f"clone https://github.com/NVIDIA/cuda-samples and set {FOLDER} to its folder")
    versions = re.findall(r"^### CUDA ([\d.]+)", (folder / "CHANGELOG.md").read_text(), re.MULTILINE)
    version = f"cuda-samples {versions[0] if versions else ''}".strip()
    return Family("CUDA samples", version, [_case(folder, sample) for sample in _SAMPLES])


def _case(folder: Path, sample: _Sample) -> Case:
    place = folder / "Samples" / sample.name
    cut = "".join(f", {name} = {value}" for name, value in sample.sizes.items())
    few = f", {sample.sms} SMs" if sample.sms else ""
    kernel = " ".join((place.name, *sample.arguments)) + cut + few

    def run(meter: Meter) -> list[Check]:
        at = _smaller(place, sample.sizes)
        own, others = _sources(at)
        data = [at / "data"] if (at / "data").is_dir() else []
        case = program(
            kernel,
            own,
            sample.arguments,
            sample.passed,
            [folder / "Common", *(at / name for name in ("inc",) if (at / name).is_dir())],
            _ARCH,
            ("-lpthread", *sample.options),
            others,
            data,
            sample.sms,
            sample.faults,
        )
        return case.run(meter)

    return Case(kernel, run, _ARCH, "the program's own reference")


_ARCH = "sm_90a"


def _sources(place: Path) -> tuple[Path, list[Path]]:
    """The file with `main`, and the others that are compiled with it: those that none includes."""
    files = sorted(path for pattern in ("*.cu", "*.cpp", "src/*.cu", "src/*.cpp") for path in place.glob(pattern))
    texts = {path: path.read_text(errors="replace") for path in files}
    included = {Path(name).name for text in texts.values() for name in re.findall(r'#include ["<]([^">]+)', text)}
    own = next(path for path, text in texts.items() if re.search(r"\bmain\(", text))
    return own, [path for path in files if path != own and path.name not in included]


def _smaller(place: Path, sizes: Mapping[str, str]) -> Path:
    """The sample's folder, or a copy of it in the cache whose constants are others.

    Raises:
        RefusedError: it has no such constant.
    """
    if not sizes:
        return place
    texts = {path: path.read_text(errors="replace") for path in sorted(place.rglob("*")) if path.suffix in _SOURCES}
    changed = dict(texts)
    for name, value in sizes.items():
        constant = re.compile(
            rf"(^[ \t]*#define[ \t]+{name}[ \t]+|\b{name}[ \t]*=[ \t]*)(?:(?!//)[^;\n])+", re.MULTILINE
        )
        found = next((path for path, text in changed.items() if constant.search(text)), None)
        if found is None:
            raise RefusedError(f"{place.name} has no constant {name}")
        changed[found] = constant.sub(rf"\g<1>{value}", changed[found], count=1)

    def build(folder: Path) -> None:
        shutil.copytree(place, folder, dirs_exist_ok=True)
        for path, text in changed.items():
            (folder / path.relative_to(place)).write_text(text)

    return cached("compatibility-sources", content_key(str(place), *changed.values()), build)
