"""Constant memory and a kernel's parameters are read by any address, and written by none."""

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.launching import HEADER, launch

HEAD = """
.const .align 64 .b32 table[64] = {11, 22, 33, 44};
.global .align 64 .b32 cell[64] = {5, 6};
.const .b32 late = 77;
"""


def kernel(body: str, parameters: str = ".param .align 64 .b8 p[128]") -> str:
    return (
        HEAD
        + f"""
.visible .entry k({parameters}) {{
  .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 128 .b8 sm[1024];
  mov.u64 %rd1, table; cvta.const.u64 %rd1, %rd1;
  {body}
  ret;
}}"""
    )


PARAMETER = "mov.b64 %rd1, p; cvta.param.u64 %rd1, %rd1; "
TO_GLOBAL = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; "


@pytest.mark.parametrize(
    "store",
    [
        "st.u32 [%rd1], 1;",
        "st.global.u32 [%rd1], 1;",
        "ld.global.u32 %r1, [cell]; st.u32 [%rd1+4], %r1;",
        "ld.u32 %r1, [%rd1]; st.v4.u32 [%rd1], {%r1, %r1, %r1, %r1};",
        "atom.add.u32 %r1, [%rd1], 1;",
        "red.global.or.b32 [%rd1], 1;",
        "mov.u64 %rd2, late; st.u32 [%rd2], 1;",
        PARAMETER + "st.u32 [%rd1], 1;",
        PARAMETER + "st.b8 [%rd1+127], 1;",
        PARAMETER + "atom.add.u32 %r1, [%rd1], 1;",
        PARAMETER + "tensormap.replace.tile.rank.b1024.b32 [%rd1], 1;",
        "st.param.u32 [p], 1;",
        "tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1;",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [sm], 16; " + TO_GLOBAL,
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [sm], 16; " + TO_GLOBAL,
    ],
)
def test_a_store_is_a_fault(store: str) -> None:
    with pytest.raises(_core.LaunchError, match=r"only read|a store to|constant memory") as caught:
        launch(kernel(store), [bytes(128)])
    assert caught.value.kind == "read_only"


def test_loads_reach_constants_by_any_address() -> None:
    body = """
  ld.u32 %r1, [%rd1+8]; ld.global.u32 %r2, [%rd1+4]; ld.const.u32 %r3, [table]; ld.const.u32 %r4, [late];
  ld.global.u32 %r5, [cell+4]; st.global.u32 [cell+8], %r5; ld.global.u32 %r6, [cell+8];
  ld.param.u64 %rd2, [out];
  st.global.v4.u32 [%rd2], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%rd2+16], {%r5, %r6};"""
    out = np.zeros(8, np.uint32)
    launch(kernel(body, ".param .u64 out"), [out])
    assert out.tolist() == [33, 22, 11, 77, 6, 6, 0, 0]


def test_isspacep_tells_constants_from_other_memory() -> None:
    body = """
  mov.u64 %rd3, cell; cvta.global.u64 %rd3, %rd3; mov.u64 %rd4, sm; cvta.shared.u64 %rd4, %rd4;
  mov.u64 %rd5, late; ld.param.u64 %rd2, [out];
"""
    for n, (register, space) in enumerate(
        (register, space)
        for register in ("%rd1", "%rd3", "%rd4", "%rd5", "%rd2")
        for space in ("const", "global", "shared")
    ):
        body += f"isspacep.{space} %p1, {register}; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%rd2+{4 * n}], %r1;\n"
    out = np.zeros(15, np.uint32)
    launch(kernel(body, ".param .u64 out"), [out])
    assert out.reshape(5, 3).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]


def test_constants_keep_the_values_that_they_were_given() -> None:
    many = "".join(f".const .align 16 .b64 c{i}[3] = {{{i}, c{i - 1}, {7 * i}}};\n" for i in range(1, 40))
    text = f".const .align 16 .b64 c0[3];\n{many}.global .b64 last = c39+16;\n"
    text += (
        ".visible .entry k(.param .u64 out) { .reg .b64 %rd<9>; ld.param.u64 %rd1, [out]; ld.global.u64 %rd2, [last];"
    )
    text += "ld.u64 %rd3, [%rd2]; ld.u64 %rd4, [%rd2+-8]; ld.u64 %rd5, [%rd4+16]; "
    text += "st.global.v2.u64 [%rd1], {%rd3, %rd5}; ret; }"
    out = np.zeros(2, np.uint64)
    launch(_core.Module(HEADER + text).kernel("k"), [out])
    assert out.tolist() == [39 * 7, 38 * 7]
