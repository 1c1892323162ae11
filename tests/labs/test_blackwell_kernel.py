"""Your own Blackwell kernel: the shipped product is right and fails as the notebook says; questions and exercises judge
kernels that are right, and tell known wrong ones apart."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    get_tmem_reg_layout,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)

import sglab
from sglab.gpu import KernelError
from sglab.labs import blackwell_kernel as lab
from sglab.labs import blackwell_product


@gluon.jit
def _load_tile(a_map, out_ptr, PARITY: gl.constexpr = 0):
    tile = gl.allocate_shared_memory(gl.float16, [128, 64], a_map.layout)
    loaded = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.expect(loaded, 128 * 64 * 2)
    tma.async_copy_global_to_shared(a_map, [0, 0], loaded, tile)
    mbarrier.wait(loaded, PARITY)
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    row = gl.arange(0, 128, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    gl.store(out_ptr + row[:, None] * 64 + column[None, :], tile.load(layout))


@gluon.jit
def _along(
    a_map,
    b_map,
    d_ptr,
    K: gl.constexpr,
    FAULT: gl.constexpr,
    WARPS: gl.constexpr = 4,
):
    a = gl.allocate_shared_memory(gl.float16, [128, 64], a_map.layout)
    b = gl.allocate_shared_memory(gl.float16, [64, 64], b_map.layout)
    in_tmem: gl.constexpr = TensorMemoryLayout(block=(128, 64), col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [128, 64], in_tmem)
    loaded = mbarrier.allocate_mbarrier()
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    steps: gl.constexpr = 1 if FAULT == "one_step" else K // 64
    for i in range(steps):
        mbarrier.expect(loaded, (128 + 64) * 64 * 2)
        column_of = 0 if FAULT == "same_columns" else i * 64
        tma.async_copy_global_to_shared(a_map, [0, column_of], loaded, a)
        tma.async_copy_global_to_shared(b_map, [0, column_of], loaded, b)
        mbarrier.wait(loaded, 0 if FAULT == "loaded_0" else i & 1)
        tcgen05_mma(a, b.permute((1, 0)), acc, use_acc=False if FAULT == "overwrites" else i > 0)
        tcgen05_commit(done)
        if FAULT != "no_wait":
            mbarrier.wait(done, i & 1)
    layout: gl.constexpr = get_tmem_reg_layout(gl.float32, [128, 64], in_tmem, num_warps=WARPS)
    row = gl.arange(0, 128, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    gl.store(d_ptr + row[:, None] * 64 + column[None, :], acc.load(layout))


@gluon.jit
def _nothing(a_map, b_map, d_ptr, K: gl.constexpr):
    pass


def product(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor, **more: object) -> sglab.stepping.KernelLaunch:
    maps = lab.tensor_map(a, 128), lab.tensor_map(b, 64)
    return sglab.step(_along[(1,)], *maps, d, K=a.shape[1], FAULT="", **more)


@pytest.fixture
def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(128, 64).half(), torch.randn(64, 64).half(), torch.zeros(128, 64)


def test_the_shipped_product_is_right_under_every_scheduler_and_nothing_is_found() -> None:
    for scheduler in ("fair", "random", "adversarial", "in_order"):
        tile = lab.Tile(seed=7)
        assert tile.run(scheduler=scheduler).findings == () and tile.error() < 1e-4


def test_what_each_wrong_descriptor_does() -> None:
    assert lab.outcome(lab.Tile(layout=lab.layout(rows_apart=512))).endswith("nothing found")
    wrong = lab.Tile(layout=lab.layout(rows_apart=512))
    wrong.run()
    assert wrong.error() > 1
    assert "matrix operand reads" in lab.outcome(lab.Tile(layout=lab.layout(rows_apart=2048)))
    assert "has not allocated" in lab.outcome(lab.Tile(instruction=lab.instruction(n=128)))
    with pytest.raises(KernelError, match="bits 46-48"):
        lab.Tile(layout=lab.layout() & ~(1 << 46)).run()


def test_taking_out_changes_the_text_and_knows_its_names() -> None:
    texts = {name: lab.Tile(without=name).text for name in lab.CUTS}
    assert len({lab.Tile().text, *texts.values()}) == 1 + len(lab.CUTS)
    with pytest.raises(ValueError, match="expected one of fence_proxy_async"):
        lab.Tile(without="fence")


def test_found_without() -> None:
    right = set(lab.CUTS) - {"after_thread_sync"}
    assert lab.found_without().check(right).right
    assert "is ordered already" in lab.found_without().check(set(lab.CUTS)).text
    assert "A fence" in lab.found_without().check({"wait_ld", "wait_loaded", "wait_done"}).text


def test_questions_on_launches(tensors: tuple[torch.Tensor, ...]) -> None:
    a, b, d = tensors
    assert lab.place_of(_load_tile, 5, 16).check(752).right
    place = lab.place_of(_load_tile, 5, 16)
    assert "without a swizzle" in place.check(5 * 128 + 32).text and "has two bytes" in place.check(5 * 64 + 16).text
    assert "has 16 bytes" in place.check(5 * 128 + (2 ^ 5) * 8).text
    out = torch.zeros_like(a)
    for parity in (0, 1):
        assert lab.hangs(sglab.step(_load_tile[(1,)], lab.tensor_map(a, 128), out, PARITY=parity)).check(False).right
    launch = product(a, b, d)
    assert lab.products(launch).check(4).right and "That is the call" in lab.products(launch).check(1).text
    assert lab.readers_of_row(launch, 100).check({3}).right
    wide = product(a, b, d, WARPS=8, num_warps=8)
    readers = lab.readers_of_row(wide, 100)
    assert readers.check({3, 7}).right and "with four warps" in readers.check({3}).text
    assert "do not divide the rows" in readers.check({6}).text
    share = lab.tensor_core_share(launch)
    assert 0.01 < share.answer() < 0.5 and share.check(share.answer()).right and share.check(0.9).right is False
    assert lab.error(d, a, b) < 1e-4


def test_enough_stages() -> None:
    assert lab.enough_stages({1: 100, 2: 60, 3: 59, 4: 58}).answer() == 2
    assert lab.enough_stages({1: 100, 2: 60, 3: 40, 4: 39}).answer() == 3
    assert lab.enough_stages({1: 100, 2: 99}).answer() == 1


def test_the_instruction_descriptor() -> None:
    question = lab.instruction_descriptor()
    assert question.check(lab.instruction).right
    for function, feedback in question.ideas:
        verdict = question.check(function)
        assert verdict.right is False and verdict.text.startswith(feedback)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("", None),
        ("overwrites", "the first product overwrites, the others add"),
        ("one_step", "go on along K"),
        ("same_columns", "TMA's second coordinate is the column"),
        ("loaded_0", "Each round waits for both barriers"),
        ("no_wait", "Each round waits for both barriers"),
    ],
)
def test_the_product_along_k(fault: str, said: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's kernel takes K alone; here the fault is handed in beside it."""
    step = sglab.step
    monkeypatch.setattr(
        blackwell_product, "step", lambda kernel, *args, **named: step(kernel, *args, FAULT=fault, **named)
    )
    verdict = lab.along_k().check(_along)
    assert verdict.right is (said is None), verdict
    assert said is None or said in verdict.text


def test_what_is_no_kernel_of_the_exercise() -> None:
    assert lab.along_k().check().right is None
    assert lab.along_k().check(3).right is False
    assert lab.along_k().check(_nothing).right is None
