"""PTX text that is wrong is refused with its place, and never harms the process."""

import random

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.launching import HEADER, launch

KERNEL = (
    HEADER
    + """
.global .align 4 .b8 table[8] = {1, 2, 3, 4};
.visible .entry k(.param .u64 k_param_0) .reqntid 32
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .b64 %rd<3>;
  .shared .align 4 .b8 buffer[128];
  ld.param.u64 %rd1, [k_param_0];
  mov.u32 %r1, %tid.x;
  { .reg .b32 tmp; mov.b32 tmp, %r1; add.s32 %r2, tmp, 0x10; }
  setp.eq.s32 %p1|%p2, %r2, 3;
  @!%p1 bra $L_1;
  mov.f32 %f1, 0f3F800000;
  st.global.v2.b32 [%rd1+-8], {%r1, %r2};
$L_1:
  ret;
}
"""
)


def test_module_says_what_it_holds() -> None:
    module = _core.Module(KERNEL, "k.ptx")
    assert (module.target, module.ptx_version, module.entries) == ("sm_100a", (8, 8), ["k"])
    kernel = module.kernel("k")
    assert kernel.params == [("k_param_0", 8, 8, "u64", 0)]
    assert (kernel.reqntid, kernel.maxntid, kernel.unsupported) == ((32, 1, 1), None, [])


def test_unknown_kernel_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        _core.Module(KERNEL).kernel("nothing")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("%r2, tmp, 0x10", "%r2, %r99, 0x10", 12, "undefined register %r99"),
        ("bra $L_1", "bra $L_2", 14, "undefined name \\$L_2"),
        ("mov.f32 %f1, 0f3F800000;", "mov.f32 %f1, 0f3F8;", 15, "0f literal has 8"),
        ("@!%p1", "@!%r1", 14, "%r1 is not a predicate"),
        ("ret;\n}", "ret;", 19, "never closed"),
        (".version 8.8", ".versoin 8.8", 1, "unknown directive .versoin"),
        ("table[8]", "table[3]", 5, "more initial values"),
        ("$L_1:", "$L_1: $L_1:", 17, "defined twice"),
    ],
)
def test_error_names_line_and_cause(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(_core.PtxError, match=message) as caught:
        _core.Module(KERNEL.replace(old, new), "k.ptx")
    assert caught.value.line == line
    assert caught.value.source == "k.ptx"


@pytest.mark.parametrize(
    ("declarations", "line", "message"),
    [
        (".global .b8 a[3000000000];\n.global .b8 b[3000000000];", 5, "need more than 4 GB"),
        (".const .b8 a[65000];\n.const .b32 b;\n.const .b8 c[600];", 6, "constants take more than 65536 bytes"),
        (".shared .b32 s;\n.global .u64 p = 0;\n.global .u64 q[2] = {p, s};", 6, "a variable that has none"),
        (".visible .entry first(.param .u64 a,\n.param .b8 b[32000],\n.param .b8 c[800]) { ret; }", 6, "32764 bytes"),
        (".shared .b8 a[16000000];\n.shared .b8 b[16000000];", 5, "shared-memory window"),
    ],
)
def test_what_is_too_large_together_is_named_with_the_line_that_is_too_much(
    declarations: str, line: int, message: str
) -> None:
    body = "{ .reg .b32 %r; mov.u32 %r, a; mov.u32 %r, b; ret; }" if "window" in message else "{ ret; }"
    with pytest.raises(_core.PtxError, match=message) as caught:
        module = _core.Module(f"{HEADER}{declarations}\n.visible .entry k() {body}\n")
        for name in module.entries:
            module.kernel(name)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("add.s32 %r2, tmp, 0x10", "add.s32 %rd2, tmp, 0x10", "register %rd2 has the wrong size"),
        ("add.s32 %r2, tmp, 0x10", "add.s32 %r2, tmp", "expected 3 operands, found 2"),
        ("st.global.v2.b32 [%rd1+-8], {%r1, %r2}", "st.global.v4.b32 [%rd1], {%r1, %r2}", "wrong number of elements"),
        ("mov.u32 %r1, %tid.x", "mov.u32.fancy %r1, %tid.x", "unknown instruction mov.u32.fancy"),
    ],
)
def test_wrong_operands_are_listed_by_the_kernel(old: str, new: str, message: str) -> None:
    unsupported = _core.Module(KERNEL.replace(old, new)).kernel("k").unsupported
    assert len(unsupported) == 1
    assert message in unsupported[0]


def test_mutated_text_never_crashes() -> None:
    rng = random.Random(7)
    pieces = [
        "{",
        "}",
        ";",
        "[",
        "]",
        "(",
        ")",
        ",",
        "%r1",
        "0x",
        "-",
        "|",
        "!",
        ".",
        "@",
        '"',
        "/*",
        "ret;",
        "\0",
        "é",
    ]
    for _ in range(3000):
        text = list(KERNEL)
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(text))
            kind = rng.randrange(3)
            if kind == 0:
                del text[at : at + rng.randint(1, 12)]
            elif kind == 1:
                text.insert(at, rng.choice(pieces))
            else:
                text[at] = rng.choice(pieces)
        try:
            module = _core.Module("".join(text))
            for name in module.entries:
                assert isinstance(module.kernel(name).unsupported, list)
        except _core.PtxError:
            pass


def test_the_least_constant_is_its_own_negative() -> None:
    """As everywhere in constants of 64 bits; an operand's, an initial value's, and an address's in an initial value."""
    least = 1 << 63
    ptx = f"""
.global .align 8 .u64 other = 0;
.global .align 8 .u64 values[2] = {{--{least}, other--{least}}};
.entry k(.param .u64 out) {{
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  mov.u64 %rd2, --{least}; st.global.u64 [%rd1], %rd2;
  ld.global.u64 %rd3, [values]; st.global.u64 [%rd1+8], %rd3;
  ld.global.u64 %rd4, [values+8]; mov.u64 %rd5, other; sub.u64 %rd4, %rd4, %rd5; st.global.u64 [%rd1+16], %rd4;
  mov.u64 %rd2, - -{least - 1}; st.global.u64 [%rd1+24], %rd2;
  ret;
}}"""
    out = np.zeros(4, np.uint64)
    launch(ptx, [out])
    assert out.tolist() == [least, least, least, least - 1]
