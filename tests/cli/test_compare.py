"""`sglab compare`: where two kernels of files part, without a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from sglab.cli import main
from tests.support.compilers import has_nvcc

PTX = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry turn(.param .u64 x, .param .u64 out)
{
  .reg .b32 %r<2>; .reg .b32 %f<3>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd1, %rd3;
  add.u64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%rd5], %f2;
  ret;
}
"""
MODULE = """
def plus_one(arg0, arg1):
    arg1.copy_(arg0 + 1)


def plus_two(arg0, arg1):
    arg1.copy_(arg0 + 2)
"""
SIZES = ["--block", "32", "--arg", "ones:32", "--arg", "zeros:32"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.ptx").write_text(PTX)
    (tmp_path / "theirs.ptx").write_text(PTX.replace("add.f32 %f2", "sub.f32 %f2"))
    (tmp_path / "same.ptx").write_text(PTX)
    (tmp_path / "reference.py").write_text(MODULE)
    return tmp_path


def compared(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["compare", *map(str, words), *SIZES])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_instruction_that_parts_two_kernels_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = compared(capsys, folder / "mine.ptx", folder / "theirs.ptx")
    assert code == 1
    assert "arg1[0:32]: 32 of 32 elements differ, by at most 2" in out
    assert "they part at" in out and "a has 2.0, b has 0.0" in out
    assert "`add.f32 %f2, %f1, 0f3F800000;`" in out and "`sub.f32 %f2, %f1, 0f3F800000;`" in out
    assert "%f1=1" in out and out.rstrip().endswith("they part here: the instructions are not the same")
    assert ".parting" not in out  # nobody has that name here


def test_what_is_the_same_is_said_and_ends_with_0(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = compared(capsys, folder / "mine.ptx", f"{folder / 'same.ptx'}::turn")
    assert (code, out.strip()) == (0, "turn and turn leave the same")


def test_a_function_is_a_reference(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compared(capsys, folder / "mine.ptx", f"{folder / 'reference.py'}::plus_one")
    assert (code, err) == (0, "") and "leave the same" in out
    code, out, _ = compared(capsys, folder / "mine.ptx", f"{folder / 'reference.py'}::plus_two")
    assert code == 1 and "a has 2.0, b has 3.0" in out and "only the values are known" in out
    code, short, _ = compared(capsys, folder / "mine.ptx", f"{folder / 'reference.py'}::plus_two", "--most", "2")
    assert code == 1 and short.count("  a: PTX line") == 2 < out.count("  a: PTX line")
    code, _, _ = compared(capsys, folder / "mine.ptx", f"{folder / 'reference.py'}::plus_two", "--atol", "1")
    assert code == 0


def test_another_architecture_runs_the_same_kernel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "plain.ptx").write_text(PTX.replace("sm_100a", "sm_90"))
    code, out, err = compared(capsys, folder / "plain.ptx", "sm_90a")
    assert (code, err) == (0, "") and "leave the same" in out


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("none.ptx", "none.ptx does not exist"),
        ("mine.ptx::turm", "turm"),
        ("elsewhere", "other: expected a file"),
        ("interpreter", "interpreter"),
    ],
)
def test_what_cannot_be_compared_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, other: str, told: str
) -> None:
    monkeypatch.chdir(folder)
    code, _, err = compared(capsys, "mine.ptx", other)
    assert code == 2 and told in err


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
def test_a_kernel_behind_two_colons(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "__global__ void one(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x] + 1; }\n"
    (folder / "two.cu").write_text(source + source.replace("one", "two").replace("+ 1", "+ 2"))
    code, out, _ = compared(capsys, f"{folder / 'two.cu'}::one", f"{folder / 'two.cu'}::two")
    assert code == 1 and "a: one, b: two" in out and "two.cu:2" in out
