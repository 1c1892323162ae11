"""An access outside shared memory: the message says which variables the memory has, and where."""

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab import gpu


def fault_of(**nbytes: int) -> str:
    """Of a kernel that uses so many bytes of each."""
    variables = " ".join(f".shared .align 4 .b8 {name}[{size}];" for name, size in nbytes.items())
    used = " ".join(f"mov.u32 %r1, {name};" for name in nbytes)
    ptx = f"""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {{
  {variables}
  .reg .b32 %r<4>;
  {used}
  mov.u32 %r3, 100000;
  ld.shared.u32 %r2, [%r3];
  st.shared.u32 [%r1], %r2;
  ret;
}}"""
    with pytest.raises(gpu.KernelError) as caught:
        sglab.ptx(ptx)[1, 1](torch.zeros(4))
    return str(caught.value)


def test_variables_are_named_with_their_places() -> None:
    text = fault_of(tile=64, count=4)
    assert "the CTA's shared memory spans 0x400 to 0x450 (tile 0x400 to 0x440, count 0x440 to 0x444)" in text


def test_no_more_than_six_are_named() -> None:
    text = fault_of(tile=16, **{f"v{i}": 4 for i in range(7)})
    assert "tile 0x400 to 0x410" in text and text.count(" to 0x") == 7 and ", …)" in text
