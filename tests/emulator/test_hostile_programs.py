"""Programs that reach for what they may not: an error by name, and a process that lives."""

import struct

import pytest

from tests.support.emulator.alone import run_alone

REGISTERS = """.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 128 .b8 sm[2048]; .shared .align 8 .b64 mb;
"""


def entry(body: str, parameters: str = "") -> str:
    return f".visible .entry k({parameters}) {{ {REGISTERS} {body} ret; }}\n"


ONE_THREAD = "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 exit; "
BARRIER = ONE_THREAD + "mbarrier.init.shared.b64 [mb], 1; mbarrier.arrive.expect_tx.shared.b64 _, [mb], 16; "
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p2, [mb], 0; @!%p2 bra W; "
COLUMNS = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb], 512; "


@pytest.mark.parametrize(
    "copy",
    [
        "cp.async.cg.shared.global [sm], [%rd1], 16; cp.async.wait_all;",
        BARRIER + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd1], 16, [mb]; " + WAIT,
        ONE_THREAD + "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 16; "
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];",
        "atom.global.add.u64 %rd2, [%rd1+8], %rd1;",
    ],
)
def test_an_address_whose_end_wraps_is_out_of_bounds(copy: str) -> None:
    assert run_alone(entry("mov.u64 %rd1, -16; " + copy)).kind == "out_of_bounds"


def tensor_map(element_stride: int = 1, **raw: int) -> bytes:
    """A 2-D map of bytes at address 4096, changed behind the validator's back."""
    from sglab import _core

    data = bytearray(_core.tma.encode_tiled(0, 4096, [64, 32], [64], [64, 8], [1, 1]))
    for byte, value in raw.items():
        data[int(byte[1:])] = value
    return bytes(data)


MAP = ".param .align 64 .b8 map[128]"
LOAD = (
    BARRIER + "mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1; "
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd1, {0, 0}], [mb]; " + WAIT
)


def test_a_tensor_map_may_be_any_128_bytes() -> None:
    # Byte 8 has the kind and the rank, 8 and 9 the type, 9 the interleave, 10 a swizzle of 96 bytes, 11 nothing known.
    for change in ({"b8": 0}, {"b8": 0x72}, {"b8": 0x92, "b9": 7}, {"b9": 0x18}, {"b10": 0x40}, {"b11": 200}):
        outcome = run_alone(entry(LOAD, MAP), parameters=tensor_map(**change))
        assert outcome.kind == "tensor_map", (change, outcome)


@pytest.mark.parametrize("base", [2**64 - 16, 2**64 - 64, 2**63, 0])
def test_a_box_whose_end_wraps_is_out_of_bounds(base: int) -> None:
    moved = {f"b{byte}": value for byte, value in enumerate(base.to_bytes(8, "little"))}
    assert run_alone(entry(LOAD, MAP), parameters=tensor_map(**moved)).kind == "out_of_bounds"


def test_an_element_stride_of_zero_is_refused_when_the_map_is_used() -> None:
    body = ONE_THREAD + "mov.u64 %rd1, sm; mov.b32 %r2, 0; "
    body += "tensormap.replace.tile.rank.shared::cta.b1024.b32 [sm], 1; "
    body += "tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [sm], 1, 0; "
    body += "cvta.shared.u64 %rd1, %rd1; "
    body += "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%rd1, {0, 0}], [mb]; "
    assert run_alone(entry(body)).kind == "tensor_map"


def test_im2col_offsets_are_counted() -> None:
    body = ONE_THREAD + "mov.u64 %rd1, sm; "
    copy = "cp.async.bulk.tensor.{}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [sm], "
    for rank, offsets in ((4, 6), (4, 1), (3, 2), (5, 40)):
        names = ", ".join(["%h1"] * offsets)
        text = copy.format(rank) + f"[%rd1, {{{', '.join(['0'] * rank)}}}], [mb], {{{names}}}; "
        outcome = run_alone(entry(body + text))
        assert outcome.kind == "launch" and f"expected {rank - 2} im2col offsets" in outcome.text, outcome


@pytest.mark.parametrize("split", [-1, -1000, -60000, 512, 100000])
@pytest.mark.parametrize(
    "form", ["ld.sync.aligned.16x32bx2.x1.b32 {%r3}, [%r2], S", "st.sync.aligned.16x32bx2.x1.b32 [%r2], S, {%r3}"]
)
def test_a_half_split_leaves_no_column(split: int, form: str) -> None:
    outcome = run_alone(
        entry(f"mov.b32 %r2, 60000; tcgen05.{form.replace('S', str(split))}; tcgen05.wait::st.sync.aligned;")
    )
    assert outcome.kind == "launch" and "the half split must be 0 to 511" in outcome.text, outcome


@pytest.mark.parametrize("lane", [97, 128, 0xFFE0, 0xFFFF])
def test_tcgen05_shift_stays_within_the_lanes(lane: int) -> None:
    body = COLUMNS + f"mov.b32 %r2, {lane << 16}; " + ONE_THREAD + "tcgen05.shift.cta_group::1.down [%r2]; exit; "
    outcome = run_alone(entry(body))
    assert outcome.kind == "tensor_memory" and "lane" in outcome.text, outcome


def test_wgmma_of_two_shapes_does_not_share_accumulators() -> None:
    d = "{%r1, %r2, %r3, %r4}"
    body = "mov.u64 %rd1, 64; mov.u64 %rd2, 64; "
    body += f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {d}, %rd1, %rd2, 0, 1, 1, 0, 0; "
    body += f"wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {d}, %rd1, %rd2, 0, 1, 1, 0, 0; "
    body += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; "
    outcome = run_alone(entry(body), block=(128, 1, 1))
    assert outcome.kind == "tensor_core" and "another shape" in outcome.text, outcome


@pytest.mark.parametrize(
    "instruction",
    [
        "cp.async.wait_group -1",
        "cp.async.wait_group 65536",
        "cp.async.bulk.wait_group -1",
        "wgmma.wait_group.sync.aligned 8",
        "wgmma.wait_group.sync.aligned -1",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, %rd1, %rd2, 0, 1, 1, 7, 0",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [sm], -3, %r1",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [sm], 4294967296, %r1",
    ],
)
def test_an_immediate_outside_its_range_is_refused(instruction: str) -> None:
    outcome = run_alone(entry(instruction + "; "))
    assert outcome.kind == "launch" and "must be" in outcome.text, outcome


@pytest.mark.parametrize("address", ["0xa76a215629d84c00", "0x7fffffffffffff00", "0xffffffffffffff00", "0x100000000"])
@pytest.mark.parametrize("sanitize", [False, True])
def test_a_shared_address_of_64_bits_is_no_pointer_before_it_is_checked(address: str, sanitize: bool) -> None:
    """A build with UBSan sees the pointer."""
    for access in ("ld.shared.u32 %r2, [%rd1];", "st.shared.v4.b32 [%rd1], {%r1, %r1, %r1, %r1};"):
        outcome = run_alone(entry(f"mov.b64 %rd1, {address}; {access}"), sanitize=SANITIZERS if sanitize else ())
        assert outcome.kind == "out_of_bounds", outcome


def test_more_initial_values_than_elements() -> None:
    text = ".visible .func f() { ret; }\n"
    values = ", ".join(["f"] * 100_000)
    for size in ("0", "1", "99999", "0][5"):
        outcome = run_alone(text + f".global .align 8 .b64 x[{size}] = {{{values}}};\n" + entry(""))
        assert outcome.kind == "PtxError" and "more initial values than elements" in outcome.text, outcome


def test_an_array_takes_no_memory_before_it_is_touched() -> None:
    arrays = "".join(f".global .b8 x{i}[1000000000] = {{1, 2, 3}};\n" for i in range(4))
    text = ".global .u32 end; " + arrays + entry("ld.global.u8 %r1, [x3+2]; st.global.u8 [x0+999999999], %r1;")
    outcome = run_alone(text)
    assert outcome.kind == "done" and outcome.peak < 1 << 30, (outcome, outcome.peak)
    shared = "".join(f".shared .b8 x{i}[1073741824] = {{0}};\n" for i in range(4))
    outcome = run_alone(shared + entry(""))
    assert outcome.kind == "PtxError" and "initial values" in outcome.text and outcome.peak < 1 << 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ".extern .shared .align 2147483648 .b8 dyn[];" + entry(""),
            ".align must be a power of two up to 4096",
        ),
        (".global .align 0 .b8 x;" + entry(""), ".align must be a power of two"),
        (entry("", ".param .align 3 .b8 x[8]"), ".align must be a power of two"),
        (entry("", ".param .align 0 .b8 x[8]"), ".align must be a power of two"),
        (entry("", ".param .b8 x[4294967296]"), "a kernel gets at most 32764"),
        (entry("", ".param .b8 x[32000], .param .b8 y[1000]"), "a kernel gets at most 32764"),
        (entry(".local .b8 x[600000]; mov.u64 %rd1, x;"), "524288 bytes of local memory"),
        (
            entry(".local .b8 x[300000]; .local .b8 y[300000]; mov.u64 %rd1, x; mov.u64 %rd1, y;"),
            "524288 bytes of local",
        ),
        (entry(".reg .b32 %a<1048577>;"), "registers must be at most 1048576"),
        (entry("".join(f".reg .b32 %x{c}<1048576>;" for c in "abcdefghij")), "more than a million registers"),
        (
            "".join(f".func f{i}() {{ .reg .b32 %x<1048576>; ret; }}\n" for i in range(20)) + entry(""),
            "than the text can name",
        ),
        (".global .b8 x[0f40000000];" + entry(""), "a constant must be an integer"),
        (".visible .entry k() .reqntid 4294967297 { ret; }", "a size must be at most 4294967295"),
        (entry("") + "\0" + entry(""), "byte 0x00"),
    ],
)
def test_what_no_gpu_has_is_refused(text: str, message: str) -> None:
    outcome = run_alone(text)
    assert outcome.kind in ("PtxError", "launch") and message in outcome.text, outcome
    assert outcome.peak < 1 << 30


CALLS = """
.visible .func (.param .b64 out) twice(.param .b64 x)
{ .reg .b64 %a; ld.param.b64 %a, [x]; add.s64 %a, %a, %a; st.param.b64 [out], %a; ret; }
"""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (".param .b32 a; .param .b64 r; call (r), twice, (a);", "argument 1 has 4 bytes, not 8"),
        (".param .b64 a; .param .b32 r; call (r), twice, (a);", "result 1 has 4 bytes, not 8"),
        (".param .b64 a; .param .b64 b; .param .b64 r; call (r), twice, (a, b);", "2 arguments, not 1"),
        (".param .b64 a; call twice, (a);", "0 results, not 1"),
        (".param .b32 a; .param .b32 r; call (r), vprintf, (a, a);", "argument 1 has 4 bytes, not 8"),
    ],
)
def test_a_call_fits_its_function(arguments: str, message: str) -> None:
    printf = ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
    outcome = run_alone(printf + CALLS + entry(f"{{ {arguments} }}"))
    assert outcome.kind == "launch" and message in outcome.text, outcome


def test_an_indirect_call_fits_its_function() -> None:
    body = "{ .param .b32 a; .param .b64 r; mov.u64 %rd1, twice; P: .callprototype (.param .b64 _) _ (.param .b32 _); "
    outcome = run_alone(CALLS + entry(body + "call (r), %rd1, (a), P; }"))
    assert outcome.kind == "call" and "argument 1 has 4 bytes, not 8" in outcome.text, outcome


def test_a_kernels_parameter_is_an_argument() -> None:
    body = "{ .param .b64 r; call (r), twice, (x); ld.param.b64 %rd1, [r]; } setp.ne.s64 %p1, %rd1, 42; @%p1 trap; "
    outcome = run_alone(CALLS + entry(body, ".param .b64 x"), parameters=struct.pack("<q", 21))
    assert outcome.kind == "done", outcome


def test_parameters_handed_on_in_another_order() -> None:
    swap = """
    .visible .func (.param .b32 out) minus(.param .b32 x, .param .b32 y, .param .b32 again)
    { .reg .b32 %r<4>; .reg .pred %p; .param .b32 no; .param .b32 r;
      ld.param.b32 %r1, [again]; setp.eq.s32 %p, %r1, 0; @%p bra L;
      st.param.b32 [no], 0; call (r), minus, (y, x, no); ld.param.b32 %r3, [r]; st.param.b32 [out], %r3; ret;
      L: ld.param.b32 %r1, [x]; ld.param.b32 %r2, [y]; sub.s32 %r3, %r1, %r2; st.param.b32 [out], %r3; ret; }
    """
    body = "{ .param .b32 a; .param .b32 b; .param .b32 c; .param .b32 r; st.param.b32 [a], 30; st.param.b32 [b], 9; "
    body += "st.param.b32 [c], 1; call (r), minus, (a, b, c); ld.param.b32 %r1, [r]; } "
    outcome = run_alone(swap + entry(body + "setp.ne.s32 %p1, %r1, -21; @%p1 trap; "))
    assert outcome.kind == "done", outcome


SANITIZERS = ("memory", "races", "tensor", "barriers")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (".global .align 64 .b8 gl[256];" + entry("atom.shared.add.u32 %r2, [gl], %r1;"), "launch"),
        (".global .align 64 .b8 gl[256];" + entry("ld.shared.u32 %r2, [gl];"), "launch"),
        (".const .align 64 .b8 c[256];" + entry("red.global.add.u32 [c], %r1;"), "launch"),
        (
            entry(
                "mov.u64 %rd1, sm; cvta.shared.u64 %rd1, %rd1; mov.u32 %r1, sm; tensormap.cp_fenceproxy.global."
                "shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;"
            ),
            "out_of_bounds",
        ),
        (
            ".visible .func fn() { ret; }\n"
            + entry(
                "mov.u64 %rd1, fn; tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%rd1+0xffffffff], 0x0, %r1;"
            ),
            "misaligned",
        ),
        (
            ".visible .func fn() { ret; }\n"
            + entry("mov.u64 %rd1, fn; tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%rd1+1024], 0x0, %r1;"),
            "out_of_bounds",
        ),
        (
            entry(
                COLUMNS
                + "mov.b32 %r2, 0; "
                + ONE_THREAD
                + "mov.u64 %rd1, 0x4000400000003fff; setp.ne.u32 %p3, %r1, %r1; "
                "tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd1, %rd1, 0x8200010, %p3; exit; "
            ),
            "out_of_bounds",
        ),
    ],
)
def test_sanitizers_report_wrong_kernels(text: str, kind: str) -> None:
    outcome = run_alone(text, sanitize=SANITIZERS)
    assert outcome.kind == kind, outcome
    assert run_alone(text).kind == kind


def test_threads_that_the_system_refuses() -> None:
    # A thread's stack takes 8 MB of it.
    outcome = run_alone(entry(""), grid=(100_000, 1, 1), threads=1024, address_space=2 << 30)
    assert outcome.kind in ("launch", "memory") and "the system" in outcome.text, outcome


@pytest.mark.parametrize(
    "operation",
    [
        "tcgen05.st.sync.aligned.32x32b.x128.b32 [%r2], {" + ", ".join(["%r3"] * 128) + "}; ",
        "cp.async.bulk.global.shared::cta.bulk_group [gl], [sm], 16; ",
        "cp.async.cg.shared.global [sm], [gl], 16; ",
    ],
)
def test_operations_that_nobody_waits_for_take_bounded_memory(operation: str) -> None:
    loop = f"mov.b32 %r4, 0; L: {operation} add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 80000; @%p1 bra L; "
    free = "tcgen05.wait::st.sync.aligned; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 512; "
    text = ".global .align 64 .b8 gl[256];\n" + entry(COLUMNS + "mov.b32 %r2, 0; " + loop + free)
    outcome = run_alone(text, max_instructions=0)
    assert outcome.kind == "done" and outcome.peak < 1 << 30, (outcome, outcome.peak)


def test_a_matrix_is_stored_by_the_lanes_that_exist() -> None:
    """A warp of one thread: the other lanes' rows are far outside all memory."""
    registers = ", ".join(f"%r{n}" for n in range(1, 9))
    store = "wmma.store.d.sync.aligned.row.m32n8k16.shared.f32 [sm], {" + registers + "}, %r9;"
    text = (
        ".visible .entry k() { .reg .b32 %r<10>; .shared .align 128 .b8 sm[256]; "
        f"mov.u32 %r9, 0x10000000; {store} ret; }}"
    )
    assert run_alone(text, block=(1, 1, 1)).kind == "done"
