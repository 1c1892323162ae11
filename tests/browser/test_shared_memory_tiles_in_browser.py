"""SharedMemory's tiles in a real browser: both sides of a tile, its editors, banks, plain arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from playwright.sync_api import Locator, expect

import sglab
from sglab import gpu
from sglab._core import tensor
from sglab.labs.shared_memory import Prefill
from sglab.widgets import SharedMemory, selection
from tests.support.browser.shared_memory_pages import moments_of, show
from tests.support.browser.widget_host import Host
from tests.support.compilers import has_nvcc
from tests.support.launches.memory_sessions import corpus, mla_sm100, product
from tests.support.launches.shared_sum import SHARED_SUM


def test_a_box_is_in_memory_and_in_the_matrix(host: Host) -> None:
    widget = SharedMemory(mla_sm100(128))
    widget.go(moments_of(widget, "mma")[0])
    page = show(host, widget)
    expect(page.locator(".sg-badge")).to_have_text("emulated sm_100a")
    expect(page.get_by_label("Tile", exact=True)).to_have_value("0")
    go = page.get_by_label("Go to an address in shared memory")
    go.fill("smem+0x490")
    go.press("Enter")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("smem+0x490")
    expect(details).to_contain_text("row 1, column 0–7")  # row 1 of the pattern: chunks 0 and 1 change places
    expect(details).to_contain_text("bits 4–6 ^= bits 7–9: 0010000000 → 0010010000")
    expect(details).to_contain_text("(tensor + 1,024 B), at (…, 1, 0)")
    assert selection.value == {"address": "smem+0x490", "cta": 0, "launch": widget.launch_name}


def test_a_descriptor_is_edited_field_by_field_and_lights_up_other_bytes(host: Host) -> None:
    widget = SharedMemory(product().session)
    page = show(host, widget)
    page.get_by_role("tab", name="smem descriptor").click()
    whole = page.get_by_label("Descriptor, hexadecimal", exact=True)
    before = whole.input_value()
    assert int(before, 16) == int(widget.tiles[0]["bits"], 16)
    start = page.get_by_label("start address in bytes")
    start.fill("4096")
    start.press("Enter")
    expect(whole).to_have_value(f"{(int(before, 16) & ~0x3FFF) | 4096 >> 4:#018x}")
    expect(page.locator(".ssm-sides")).to_contain_text("smem+0x1000")
    whole.fill(f"{int(before, 16) | 3 << 61:#x}")
    whole.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Swizzle (bits 61–63) 3 is reserved")).to_be_visible()
    page.locator("[data-panel=descriptor]").get_by_label("swizzle").select_option("2")
    expect(page.get_by_role("alert").filter(has_text="reserved")).to_have_count(0)
    whole.fill("0x12345zz")
    whole.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="is not a hexadecimal number")).to_be_visible()
    start.fill("17")
    start.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="multiple of 16")).to_be_visible()


def test_the_instruction_descriptor_shapes_the_operand(host: Host) -> None:
    page = show(host, SharedMemory(product().session))
    page.get_by_role("tab", name="instruction descriptor").click()
    panel = page.locator("[data-panel=instruction]")
    expect(panel).to_contain_text("D (128×64 f32) += A (128×16 f16) · B (16×64 f16).")
    page.get_by_label("M / 16").fill("4")
    page.get_by_label("M / 16").press("Enter")
    expect(panel).to_contain_text("D (64×64 f32)")
    expect(page.locator(".ssm-row output")).to_have_text("128 of 128 chunks of 16 bytes")
    page.get_by_label("M / 16").fill("6")
    page.get_by_label("M / 16").press("Enter")
    expect(panel).to_contain_text("M = 96; expected 64 or 128 with cta_group::1")


def test_chunks_light_up_in_the_order_in_which_they_are_read(host: Host) -> None:
    host.page.emulate_media(reduced_motion="no-preference")
    page = show(host, SharedMemory(product().session))
    order = page.get_by_label("Chunks read so far")
    expect(order).to_have_value("256")
    page.get_by_role("button", name="Light up the chunks in the order").click()
    page.wait_for_function("Number(document.querySelector('.ssm-order').value) < 250")
    expect(order).to_have_value("256")
    order.fill("3")
    expect(page.locator(".ssm-row output")).to_have_text("3 of 256 chunks of 16 bytes")


def test_a_box_beyond_the_edge_says_what_is_filled_in(host: Host) -> None:
    page = show(host, SharedMemory(corpus("tma_copy_2d_corner.sm_90a")))
    page.get_by_role("tab", name="tensor map").click()
    x = page.get_by_label("coordinate 0")
    x.fill("-8")
    x.press("Enter")
    expect(page.locator(".sg-details")).to_contain_text("reach outside the tensor: they are filled in")
    page.get_by_label("boxDim[0]").fill("65")
    page.get_by_label("boxDim[0]").press("Enter")
    expect(page.get_by_role("alert").filter(has_text="boxDim[0] spans 130 bytes")).to_be_visible()


def test_a_plain_array_is_read_in_rows_of_its_pitch(host: Host) -> None:
    widget = SharedMemory(corpus("mma_gemm_f16.sm_80"))
    page = show(host, widget)
    expect(page.locator(".ssm-sides")).to_contain_text("As rows: a_tile")
    page.get_by_role("tab", name="plain array").click()
    page.get_by_label("row pitch in bytes").fill("32")
    page.get_by_label("row pitch in bytes").press("Enter")
    go = page.get_by_label("Go to an address in shared memory")
    (start,) = [area["start"] for area in widget.areas if area["name"] == "a_tile"]
    go.fill(f"smem+{start + 3 * 32 + 16:#x}")
    go.press("Enter")
    expect(page.locator(".sg-details")).to_contain_text("row 3, column 8–15")
    page.get_by_label("row pitch in bytes").fill("40")
    page.get_by_label("row pitch in bytes").press("Enter")
    expect(page.get_by_role("alert").filter(has_text="multiple of 16 bytes; got 40")).to_be_visible()


def test_banks_of_an_ldmatrix_that_just_ran(host: Host) -> None:
    widget = SharedMemory(corpus("mma_gemm_f16.sm_80"))
    opcodes = [widget.code[str(pc)]["opcode"] for pc in widget._traffic.moments[:, 3].tolist()]
    widget.go(next(i for i, name in enumerate(opcodes) if name.startswith("ldmatrix")) + 1)
    page = show(host, widget)
    page.get_by_role("tab", name="banks").click()
    expect(page.locator(".ssm-verdict").first).to_have_text("A 2-way bank conflict: 8 passes instead of 4.")
    expect(page.locator(".ssm-banks tbody tr")).to_have_count(4)


def test_every_instruction_is_counted_as_it_ran_and_permuted(host: Host) -> None:
    """The linear prefill: 32 passes for an ldmatrix, 4 had its rows been permuted, on the page as in Python."""
    widget = SharedMemory(Prefill("linear", keys=64).session())
    page = show(host, widget)
    page.get_by_role("tab", name="banks").click()
    rows = page.locator(".ssm-instructions tbody tr")
    expect(rows).to_have_count(len(widget.banks))
    expect(rows.first).to_contain_text("ldmatrix.m8n8.x4.shared.b16")
    expect(rows.first.locator("td").nth(4)).to_have_text("▲ 128")
    page.get_by_label("Beside it, permuted by").select_option("256B_rows")
    expect(rows.first.locator("td").nth(6)).to_have_text("16")
    rows.first.get_by_role("button").click()
    expect(page.locator("output.sg-sentence")).to_contain_text("reads shared memory: ldmatrix")
    verdicts = page.locator("[data-panel=banks] .ssm-verdict")
    expect(verdicts.first).to_have_text("An 8-way bank conflict: 32 passes instead of 4.")
    expect(verdicts.last).to_have_text("No bank conflict: 4 passes through the 32 banks.")
    assert widget.session.now == widget.banks[0]["first"] + 1
    expect(page.locator(".ssm-instructions tr.ssm-present")).to_have_count(1)


STRUCTS = """
struct Record { int i; int pad; float v; signed char c; };
extern "C" __global__ void records(const float* x, int* out) {
    __shared__ Record r[32];
    __shared__ int sum;
    int t = threadIdx.x;
    if (t == 0) sum = 0;
    r[t].i = t + 3; r[t].v = x[t]; r[t].c = (signed char)-t;
    __syncthreads();
    Record& o = r[31 - t];
    atomicAdd(&sum, o.i * 5 + (int)(o.v * 3.0f) + o.c);
    __syncthreads();
    out[t] = sum;
}
"""


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
def test_structs_are_read_member_by_member_and_lanes_that_change_one_word_take_turns(host: Host) -> None:
    x = torch.arange(32) / 4
    widget = SharedMemory(sglab.step(sglab.cuda(STRUCTS)["records"][1, 32], x, torch.zeros(32, dtype=torch.int32)))
    (at,) = [area["start"] for area in widget.areas if area["name"] == "r"]
    page = show(host, widget)
    page.locator(".sg-widget").press("End")
    go = page.get_by_label("Go to an address in shared memory")
    go.fill(f"smem+0x{at + 16 * 5:x}")
    go.press("Enter")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("as s32+?+f32+s8")
    expect(details).to_contain_text("8  ··  1.25  −5  ··")  # padding holds nothing
    page.get_by_role("tab", name="banks").click()
    worst = page.locator(".ssm-instructions tbody tr").first
    expect(worst).to_contain_text("atom.shared.add.u32")
    expect(worst.locator("td").nth(4)).to_have_text("▲ 32")
    worst.get_by_role("button").click()
    expect(page.locator(".ssm-verdict").first).to_have_text(
        "32 lanes change the same word one after the other: 32 passes instead of 1."
    )


def test_what_a_permutation_would_cost_most_leads_the_list_and_an_access_shows_its_banks(host: Host) -> None:
    """The permuted prefill, permuted once more: its ldmatrix would be the worst, and all four phases are in sight."""
    widget = SharedMemory(Prefill("permuted", keys=64).session())
    host.page.set_viewport_size({"width": 1300, "height": 780})
    page = show(host, widget)
    page.get_by_role("tab", name="banks").click()
    permuted = page.get_by_label("Beside it, permuted by")
    rows = page.locator(".ssm-instructions tbody tr")
    permuted.select_option("")
    expect(rows.first).to_contain_text("ld.shared.v2.f32")
    permuted.select_option("256B_rows")
    expect(rows.first).to_contain_text("ldmatrix")
    rows.nth(9).get_by_role("button").click()
    present = page.locator(".ssm-instructions tr.ssm-present")
    expect(present).to_have_count(1)
    assert inside(present, ".ssm-tall") and inside(page.locator(".ssm-banks").first, "[data-panel=banks]")


def inside(inner: Locator, outer: str) -> bool:
    """Whether `inner` lies whole within what is seen of the box around it."""
    return bool(
        inner.evaluate(
            """(element, outer) => {
              const [a, b] = [element, element.closest(outer)].map((each) => each.getBoundingClientRect());
              return a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
            }""",
            outer,
        )
    )


def test_a_plain_array_shows_the_permutation_that_the_kernel_made(host: Host) -> None:
    prefill = Prefill("permuted", keys=64)
    widget = SharedMemory(prefill.session())
    widget.go(len(widget._moments))
    page = show(host, widget)
    page.get_by_role("tab", name="plain array").click()
    page.get_by_label("row pitch in bytes").fill("256")
    page.get_by_label("row pitch in bytes").press("Enter")
    page.get_by_label("chunks", exact=True).select_option("256B_rows")
    elements = page.get_by_label("elements", exact=True)
    said = page.locator("[data-panel=array] .smv-note")
    expect(said).to_contain_text("f32")  # as which the union is written last: sums of the warps
    elements.select_option("f16")  # as which K lay there
    go = page.get_by_label("Go to an address in shared memory")
    go.fill(f"smem+{0x400 + 5 * 256 + 6 * 16:#x}")  # row 5, place 6
    go.press("Enter")
    expect(page.locator(".sg-details")).to_contain_text("row 5, column 24–31")  # chunk 3
    expect(page.locator(".sg-details")).to_contain_text("chunk ^= row mod 8 in rows of 256 B")
    expect(page.locator(".sg-details")).to_contain_text("chunk 3 of 128 bytes is at place 6 = 3 ^ 5")


@pytest.mark.parametrize(("row", "column"), [(12, 5), (99, 15)])
def test_an_element_is_found_by_row_and_column(host: Host, row: int, column: int) -> None:
    """Its address is that of its chunk, by the emulator's arithmetic, and its value is the matrix's."""
    made = product(128)
    widget = SharedMemory(made.session)
    widget.go(moments_of(widget, "mma")[0])
    page = show(host, widget)
    (tile,) = [each for each in widget.tiles if each["operand"] == "A"]
    page.get_by_label("Tile", exact=True).select_option(str(tile["id"]))
    go = page.get_by_label("Go to an address in shared memory")
    go.fill(f"[{row}, {column}]")
    go.press("Enter")
    chunk = tensor.chunk_address(int(tile["bits"], 16), False, row, column // 8)
    details = page.locator(".sg-details")
    expect(details).to_contain_text(f"smem+{chunk + 2 * (column % 8):#x}, bank {(chunk + 2 * (column % 8)) % 128 // 4}")
    assert selection.value["address"] == f"smem+{chunk:#x}"
    held = details.locator("dd").filter(has_text="holds").inner_text().split("holds ")[1]
    expected = float(made.operands.a_raw.view(np.float16)[row, column])
    assert float(held.replace("−", "-")) == pytest.approx(expected, rel=1e-2)
    page.locator(".sg-widget").press("Home")
    expect(details).to_contain_text("never written")
    expect(details).not_to_contain_text("holds")
    go.fill("128, 0")
    go.press("Enter")
    expect(
        page.get_by_role("alert").filter(has_text="no element [128,0]: it has m 0 to 127, k 0 to 15")
    ).to_be_visible()


def test_values_have_a_legend_of_their_own(host: Host) -> None:
    widget = SharedMemory(product(128, nan_row=3).session)
    widget.go(moments_of(widget, "mma")[0])
    page = show(host, widget)
    key = page.locator(".ssm-row").filter(has_text="now:")
    expect(key).to_contain_text("16-byte chunk of the matrix row")
    page.locator(".sg-widget").press("v")
    expect(key).to_contain_text(
        "the first of a chunk, two where there is room; colour: the first, or NaN among them all"
    )
    expect(key).to_contain_text("f16 ≤ −4")
    expect(key).not_to_contain_text("16-byte chunk of the matrix row")
    page.locator(".sg-widget").press("v")
    expect(key).to_contain_text("16-byte chunk of the matrix row")


def test_an_edited_descriptor_says_so_and_can_be_undone(host: Host) -> None:
    widget = SharedMemory(product(128).session)
    page = show(host, widget)
    page.get_by_role("tab", name="smem descriptor").click()
    undo = page.get_by_role("button", name="Show it as the launch has it")
    expect(undo).to_be_hidden()
    height = page.locator(".sg-view").evaluate("e => e.clientHeight")
    stride = page.get_by_label("stride byte offset (SBO) in bytes")
    stride.fill("0x200")  # half of what eight rows of 128 bytes take
    stride.press("Enter")
    expect(stride).to_have_value("512")
    expect(page.locator(".sg-details")).to_contain_text("is m4·c0, too. An offset is too small.")
    stride.press("ArrowUp")
    expect(stride).to_have_value("528")
    page.locator("[data-panel=descriptor]").get_by_label("swizzle").select_option("1")
    expect(page.locator(".ssm-error").filter(has_text="needs an MN-major operand")).to_be_visible()
    assert page.locator(".sg-view").evaluate("e => e.clientHeight") >= height  # nothing jumps up
    undo.click()
    expect(undo).to_be_hidden()
    expect(stride).to_have_value("1024")
    expect(page.locator(".sg-details")).not_to_contain_text("too small")


def test_the_array_that_is_open_at_first_has_the_type_of_its_accesses(host: Host) -> None:
    kernel = gpu.Module(SHARED_SUM, "sum.ptx")["shared_sum"]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=64, args=[torch.zeros(64)])
    page = show(host, SharedMemory(session))
    page.get_by_role("tab", name="plain array").click()
    expect(page.locator("[data-panel=array] .smv-note")).to_contain_text(
        "Elements as the instructions say that compute with them: f32."
    )


SEVERAL = """.version 8.8
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 mem[];
.visible .entry several(.param .u64 out)
{
.reg .b32 %r<9>;
mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2; mov.u32 %r2, mem; add.u32 %r1, %r1, %r2;
mov.b32 %r3, 0x3c00bc00; add.f16x2 %r4, %r3, %r3;
st.shared.b32 [%r1], %r4;
mov.b32 %r5, 0x3fc00000; add.f32 %r6, %r5, %r5;
st.shared.b32 [%r1+128], %r6;
mov.b32 %r7, 7; st.shared.b32 [%r1+256], %r7;
ret;
}
"""


def test_dynamic_shared_memory_has_each_part_in_its_own_type(host: Host) -> None:
    kernel = gpu.Module(SEVERAL, "several.ptx")["several"]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, smem=384, args=[torch.zeros(64)])
    page = show(host, SharedMemory(session, tab="array"))
    widget, details = page.locator(".sg-widget"), page.locator(".sg-details")
    said = page.locator("[data-panel=array] .smv-note")
    expect(said).to_contain_text("f16, f32; in hexadecimal where none says it.")
    widget.press("v")  # also where a launch has no tiles
    expect(page.get_by_role("button", name="values")).to_have_attribute("aria-pressed", "true")
    widget.press("End")
    key = page.locator(".ssm-row").filter(has_text="now:")
    expect(key).to_contain_text("f16 ≤ −2")
    expect(key).to_contain_text("f32 ≤ 3")
    go = page.get_by_label("Go to an address in shared memory")
    for address, shown in (
        ("0x400", "−2 2 −2 2"),
        ("0x480", "3 3 3 3"),
        ("0x500", "no instruction says what they hold"),
    ):
        go.fill(f"smem+{address}")
        go.press("Enter")
        expect(details).to_contain_text(re.compile(r"\s+".join(shown.split())))
    page.get_by_role("button", name="f32, smem+0x480 to smem+0x500: show them alone").click()
    expect(page.locator(".sg-heading").filter(has_text="In memory")).to_contain_text("smem+0x480 to smem+0x500")
    expect(said).to_contain_text(": f32.")
    page.keyboard.press("Home")  # the pressed button is still there, and so is the focus
    expect(page.locator(".sg-transport")).to_contain_text("step 0 of 3")
    page.get_by_role("button", name="All parts together").click()
    expect(said).to_contain_text("f16, f32")
