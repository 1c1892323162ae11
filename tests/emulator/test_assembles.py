"""ptxas takes every form that conformance cases use, and the emulator refuses by name what ptxas refuses."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sglab import _core
from tests.support.conformance import compare, convert, floating, integer
from tests.support.conformance.case import Case
from tests.support.emulator.launching import HEADER

CASES = [case for family in (integer, floating, convert, compare) for case in family.cases()]
TARGETS = {"sm_90": ("sm_80", "sm_89", "sm_90"), "sm_100": ("sm_100",)}
INTEGERS = [f"{kind}{bits}" for bits in (8, 16, 32, 64) for kind in "us"]
REGISTERS = {8: "%w", 16: "%h", 32: "%w", 64: "%l"}


def assembled(ptx: str, arch: str, folder: Path) -> str:
    """What ptxas has to say; nothing if it takes the text."""
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("ptxas is not on PATH")
    source = folder / "forms.ptx"
    source.write_text(ptx)
    command = [ptxas, f"-arch={arch}", "-O0", "-o", str(folder / "forms.cubin"), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def together(cases: list[Case], arch: str) -> str:
    """One module with a kernel per case."""
    kernels = []
    for k, case in enumerate(cases):
        kernel = case.ptx()[case.ptx().index(".visible") :]
        kernels.append(re.sub(r"\bconform\b", f"conform_{k}", kernel))
    return f".version 8.8\n.target {arch}\n.address_size 64\n" + "\n".join(kernels)


@pytest.mark.parametrize("arch", TARGETS)
def test_ptxas_takes_every_conformance_form(arch: str, tmp_path: Path) -> None:
    cases = [case for case in CASES if case.target in TARGETS[arch]]
    assert cases
    assert assembled(together(cases, arch), arch, tmp_path) == ""


def kernel_of(form: str) -> str:
    return (
        HEADER
        + ".visible .entry k() { .reg .pred %p, %q; .reg .b16 %h, %g; .reg .b32 %w, %v; .reg .b64 %l, %m;"
        + f" .reg .f32 %f; .reg .f64 %d;\n {form}\n ret; }}\n"
    )


def limits(kind: str) -> range:
    bits = int(kind[1:])
    return range(1 << bits) if kind[0] == "u" else range(-(1 << (bits - 1)), 1 << (bits - 1))


def saturating() -> list[str]:
    """cvt.sat to types that have every value of the source."""
    forms = []
    for to in INTEGERS:
        for source in INTEGERS:
            low, high = limits(source)[0], limits(source)[-1]
            if low in limits(to) and high in limits(to):
                d, a = REGISTERS[int(to[1:])], REGISTERS[int(source[1:])]
                forms.append(f"cvt.sat.{to}.{source} {d}, {a};")
    return forms


TAP = "[%l, {%v, %v, %v, %v}]"
REFUSED = [
    *saturating(),
    "setp.lt.f16 %p|%q, %h, %g;",
    "setp.nan.bf16 %p|%q, %h, %g;",
    "set.lt.f32.f16 %f, %h, %g;",
    "cvt.sat.f64.bf16 %d, %h;",
    "cvt.rn.sat.bf16.f64 %h, %d;",
    "lop3.and.b32 %w, %v, %v, %v, 0x80, %p;",
    "lop3.or.b32 %w|_, %v, %v, %v, 0x80, %p;",
    "lop3.xor.b32 %w|%q, %v, %v, %v, 0x80, %p;",
    "tcgen05.mma.cta_group::1.kind::f16.ashift [%w], %l, %m, %v, %p;",
    "tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::fill [%w], [%w], %m, %v, %p;",
    "tcgen05.mma.ws.cta_group::1.kind::f16.ashift [%w], [%w], %m, %v, %p;",
    f"cp.async.bulk.tensor.4d.global.shared::cta.im2col::w.bulk_group {TAP}, [%w];",
    f"cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes [%w], {TAP}, [%w], {{%h}};",
    f"cp.async.bulk.prefetch.tensor.4d.L2.global.im2col::w::128 {TAP}, {{%h, %g, %h}};",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.im2col::w [%l, {%v, %v}], {%h, %g};",
]
TAKEN = [
    "lop3.and.b32 _|%q, %v, %w, 7, 0x1f0, !%p;",
    "lop3.b32.or %w|%q, %v, %v, %v, -1, 1;",
    *(
        f"tcgen05.mma{sparse}.cta_group::{group}.kind::{kind}.ashift{collector} [%w], [%w], %m,"
        f"{' [%v],' if sparse else ''} %v, %p;"
        for sparse in ("", ".sp")
        for group in (1, 2)
        for kind in ("f16", "tf32", "f8f6f4", "i8")
        for collector in ("", ".collector::a::lastuse", ".collector::a::discard")
    ),
    *(
        f"cp.async.bulk.tensor.4d.shared::{space}.global.im2col::{mode}.mbarrier::complete_tx::bytes{more} [%w], {TAP},"
        f" [%v], {{%h, 2}}{operands};"
        for mode in ("w", "w::128")
        for space, more, operands in (
            ("cta", "", ""),
            ("cta", ".cta_group::2.L2::cache_hint", ", %m"),
            ("cluster", ".multicast::cluster", ", %g"),
            ("cluster", ".multicast::cluster.cta_group::2.L2::cache_hint", ", %g, %m"),
        )
    ),
    *(
        f"cp.async.bulk.prefetch.tensor.4d.L2.global.im2col::{mode}{hint} {TAP}, {{1, %g}}{operand};"
        for mode in ("w", "w::128")
        for hint, operand in (("", ""), (".L2::cache_hint", ", %m"))
    ),
]


@pytest.mark.parametrize("form", TAKEN)
def test_what_ptxas_takes_for_sm_100a_is_known(form: str, tmp_path: Path) -> None:
    assert _core.Module(kernel_of(form), "k.ptx").kernel("k").unsupported == []
    assert assembled(kernel_of(form), "sm_100a", tmp_path) == ""


@pytest.mark.parametrize("form", REFUSED)
def test_what_ptxas_refuses_is_refused_by_name(form: str, tmp_path: Path) -> None:
    (complaint,) = _core.Module(kernel_of(form), "k.ptx").kernel("k").unsupported
    assert form.split()[0] in complaint
    assert "error" in assembled(kernel_of(form), "sm_100a", tmp_path)
