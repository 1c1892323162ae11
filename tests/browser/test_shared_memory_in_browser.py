"""SharedMemory in a real browser: both sides of a tile, decoders, banks, cp.async groups, a saved page.

The page's own address arithmetic is held against the emulator's on random descriptors, swizzles and tensor maps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from playwright.sync_api import Browser, Page, expect

from sglab import gpu
from sglab._core import tensor, tma
from sglab.emulator.bank_conflicts import PERMUTATIONS, permute
from sglab.events.shared_memory import KINDS, SWIZZLES
from sglab.labs.shared_memory import PagedDecode, Prefill
from sglab.widgets import SharedMemory, selection
from tests.support.browser.drawings import count_drawings, drawings
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more
from tests.support.launches.memory_sessions import corpus, mla_sm90, mla_sm100, no_tensor_memory, product
from tests.support.launches.shared_sum import SHARED_SUM

MMA_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
ARITHMETIC = "sglabHost.modules.get('shared_memory').arithmetic"


def moments_of(widget: SharedMemory, kind: str) -> list[int]:
    return (np.flatnonzero(widget._traffic.moments[:, 4] == KINDS.index(kind)) + 1).tolist()


def show(host: Host, widget: SharedMemory) -> Page:
    host.show(widget)
    expect(host.page.locator(".sg-cells canvas").first).to_be_visible()
    more(host.page.locator(".sg-widget"))
    return host.page


@pytest.fixture
def arithmetic(host: Host) -> Page:
    return show(host, SharedMemory(corpus("wgmma_gemm.sm_90a")))


def refusing(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ValueError:
        return None


def random_descriptor(draw: random.Random, flavour: str) -> int:
    bits = draw.getrandbits(14) | draw.getrandbits(14) << 16 | draw.getrandbits(14) << 32
    bits |= draw.choice([0, 0, 0, draw.getrandbits(3)]) << 49
    if flavour == "wgmma":
        return bits | draw.getrandbits(2) << 62
    version = draw.choice([1] * 9 + [draw.getrandbits(3)])
    return bits | version << 46 | draw.choice([0, 1, 2, 4, 6, 2, 4, 6, 3]) << 61


def test_shared_memory_descriptors_are_decoded_as_the_emulator_does(arithmetic: Page) -> None:
    draw = random.Random()
    cases = []
    for _ in range(400):
        flavour, major = draw.choice(["tcgen05", "wgmma"]), draw.choice(["K", "MN"])
        places = [(draw.randrange(256), draw.randrange(32)) for _ in range(8)]
        cases.append((random_descriptor(draw, flavour), flavour, major, places))
    found = arithmetic.evaluate(
        f"""(cases) => cases.map(([bits, flavour, major, places]) => {{
          try {{
            const decoded = {ARITHMETIC}.decodeSmemDescriptor(BigInt(bits), flavour);
            const address = {ARITHMETIC}.chunkAddresses(decoded, major);
            return places.map(([line, chunk]) => address(line, chunk));
          }} catch {{ return null; }}
        }})""",
        [[str(bits), flavour, major, places] for bits, flavour, major, places in cases],
    )
    accepted = 0
    for (bits, flavour, major, places), got in zip(cases, found, strict=True):
        expected = refusing(
            lambda b=bits, f=flavour, m=major, p=places: [tensor.chunk_address(b, m == "MN", *at, f) for at in p]
        )
        assert got == expected, (hex(bits), flavour, major)
        accepted += got is not None
    assert accepted > 200


def test_instruction_descriptors_are_decoded_as_the_emulator_does(arithmetic: Page) -> None:
    draw = random.Random()
    cases = []
    for _ in range(1500):
        kind = draw.choice(MMA_KINDS)
        types = {"f16": (0, 1), "tf32": (2, 2), "i8": (0, 1)}.get(kind, (0, 1))
        bits = draw.choice([draw.getrandbits(32), draw.getrandbits(32) & ~0xC0001FFF])
        bits = bits & ~0x1FF0 | draw.choice(types) << 7 | draw.choice(types) << 10 | draw.choice([0, 1, 2]) << 4
        cases.append((bits & ~0x800000 | draw.getrandbits(1) << 23, kind, draw.choice([1, 2])))
    found = arithmetic.evaluate(
        f"""(cases) => cases.map(([bits, kind, group]) => {{
          try {{
            const d = {ARITHMETIC}.decodeInstructionDescriptor(bits, kind);
            const types = [d.aType, d.bType, d.dType, d.aMajor, d.bMajor];
            const values = [d.m, d.n, d.k, ...types, d.negateA, d.negateB, d.sparse];
            return [values, {ARITHMETIC}.shapeProblem(d, kind, group) === ""];
          }} catch {{ return null; }}
        }})""",
        cases,
    )
    names = ("m", "n", "k", "a_type", "b_type", "d_type", "a_major", "b_major", "negate_a", "negate_b", "sparse")
    accepted = 0
    for (bits, kind, group), got in zip(cases, found, strict=True):
        decoded = refusing(lambda b=bits, k=kind: tensor.instruction_descriptor(k, b))
        expected = decoded and [
            [decoded[name] for name in names],
            tensor.check_mma_shape(kind, bits, group) == "",
        ]
        assert got == expected, (hex(bits), kind, group)
        accepted += got is not None
    assert accepted > 200


def test_swizzles_permute_as_the_emulators(arithmetic: Page) -> None:
    draw = random.Random()
    cases = [(draw.randrange(len(SWIZZLES)), draw.randrange(1 << 18)) for _ in range(1000)]
    found = arithmetic.evaluate(
        f"([names, cases]) => cases.map(([s, a]) => {ARITHMETIC}.swizzleAddress(names[s], a))", [SWIZZLES, cases]
    )
    assert found == [tma.swizzle_address(swizzle, address) for swizzle, address in cases]


def random_map(draw: random.Random) -> dict[str, Any]:
    """Of 16-bit elements in memory that begins at 0; now and then one that the encoder refuses."""
    rank = draw.randint(1, 4)
    dims = [draw.randint(8, 80), *(draw.randint(1, 6) for _ in range(rank - 1))]
    strides, packed = [], -(-dims[0] * 2 // 16) * 16
    for dim in dims[1:]:
        strides.append(packed if draw.random() < 0.95 else packed + 8)
        packed *= dim
    swizzle = draw.randint(0, 3)
    inner = draw.choice([8, 16, 24, 32, 64, 12]) if draw.random() < 0.3 else min(64, (8, 16, 32, 64)[swizzle])
    return {
        "dims": dims,
        "strides": strides,
        "box": [inner, *(draw.randint(1, 5) for _ in range(rank - 1))],
        "elementStrides": [1, *(draw.choice([1, 1, 2]) for _ in range(rank - 1))],
        "elementBits": 16,
        "swizzle": swizzle,
    }


def test_boxes_take_and_leave_the_bytes_that_the_emulator_moves(arithmetic: Page) -> None:
    draw = random.Random()
    cases = []
    for _ in range(120):
        fields = random_map(draw)
        at = [draw.randint(-12, 60), *(draw.randint(-2, 5) for _ in fields["dims"][1:])]
        cases.append((fields, at, draw.randrange(8) * 1024 + draw.choice([0, 128, 512])))
    found = arithmetic.evaluate(
        f"""(cases) => cases.map(([map, at, base]) =>
          {ARITHMETIC}.mapProblems(map).length ? null : {ARITHMETIC}.boxChunks(map, at, base))""",
        cases,
    )
    moved = 0
    for (fields, at, base), chunks in zip(cases, found, strict=True):
        encode = [fields[name] for name in ("dims", "strides", "box", "elementStrides")]
        encoded = refusing(lambda e=encode, f=fields: tma.encode_tiled(6, 0x10000, *e, swizzle=f["swizzle"]))
        assert (encoded is None) == (chunks is None), fields
        if chunks is None:
            continue
        size = 16 + sum(s * (d - 1) for s, d in zip(fields["strides"], fields["dims"][1:], strict=True))
        size += fields["dims"][0] * 2
        memory = np.random.default_rng(draw.getrandbits(30)).integers(1, 255, size, dtype=np.uint8)
        smem = np.zeros(1 << 17, np.uint8)
        tma.copy_box("load", encoded, at, memory, 0x10000, smem, base)
        expected = np.zeros_like(smem)
        for chunk in chunks:
            first = at[0] + chunk["chunk"] * 8
            skipped = max(0, -first)
            if chunk["inside"]:
                begin = chunk["global"]
                part = memory[begin : begin + 2 * chunk["inside"]]
                expected[chunk["address"] + 2 * skipped : chunk["address"] + 2 * skipped + len(part)] = part
        np.testing.assert_array_equal(smem, expected, err_msg=str((fields, at, base)))
        moved += 1
    assert moved > 40


def test_bank_conflicts_of_known_accesses(arithmetic: Page) -> None:
    lanes = range(32)
    patterns = {
        "a row": ([4 * lane for lane in lanes], 4, (1, 1)),
        "one word for all": ([64] * 32, 4, (1, 1)),
        "a column of 128-byte rows": ([128 * lane for lane in lanes], 4, (32, 1)),
        "every other word": ([8 * lane for lane in lanes], 4, (2, 1)),
        "padded rows": ([132 * lane for lane in lanes], 4, (1, 1)),
        "16 bytes a lane": ([16 * lane for lane in lanes], 16, (4, 4)),
        "ldmatrix without a swizzle": ([128 * lane for lane in lanes], 16, (32, 4)),
        "ldmatrix with the 128-byte swizzle": ([tma.swizzle_address(3, 128 * lane) for lane in lanes], 16, (4, 4)),
    }
    for name, (addresses, size, expected) in patterns.items():
        use = arithmetic.evaluate(f"([a, b]) => {ARITHMETIC}.bankUse(a, -1, b)", [addresses, size])
        assert (use["passes"], use["least"]) == expected, name


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
    assert selection.value == {"address": "smem+0x490", "cta": 0}


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


def test_the_page_permutes_as_python_does(arithmetic: Page) -> None:
    draw = random.Random()
    cases = [(draw.choice([*PERMUTATIONS]), draw.randrange(1 << 18)) for _ in range(500)]
    found = arithmetic.evaluate(f"(cases) => cases.map(([s, a]) => {ARITHMETIC}.swizzleAddress(s, a))", cases)
    assert found == [int(permute(np.array([address]), name)[0]) for name, address in cases]


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
    expect(elements).to_have_value("f32")  # as which the union is written last: sums of the warps
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
        "f16: the first of a chunk, two where there is room; colour: the first, or NaN among them all"
    )
    expect(key).to_contain_text("≤ −4")
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


def test_a_step_is_one_drawing(host: Host) -> None:
    """The rows that were looked at come with the step, and its own selection draws nothing again."""
    widget = SharedMemory(product(128).session)
    page = show(host, widget)
    count_drawings(page)
    page.get_by_label("follow steps").uncheck()  # another tile needs rows that have not been looked at
    settled(page)
    for step in range(1, 6):
        drawings(page)
        page.locator(".sg-widget").press("ArrowRight")
        expect(page.locator(".sg-counter")).to_contain_text(f"step {step:,} of")
        settled(page)
        assert drawings(page) == 2  # the two grids


CHANGES = """() => {
  window.changes = [];
  const named = ({ className, tagName, parentElement }) => className || `${parentElement.className} ${tagName}`;
  new MutationObserver((records) => {
    for (const { type, target, attributeName } of records)
      if (type === "childList" || /^(width|height)$/.test(attributeName))
        window.changes.push([target.closest?.("[data-panel]")?.dataset.panel ?? "", named(target)].join(" ").trim());
  }).observe(document.querySelector(".sg-widget"), { childList: true, subtree: true, attributes: true });
}"""


def test_a_step_to_another_tile_changes_only_what_differs_in_the_page(host: Host) -> None:
    # each replaced text and rebuilt panel costs a layout, each resized canvas its memory
    widget = SharedMemory(mla_sm100())
    page = show(host, widget)
    page.get_by_label("Step size").select_option("mma")
    page.keyboard.press("ArrowRight")
    settled(page)
    frame, tile = page.locator(".sg-widget"), page.get_by_label("Tile", exact=True)
    before = tile.input_value()
    page.evaluate(CHANGES)
    while tile.input_value() == before:
        frame.press("ArrowRight")
        settled(page)
    changed = set(page.evaluate("window.changes"))
    assert "sg-counter" in changed  # what the step has changed is seen
    assert not changed & {"sg-title", "sg-subject", "sg-badge", "sg-cells-content CANVAS"}
    assert not [name for name in changed if name.startswith(("descriptor", "instruction", "map", "array", "banks"))]


@pytest.mark.parametrize(("width", "height"), [(970, 900), (1410, 900), (1890, 1050)])
def test_the_tile_leaves_room_for_what_is_below_it(host: Host, width: int, height: int) -> None:
    host.page.set_viewport_size({"width": width, "height": height})
    host.show(SharedMemory(mla_sm100()))
    view = host.page.locator(".sg-view")
    expect(view.locator(".sg-cells canvas").first).to_be_visible()
    settled(host.page)
    assert view.evaluate("e => e.scrollHeight - e.clientHeight") <= 1


def test_cp_async_groups_are_followed_from_commit_to_wait(host: Host) -> None:
    widget = SharedMemory(PagedDecode(tokens=40).session(), tab="groups")
    page = show(host, widget)
    expect(page.get_by_role("tab", name="cp.async groups")).to_have_attribute("aria-selected", "true")
    panel = page.locator("[data-panel=groups]")
    expect(panel.locator(".ssm-verdict")).to_have_text("These threads have closed no group yet.")
    first = panel.get_by_role("button", name="wait 3").first
    first.click()
    expect(panel.locator(".ssm-verdict")).to_contain_text("Done now: group 0 (512 bytes).")
    expect(panel.locator(".ssm-verdict")).to_contain_text("May still be in flight: groups 1, 2 and 3 (1,536 bytes).")
    expect(panel.locator("th[aria-current=step]")).to_have_text("wait 3")
    assert widget.session.now == widget.pipelines[0]["waits"][0]["event"] + 1
    present = panel.locator("tbody td.ssm-present")
    states = ["done", "flying", "flying", "flying"]
    assert present.evaluate_all("all => all.map(one => one.dataset.state)")[:4] == states
    expect(panel.locator("tfoot td.ssm-present")).to_have_text("3")
    panel.get_by_label("Threads").select_option(label="warp 3, lanes 0–31")
    expect(panel.locator("caption")).to_contain_text("warp 3, lanes 0–31")
    page.locator(".sg-widget").press("Home")
    expect(panel.locator(".ssm-verdict")).to_have_text("These threads have closed no group yet.")


def test_bytes_never_written_are_named_and_hatched(host: Host) -> None:
    widget = SharedMemory(PagedDecode(tokens=8).session(), tab="array")
    page = show(host, widget)
    go = page.get_by_label("Go to an address in shared memory")
    go.fill("smem+0x400")
    go.press("Enter")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("never written")
    empty = page.locator(".sg-cells canvas").first.screenshot()
    page.get_by_label("Step size").select_option("group")
    for _ in range(40):
        page.locator(".sg-widget").press("ArrowRight")
    expect(details).to_contain_text("as f32")  # sums of the warps lie there at the end
    page.get_by_role("tab", name="plain array").click()
    elements = page.get_by_label("elements", exact=True)
    expect(elements).to_have_value("f32")
    page.locator(".sg-widget").press("Home")
    expect(elements).to_have_value("f16")
    elements.select_option("bf16")
    page.locator(".sg-widget").press("End")
    expect(details).to_contain_text("as bf16")  # what a reader picks stays
    expect(details).not_to_contain_text("never written")
    assert page.locator(".sg-cells canvas").first.screenshot() != empty


def test_without_cp_async_the_tab_says_so(host: Host) -> None:
    page = show(host, SharedMemory(product().session))
    page.get_by_role("tab", name="cp.async groups").click()
    expect(page.locator("[data-panel=groups]")).to_contain_text("No warp of this CTA executes cp.async.")


def test_stepping_tiles_and_moments_with_keys(host: Host) -> None:
    widget = SharedMemory(mla_sm90())
    page = show(host, widget)
    frame, tile = page.locator(".sg-widget"), page.get_by_label("Tile", exact=True)
    frame.press("]")
    expect(tile).to_have_value("1")
    frame.press("[")
    expect(tile).to_have_value("0")
    frame.press("ArrowRight")
    expect(page.locator(".sg-counter")).to_contain_text("step 1 of")
    assert widget.session.now == widget._moments[0] + 1
    page.get_by_label("Step size").select_option("mma")
    frame.press("ArrowRight")
    expect(page.locator("output.sg-sentence")).to_contain_text("issues wgmma.mma_async")
    expect(page.locator("output.sg-sentence")).to_contain_text("which reads A at smem+")
    mma = widget._traffic.moments[widget.moment - 1]
    expect(tile).to_have_value(str(mma[5]))  # each step opens the tile that it reads
    page.get_by_label("follow steps").uncheck()
    frame.press("ArrowRight")
    expect(page.locator(".sg-counter")).to_contain_text(f"step {widget.moment:,} of")
    expect(tile).to_have_value(str(mma[5]))
    frame.press("v")
    expect(page.get_by_role("button", name="values")).to_have_attribute("aria-pressed", "true")


def test_the_help_lists_each_key_once(host: Host) -> None:
    page = show(host, SharedMemory(product().session))
    page.locator(".sg-widget").press("?")
    keys = page.get_by_role("dialog").locator("kbd").all_inner_texts()
    assert keys.count("[") == keys.count("]") == 1 and len(keys) == len(set(keys))
    expect(page.get_by_role("row", name="] next tile")).to_be_visible()


def test_grids_are_walked_with_the_keyboard(host: Host) -> None:
    page = show(host, SharedMemory(product().session))
    grid = page.locator(".sg-cells").first
    grid.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".sg-spoken").first).to_contain_text("m 1, k 8–15")
    page.keyboard.press("Enter")
    assert selection.value["address"].startswith("smem+0x")
    page.keyboard.press("Escape")
    assert selection.value == {}


def test_a_saved_page_decodes_and_steps_without_python(page: Page, tmp_path: Path) -> None:
    widget = SharedMemory(mla_sm100(256), saved_moments=3)
    widget.go(moments_of(widget, "mma")[0])
    path = widget.save(tmp_path / "smem.html")
    assert path.stat().st_size < 5 << 20
    page.goto(path.as_uri())
    expect(page.locator(".sg-cells canvas").first).to_be_visible()
    page.locator(".sg-widget").press("End")
    expect(page.locator(".sg-counter")).to_contain_text("event")
    page.get_by_role("tab", name="smem descriptor").click()
    start = page.get_by_label("start address in bytes")
    start.fill("2048")
    start.press("Enter")
    expect(page.locator(".ssm-sides")).to_contain_text("smem+0x800")


def test_a_kernel_without_shared_memory_and_another_version_are_explained_in_sentences(host: Host) -> None:
    host.show(SharedMemory(no_tensor_memory()))
    expect(host.page.locator(".sg-placeholder")).to_contain_text("has no shared memory")
    other = SharedMemory(product().session)
    other.version = 99
    host.show(other, "other")
    expect(host.page.locator("#other").get_by_role("alert")).to_contain_text("format 99")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_for_axe(host: Host, axe: Callable[[Page], list[str]], scheme: str) -> None:
    host.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    widget = SharedMemory(PagedDecode(tokens=40).session())
    widget.go(60)
    page = show(host, widget)
    for name in ("smem descriptor", "instruction descriptor", "tensor map", "plain array", "banks", "cp.async groups"):
        page.get_by_role("tab", name=name).click()
        assert [each for each in axe(page) if each.startswith(("serious", "critical"))] == [], name


def test_a_disposed_view_leaves_nothing_behind(host: Host) -> None:
    widget = SharedMemory(product().session)
    page = show(host, widget)
    page.evaluate("document.getElementById('widget').sglabDispose()")
    assert page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0


def test_the_array_that_is_open_at_first_has_the_type_of_its_accesses(host: Host) -> None:
    kernel = gpu.Module(SHARED_SUM, "sum.ptx")["shared_sum"]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=64, args=[torch.zeros(64)])
    page = show(host, SharedMemory(session))
    page.get_by_role("tab", name="plain array").click()
    expect(page.get_by_label("elements", exact=True)).to_have_value("f32")


def test_where_there_is_nothing_to_show_nothing_is_taught_and_no_control_is_empty(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1000, "height": 800}, offline=True)
    page = context.new_page()
    Host(page).show(SharedMemory(no_tensor_memory()))
    expect(page.locator(".sg-placeholder")).to_contain_text("no shared memory")
    expect(page.locator(".sg-tour")).to_be_hidden()
    expect(page.locator(".sg-legend")).to_be_hidden()
    expect(page.get_by_label("Tile", exact=True)).to_be_hidden()
    expect(page.get_by_label("CTA", exact=True)).to_have_value("0")
    context.close()
