"""`Parting.trace` through asynchronous copies, matrix moves, tensor cores and tensor memory."""

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import sglab
from sglab import gpu
from sglab.emulator.captures import CapturedLaunch
from sglab.stepping.matrix_elements import element_types, shown_elements
from tests.support.corpus import sm80_launches, sm90_launches, sm100_launches
from tests.support.corpus.launch import ARCHITECTURES, Draw, Map, module, tensors
from tests.support.launches.mla_parts import mla_launches

LAUNCHES = {
    each.name: each
    for each in (*sm80_launches.launches("sm_80"), *sm90_launches.launches(), *sm100_launches.launches())
}
FAULTS = [
    # kernel, the instruction (which of those in the entry), its fault, opcodes that the way leads over
    ("cp_async_copy.sm_80", r"cp\.async\.cg\S+ \[%\w+\], \[%\w+(\])", 0, "+16]", ["ld.shared"]),
    ("tma_copy_2d_swizzle128.sm_90a", r"shared::cluster\S+ \[%\w+\], \[%\w+, ({%r2, %r4})", 0, "{%r4, %r2}",
     ["cp.async.bulk.tensor.2d.global.shared::cta", "cp.async.bulk.tensor.2d.shared::cluster"]),
    ("tma_copy_2d_swizzle32.sm_90a", r"shared::cluster\S+ \[%\w+\], \[%\w+, ({%r2, %r4})", 0, "{%r4, %r2}",
     ["ld.shared"]),
    ("wgmma_gemm.sm_90a", r"wgmma\.mma_async[^;]*, p, 1, (1), 0, 0;", 2, "-1", ["wgmma.mma_async"]),
    ("wgmma_gemm.sm_90a", r"shared::cluster\S+ \[%\w+\], \[%\w+, {%r\w+, (%r\w+)}", 3, "%r74", ["wgmma.mma_async"]),
    ("wgmma_register_a.sm_90a", r"ld\.global\.u16\s+%rs7, \[%rd18\+(272)\]", 0, "270", ["wgmma.mma_async"]),
    ("mma_gemm_f16.sm_80", r"ld\.global\.u16\s+%rs4, \[%rd13(\])", 0, "+2]", ["mma.sync", "ldmatrix", "st.shared"]),
    ("tcgen05_gemm_f16.sm_100a", r"shared::cluster\S+ \[%\w+\], \[%\w+, {%r\w+, (%r3)}", 1, "%r4",
     ["tcgen05.ld", "tcgen05.mma"]),
    ("tcgen05_gemm_f16.sm_100a", r"tcgen05\.mma\S+ \[%r2\], (%rd4)", 0, "%rd2", ["tcgen05.ld", "tcgen05.mma"]),
    ("tcgen05_a_in_tmem.sm_100a", r"ld\.global\.u16\s+%r43, \[%rd11\+(14)\]", 0, "12",
     ["tcgen05.ld", "tcgen05.mma", "tcgen05.st"]),
    ("multicast_cluster2.sm_90a", r"multicast::cluster \[%\w+\], \[%\w+, ({%r16, %r17})", 0, "{%r17, %r16}",
     ["ld.shared"]),
    ("cluster_exchange2.sm_90a", r"st\.shared\.u32\s+\[%r5\], (%r11)", 0, "%r14", ["ld.shared::cluster"]),
    ("cluster_exchange2.sm_90a", r"st\.async\S+ \[%r32\], (%r39)", 0, "%r31", ["ld.shared"]),
    ("bulk_copy.sm_90a", r"st\.shared\.f32\s+\[%r45\+1024\], (%f10)", 0, "%f9", ["cp.async.bulk.global.shared::cta"]),
    ("tma_reduce.sm_90a", r"st\.shared\.f32\s+\[%r6\], (%f3)", 0, "%f2", ["cp.reduce.async.bulk.tensor"]),
    ("tcgen05_gemm_pair.sm_100a", r"shared::cluster\S+ \[%\w+\], \[%\w+, {%r\w+, (%r3)}", 1, "%r6",
     ["tcgen05.ld", "tcgen05.mma"]),
    ("stmatrix_image.sm_90a", r"ld\.global\.u32\s+%r13, \[%rd12\+(4)\]", 0, "8", ["stmatrix"]),
]  # fmt: skip


def launch(case, text, arguments, device):
    given = [gpu.TensorMap(a.tensor, a.box[::-1], swizzle=a.swizzle) if isinstance(a, Map) else a for a in arguments]
    kernel = gpu.Module(text)[case.entry]
    return CapturedLaunch.prepared(
        device, kernel.prepare(device, case.grid, case.block, cluster=case.cluster, smem=case.smem, args=given)
    )


def traced(name, change):
    """The way back from where a corpus kernel and a changed one part."""
    case = LAUNCHES[name]
    text, device = module(case.module).ptx, gpu.EmulatedDevice(ARCHITECTURES[case.target])
    begin = text.index(f".entry {case.entry}(")
    end = text.find(".entry", begin + 8)
    end = len(text) if end < 0 else end
    wrong = text[:begin] + change(text[begin:end]) + text[end:]
    arguments = case.make(Draw(0))
    # The last tensor of the copies is an image of shared memory, the one before it a copy back by TMA.
    written = tensors(arguments)[: 2 if name == "tma_copy_2d_swizzle128.sm_90a" else None]
    named = {f"t{number}": each for number, each in enumerate(written)}
    made = [launch(case, each, arguments, device) for each in (text, wrong)]
    parting = sglab.compare(*made, tensors=named).parting
    assert parting is not None
    return parting.trace()


@pytest.mark.parametrize(("name", "pattern", "which", "fault", "over"), FAULTS)
def test_a_fault_behind_operations_is_named(name, pattern, which, fault, over) -> None:
    lines = []

    def change(entry):
        found = list(re.finditer(pattern, entry))[which]
        lines.append(entry[: found.start()].count("\n"))
        return entry[: found.start(1)] + fault + entry[found.end(1) :]

    found = traced(name, change)
    assert found.found, str(found)
    opcodes = [a.instruction.opcode for a, _ in found.steps]
    for opcode in over:
        assert any(each.startswith(opcode) for each in opcodes), (opcode, opcodes)
    case = LAUNCHES[name]
    text = module(case.module).ptx
    first = text[: text.index(f".entry {case.entry}(")].count("\n") + 1
    assert found.steps[-1][0].instruction.ptx_line == first + lines[0], str(found)


@pytest.mark.parametrize(
    ("arch", "right", "wrong", "over"),
    [
        # A tile of keys gets columns that are not its own.
        ("sm_90a", "[%r662], [%rd97, {%r663, ", "[%r662], [%rd97, {%r627, ", ["wgmma.mma_async"]),
        ("sm_100a", "[%rd119, {%r847, ", "[%rd119, {%r835, ", ["tcgen05.ld", "tcgen05.mma"]),
    ],
)
def test_our_mla_kernels_lead_back_to_the_copy_that_is_wrong(arch, right, wrong, over) -> None:
    (a, b), out = mla_launches(arch, [200], [lambda text: text, lambda text: text.replace(right, wrong)])
    parting = sglab.compare(a, b, tensors={"out": out}).parting
    assert parting is not None
    found = parting.trace()
    assert found.found and found.steps[-1][0].instruction.opcode.startswith("cp.async.bulk.tensor"), str(found)
    assert right in found.steps[-1][0].instruction.text and wrong in found.steps[-1][1].instruction.text
    opcodes = [each.instruction.opcode for each, _ in found.steps]
    for opcode in over:
        assert any(each.startswith(opcode) for each in opcodes), opcodes


def test_operands_of_a_matrix_product_are_read_as_their_elements() -> None:
    """Compilers declare them .b32, which says nothing."""
    found = traced("mma_gemm_f16.sm_80", lambda entry: re.sub(r"(ld\.global\.u16\s+%rs4, \[%rd13)\]", r"\1+2]", entry))
    product = next(a for a, _ in found.steps if a.instruction.opcode.startswith("mma.sync"))
    a, b, c = (re.findall(r"%\w+", operand) for operand in re.findall(r"{[^}]*}", product.instruction.text)[1:])
    for names, dtype in ((a, np.float16), (b, np.float16), (c, np.float32)):
        for name in names:
            word = np.asarray(product.value(name)).reshape(1)
            texts = [f"{float(each):.9g}" for each in word.view(dtype)]
            assert f"{name}={texts[0] if len(texts) == 1 else '(' + ', '.join(texts) + ')'}" in str(product)


@pytest.mark.parametrize(
    ("opcode", "text", "types"),
    [
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
            "{%r1, %r2}, {%r3, %r4}, {%r5}, {%r6, %r7};",
            "%r1 f32 %r2 f32 %r3 e4m3 %r4 e4m3 %r5 e5m2 %r6 f32 %r7 f32",
        ),
        (
            "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32",
            "{%r1}, {%r2}, {%r3}, {%r4};",
            "%r1 s32 %r2 s8 %r3 u8 %r4 s32",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16",
            "{%f1, %f2}, %rd1, %rd2, p, 1, 1, 0, 0;",
            "%f1 f32 %f2 f32",
        ),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", "{%f1}, {%r1}, %rd2, p, 1, 1, 0;", "%f1 f32 %r1 bf16"),
        ("add.f32", "%f1, %f2, %f3;", ""),
    ],
)
def test_element_types_are_those_of_the_mnemonic(opcode: str, text: str, types: str) -> None:
    words = types.split()
    assert element_types(opcode, f"@%p1 {opcode} {text}") == dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize(
    ("kind", "word", "shown"),
    [
        ("e4m3", 0xB8384000, "(0, 2, 1, -1)"),
        ("s8", 0xFF01, "(1, -1, 0, 0)"),
        ("bf16", 0x3F80, "(1, 0)"),
        ("b1", 3, None),
    ],
)
def test_elements_are_shown_from_the_lowest_bits(kind: str, word: int, shown: str | None) -> None:
    assert shown_elements(np.uint32(word), kind) == shown
