"""The compatibility table: made of the rows that are kept, which say right only of what is."""

from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")
from sglab import gpu
from tools.compatibility.case import Case, Check, RefusedError, Row
from tools.compatibility.measure import measured
from tools.compatibility.meter import Meter
from tools.compatibility.table import PAGE, kept, line, page

FILL = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry fill(.param .u64 out)
{
  .reg .b32 %r<2>; .reg .b64 %rd<4>; .reg .f32 %f<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  cvt.rn.f32.u32 %f1, %r1;
  st.global.f32 [%rd3], %f1;
  ret;
}
"""


def filled(meter, size: int = 32) -> torch.Tensor:
    out = torch.zeros(size)
    gpu.Module(FILL)["fill"].launch(meter, grid=1, block=32, args=[out])
    return out


def row_of(run) -> Row:
    return measured("family", "package 1", Case("kernel", run), limit=60)


def test_the_page_shows_the_rows_that_are_kept() -> None:
    assert page(kept()) == PAGE.read_text()


def test_at_least_150_kernels_are_right_and_none_is_wrong() -> None:
    results = [row.result for row in kept()]
    assert results.count("right") >= 150 and "wrong" not in results


def test_what_is_equal_is_right_with_its_counts() -> None:
    row = row_of(lambda meter: [Check(filled(meter), torch.arange(32).double(), 1e-6)])
    assert (row.result, row.worst, row.launches, row.findings) == ("right", 0.0, 1, {})
    assert row.warp_instructions == 7 and row.rate > 0


@pytest.mark.parametrize("other", [32.5, torch.nan, torch.inf])
def test_one_other_element_is_wrong(other: float) -> None:
    expected = torch.arange(32).double()
    expected[31] = other
    assert row_of(lambda meter: [Check(filled(meter), expected, 1e-3, 1e-3)]).result == "wrong"


def test_another_shape_and_nothing_compared_are_not_right() -> None:
    assert row_of(lambda meter: [Check(filled(meter), torch.arange(31).double())]).result == "wrong"
    assert row_of(lambda meter: [filled(meter)][:0]).result == "failed"


def test_faults_refusals_and_a_dying_process_have_their_words() -> None:
    def refuse(meter):
        raise RefusedError("no such instruction")

    def die(meter):
        import os

        os._exit(3)

    fault = row_of(lambda meter: [Check(filled(meter, 8), torch.arange(8).double())])
    assert fault.result == "failed" and "past the end" in fault.message and fault.findings is None
    assert (row_of(refuse).result, row_of(refuse).message) == ("refused", "no such instruction")
    assert row_of(die).message == "the process died: exit code 3"


def test_a_line_escapes_what_markdown_would_take() -> None:
    row = Row("family", "Reduce<int>|sum", "package 1", "sm_100a", "failed", message="a | b")
    assert line(row).count("&lt;int>\\|sum") == 1 and "failed: a \\| b" in line(row)


def test_a_samples_constants_are_made_smaller_in_a_copy(tmp_path, monkeypatch) -> None:
    from tools.compatibility.families.cuda_samples import _smaller, _sources

    monkeypatch.setenv("SGLAB_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "sample"
    place.mkdir()
    text = "#define N_ROWS 512 // rows\nconst int N = 13 * 1048576 / 2;\nint main() { int M = N; }\n"
    (place / "main.cpp").write_text('#include "part.cu"\n' + text)
    (place / "part.cu").write_text("int NN = 3;\n")
    (place / "kernel.cu").write_text("// a kernel\n")
    cut = _smaller(place, {"N": "64", "N_ROWS": "8"})
    own, others = _sources(cut)
    assert (own.name, [path.name for path in others]) == ("main.cpp", ["kernel.cu"])
    assert "#define N_ROWS 8// rows\nconst int N = 64;\nint main() { int M = N; }" in own.read_text()
    assert text in (place / "main.cpp").read_text() and (cut / "part.cu").read_text() == "int NN = 3;\n"
    assert _smaller(place, {}) == place
    with pytest.raises(RefusedError, match="has no constant ROWS"):
        _smaller(place, {"ROWS": "8"})


def test_a_script_for_a_gpu_keeps_what_it_compares() -> None:
    pytest.importorskip("triton")
    from tools.compatibility.meter import Meter
    from tools.compatibility.tutorials_host import script_on

    with script_on(Meter("sm_100a", False), 100) as checks:
        x = torch.ones(4, device="cuda", dtype=torch.float16)
        assert x.device.type == "cpu" and x.to("cuda").cuda().device.type == "cpu"
        torch.testing.assert_close(x, 2 * x, rtol=0, atol=0.5)
        torch.testing.assert_close(x, x)
        assert torch.allclose(x, 3 * x, atol=1.0)  # judged later
    assert [(check.rtol, check.atol) for check in checks] == [(0, 0.5), (1e-3, 1e-5), (1e-5, 1.0)]
    assert [float((check.expected - check.got).max()) for check in checks] == [1, 0, 2]
    row = row_of(lambda meter: [Check(filled(meter), torch.arange(32).double(), 1e-6), checks[0]])
    assert row.result == "wrong"


def test_an_output_is_no_finer_than_what_its_operator_rounds_to() -> None:
    pytest.importorskip("triton")
    from tools.compatibility.operators import RTOL, operator

    def summed(meter, rounds_to: torch.dtype) -> float:
        def call(x: torch.Tensor) -> torch.Tensor:
            return filled(meter) + x.bfloat16().float().sum()

        def reference(x: torch.Tensor) -> torch.Tensor:
            return torch.arange(32).double() + x.sum()

        case = operator("sum", lambda: [torch.tensor([1.5])], call, reference, rounds_to=rounds_to, host=nullcontext)
        return max(check.rtol for check in case.run(meter))

    meter = Meter("sm_100a", sanitize=False)
    assert summed(meter, torch.bfloat16) == RTOL[torch.bfloat16]
    assert summed(meter, torch.float32) == RTOL[torch.float32]
