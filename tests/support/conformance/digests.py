"""The results of every conformance form and of mma.sync on random bits, as digests: the same on any host.

`python -m tests.support.conformance.digests` prints them as JSON, for the instruction set that SGLAB_ISA names.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sglab import _core
from tests.support.emulator.launching import launch
from tests.support.emulator.powers import arguments_of_ex2

from . import compare, convert, floating, integer
from .case import DTYPES, Case


@dataclass(frozen=True)
class Job:
    """A kernel of one entry whose parameters are pointers to its inputs and to its result, then a count.

    name: what it is
    ptx: the module
    inputs: read-only arrays, in the order of the parameters
    result_bytes: size of the result
    count: the last parameter, u32
    grid, block: CTAs and threads along x
    """

    name: str
    ptx: str
    inputs: tuple[np.ndarray, ...]
    result_bytes: int
    count: int
    grid: int
    block: int

    def run(self) -> bytes:
        result = np.full(self.result_bytes, 0x55, np.uint8)
        arguments = [*self.inputs, result, ("u", self.count)]
        launch(self.ptx, arguments, grid=(self.grid, 1, 1), block=(self.block, 1, 1))
        return result.tobytes()


def digest(result: bytes) -> str:
    return hashlib.blake2b(result, digest_size=8).hexdigest()


def of_case(case: Case) -> Job:
    inputs = case.inputs(np.random.default_rng(zlib.crc32(case.form.encode())))
    count = len(inputs[0])
    size = count * DTYPES[case.result]().itemsize
    return Job(case.form, case.ptx(), inputs, size, count, -(-count // 128), 128)


MATRICES = {
    # Instruction: registers of D, A, B, C, and their bits.
    "m16n8k16.row.col.f32.f16.f16.f32": (4, 4, 2, 4, 32),
    "m16n8k16.row.col.f16.f16.f16.f16": (2, 4, 2, 2, 32),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (4, 4, 2, 4, 32),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (4, 4, 2, 4, 32),
    "m16n8k32.row.col.f32.e4m3.e4m3.f32": (4, 4, 2, 4, 32),
    "m16n8k32.row.col.f32.e5m2.e5m2.f32": (4, 4, 2, 4, 32),
    "m16n8k32.row.col.s32.s8.s8.s32": (4, 4, 2, 4, 32),
    "m8n8k4.row.col.f64.f64.f64.f64": (2, 1, 1, 2, 64),
}


def of_matrix(name: str, registers: tuple[int, int, int, int, int], warps: int = 64) -> Job:
    """One mma.sync per warp on random bits, infinities, NaN and numbers of every size among them."""
    *counts, bits = registers
    letters = "dabc"
    lines = ["mov.u32 %i, %ctaid.x;", "shl.b32 %i, %i, 5;", "mov.u32 %t, %tid.x;", "add.s32 %i, %i, %t;"]
    lists = {}
    for letter, count in zip(letters, counts, strict=True):
        lists[letter] = "{" + ", ".join(f"%{letter}{k}" for k in range(count)) + "}"
        lines.append(f"ld.param.u64 %p{letter}, [p_{letter}];")
        lines.append(f"mad.wide.u32 %p{letter}, %i, {count * bits // 8}, %p{letter};")
        if letter != "d":
            lines += [f"ld.global.b{bits} %{letter}{k}, [%p{letter} + {k * bits // 8}];" for k in range(count)]
    lines.append(f"mma.sync.aligned.{name} {lists['d']}, {lists['a']}, {lists['b']}, {lists['c']};")
    lines += [f"st.global.b{bits} [%pd + {k * bits // 8}], %d{k};" for k in range(counts[0])]
    declared = " ".join(f".reg .b{bits} %{letter}<{count}>;" for letter, count in zip(letters, counts, strict=True))
    ptx = (
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry multiply("
        + ", ".join(f".param .u64 p_{letter}" for letter in "abcd")
        + ", .param .u32 p_n)\n{ .reg .b32 %i, %t; .reg .b64 %pa, %pb, %pc, %pd; "
        + declared
        + "\n"
        + "\n".join(lines)
        + "\nret; }\n"
    )
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    inputs = []
    for count in counts[1:]:
        values = rng.integers(0, 1 << 32, (warps, 32, count * bits // 32), dtype=np.uint32)
        if ".f32." in name and bits == 32:  # half of the warps without the top exponents, so that sums stay finite
            values[::2] &= np.uint32(0xBFFFBFFF if "bf16" in name or "tf32" in name else 0xBFBFBFBF)
        inputs.append(values)
    size = warps * 32 * counts[0] * bits // 8
    return Job("mma " + name, ptx, tuple(inputs), size, 0, warps, 32)


def jobs() -> Iterator[Job]:
    for family in (integer, floating, convert, compare):
        for case in family.cases():
            yield of_case(case)
            if case.form.startswith("ex2."):
                x = arguments_of_ex2()
                yield Job(case.form + " near middles", case.ptx(), (x,), x.nbytes, len(x), len(x) // 128, 128)
    for name, registers in MATRICES.items():
        yield of_matrix(name, registers)


def main() -> None:
    print(json.dumps({"isa": _core.active_isa(), "digests": {job.name: digest(job.run()) for job in jobs()}}))


if __name__ == "__main__":
    main()
