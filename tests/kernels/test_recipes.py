"""Calls that a recipe serves: they launch what a checked call would, on what the tensors hold now."""

import sys
from typing import Any

import pytest
import torch

import sglab
from sglab.emulator import EmulatedDevice
from sglab.kernels import (
    ContractError,
    cutlass_mla,
    cutlass_mla_decode,
    cutlass_mla_get_workspace_size,
    devices,
    flash_mla_with_kvcache,
    get_mla_metadata,
)
from sglab.kernels.registry import last_choice
from tests.support.kernels.decode_batches import SCALE, Batch

HEADS, PAGE = 16, 64


class Step:
    """Tensors of a decode step, refilled for each; the pool has no NaN, and the table only pages that exist."""

    def __init__(self, lengths: list[int], splits: int) -> None:
        self.lengths, self.splits = lengths, splits
        made = self._batch()
        self.tensors = made
        rows, width = made[4].shape
        size = cutlass_mla_get_workspace_size(width * PAGE, rows, num_kv_splits=splits)
        self.workspace = torch.empty(size, dtype=torch.uint8)

    def _batch(self) -> list[torch.Tensor]:
        self.batch = Batch(self.lengths, heads=HEADS, page_size=PAGE)
        q_nope, q_pe, kv, lengths, table = self.batch.arguments
        table = torch.where(table < len(kv), table, 0)
        table = torch.cat([table, torch.zeros_like(table[:, : table.shape[1] % 2])], 1)
        return [q_nope, q_pe, kv.nan_to_num(), lengths, table]

    def next(self) -> None:
        for buffer, values in zip(self.tensors, self._batch(), strict=True):
            buffer.copy_(values)

    def cutlass(self, **options: Any) -> torch.Tensor:
        return cutlass_mla_decode(*self.tensors, self.workspace, SCALE, self.splits, check_values=False, **options)

    def expected(self) -> torch.Tensor:
        return self.batch.reference("e")[0]


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    device = EmulatedDevice("sm_90a")
    monkeypatch.setattr(devices, "device_of", lambda _: device)
    monkeypatch.setattr(devices, "hopper_of", lambda _: device)


def near(out: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(out.double(), expected, atol=4e-3, rtol=4e-3)


def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a call that is checked again fails."""

    def check(*_: Any, **__: Any) -> None:
        raise AssertionError("checked again")

    monkeypatch.setattr(cutlass_mla, "check", check)
    monkeypatch.setattr("sglab.kernels.flash_mla.check", check)


@pytest.mark.parametrize("splits", [1, 3])
def test_blackwell_reads_what_the_tensors_hold_now(splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step([300, 70], splits)
    step.cutlass()
    first = last_choice()
    served(monkeypatch)
    outs = []
    for _ in range(3):
        step.next()
        outs.append(step.cutlass())
        near(outs[-1], step.expected())
        choice = last_choice()
        assert choice is not None and first is not None and choice is not first
        assert [each.kernel for each in choice.launches] == [each.kernel for each in first.launches]
        assert str(choice) == str(first)
    assert len({out.data_ptr() for out in outs}) == 3, "outputs that live have places of their own"


@pytest.mark.parametrize("splits", [1, 3])
def test_blackwell_serves_other_tensors_of_the_same_shapes(splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    first, others = Step([300, 70], splits), [Step([300, 70], splits) for _ in range(3)]
    first.cutlass()
    served(monkeypatch)
    for other in others:
        near(other.cutlass(), other.expected())


def test_hopper_serves_other_tensors_of_the_same_shapes(hopper: None, monkeypatch: pytest.MonkeyPatch) -> None:
    first, others = Step([300, 70], 1), [Step(lengths, 1) for lengths in ([257, 1], [290, 300])]
    metadata = [get_mla_metadata(step.tensors[3], HEADS) for step in (first, *others)]
    pool = max(len(step.tensors[2]) for step in (first, *others))

    def call(step: Step, plan: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        q = torch.cat(step.tensors[:2], -1).unsqueeze(1)
        cache = torch.zeros(pool, PAGE, 1, q.shape[-1], dtype=q.dtype)
        cache[: len(step.tensors[2]), :, 0] = step.tensors[2]
        return flash_mla_with_kvcache(
            q, cache, step.tensors[4], step.tensors[3], 512, *plan, SCALE, check_values=False
        )[0][:, 0]

    call(first, metadata[0])
    served(monkeypatch)
    for step, plan in zip(others, metadata[1:], strict=True):
        near(call(step, plan), step.expected())


def test_hopper_plans_other_lengths_on_the_device(hopper: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch that plans moves to other tensors with the rest of its recipe."""
    first, others = Step([300, 70], 1), [Step(lengths, 1) for lengths in ([257, 1], [290, 300])]
    pages = max(len(step.tensors[2]) for step in (first, *others))
    for step in (first, *others):
        cache = torch.zeros(pages, *step.tensors[2].shape[1:], dtype=step.tensors[2].dtype)
        cache[: len(step.tensors[2])] = step.tensors[2]
        step.tensors[2] = cache
    first.cutlass()
    served(monkeypatch)
    for step in others:
        near(step.cutlass(), step.expected())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_a_gpu_serves_other_tensors_of_the_same_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.cuda.get_device_capability() not in {(9, 0), (10, 0)}:
        pytest.skip("no GPU that our kernels are for")
    steps = [Step([300, 70], 1) for _ in range(4)]
    for step in steps:
        step.tensors, step.workspace = [tensor.cuda() for tensor in step.tensors], step.workspace.cuda()
    steps[0].cutlass()
    served(monkeypatch)
    for step in steps[1:] * 2:
        near(step.cutlass().cpu(), step.expected())


def test_an_lse_that_overlaps_an_input_is_refused_each_time() -> None:
    step = Step([300, 70], 1)
    step.cutlass(lse=torch.empty(2, HEADS))
    inside = step.tensors[2].view(-1)[: 4 * HEADS].view(torch.float32).view(2, HEADS)
    for _ in range(2):
        with pytest.raises(ContractError, match="lse must be memory separate from kv_c_and_k_pe_cache"):
            step.cutlass(lse=inside)


def test_tensors_that_share_memory_make_no_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step([2, 2], 1)
    step.tensors[3] = step.tensors[4].view(-1)[:2]  # the lengths are the table's first entries
    step.tensors[3][:] = 2
    step.cutlass()
    served(monkeypatch)
    with pytest.raises(AssertionError, match="checked again"):
        step.cutlass()


@pytest.mark.parametrize("by_host", [True, False])
def test_hopper_follows_the_lengths_of_each_call(by_host: bool, hopper: None) -> None:
    step = Step([300, 70], 1)
    for lengths in ([300, 70], [300, 70], [40, 129], [300, 0], [300, 70]):
        step.lengths = lengths
        made = step._batch()
        for buffer, values in zip(step.tensors[:2] + step.tensors[3:4], made[:2] + made[3:4], strict=True):
            buffer.copy_(values)
        width = made[4].shape[1]
        step.tensors[4][:, :width] = made[4][:, : step.tensors[4].shape[1]]
        step.tensors[2][: len(made[2])] = made[2][: len(step.tensors[2])]
        out = step.cutlass(seq_lens_cpu=lengths if by_host else None)
        near(out, step.expected())


def test_lengths_on_the_host_are_checked_every_time(hopper: None) -> None:
    step = Step([300, 70], 1)
    step.cutlass(seq_lens_cpu=[300, 70])
    with pytest.raises(ContractError, match="seq_lens_cpu must be 2 lengths"):
        step.cutlass(seq_lens_cpu=[300])
    with pytest.raises(ContractError, match="page_table must be wide enough for 5000 tokens"):
        step.cutlass(seq_lens_cpu=[5000, 70])


def test_flash_mla(hopper: None, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step([300, 70], 1)
    metadata = get_mla_metadata(step.tensors[3], HEADS)
    q = torch.cat(step.tensors[:2], -1).unsqueeze(1)

    def call() -> tuple[torch.Tensor, torch.Tensor]:
        cache, table, lengths = step.tensors[2].unsqueeze(2), step.tensors[4], step.tensors[3]
        return flash_mla_with_kvcache(q, cache, table, lengths, 512, *metadata, SCALE, check_values=False)

    call()
    served(monkeypatch)
    kept = []
    for _ in range(3):
        step.next()
        q.copy_(torch.cat(step.tensors[:2], -1).unsqueeze(1))
        kept.append(call())
        near(kept[-1][0][:, 0], step.expected())


def test_other_tensors_and_options_are_checked() -> None:
    step = Step([300, 70], 1)
    step.cutlass()
    step.cutlass()
    with pytest.raises(ContractError, match="num_kv_splits"):
        cutlass_mla_decode(*step.tensors, step.workspace, SCALE, 257, check_values=False)
    with pytest.raises(ContractError, match="q_pe"):
        cutlass_mla_decode(
            step.tensors[0], step.tensors[1].float(), *step.tensors[2:], step.workspace, SCALE, 1, check_values=False
        )
    step.tensors[4][0, 0] = 10**6
    with pytest.raises(ContractError, match="page_table"):
        cutlass_mla_decode(*step.tensors, step.workspace, SCALE, 1)  # on the CPU contents are checked by default


MOST_CALLS = 8


@pytest.mark.parametrize(("backend", "page"), [("cutlass_mla", 128), ("flashmla", 64)])
def test_few_calls_lie_between_attend_and_the_launch(
    backend: str, page: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Frames of ours on the stack, attend included, when a device is given a launch of the attention kernel."""
    path: list[str] = []
    run = EmulatedDevice.run

    def note(self: EmulatedDevice, launch: Any) -> Any:
        if launch.kernel.name.startswith("mla_decode"):
            frame, found = sys._getframe(1), []
            while frame is not None:
                if frame.f_globals.get("__name__", "").startswith("sglab."):
                    found.append(frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name)
                frame = frame.f_back  # type: ignore[assignment]
            path[:] = found[::-1]
        return run(self, launch)

    monkeypatch.setattr(EmulatedDevice, "run", note)
    batch = sglab.decode_batch(seq_lens=[130], num_heads=16, page_size=page, dtype="float16", kind="mla")
    sglab.attend(batch, backend=backend)
    with capsys.disabled():
        print(f"\n{backend}: {len(path)} calls: {' → '.join(path)}")
    assert path[0] == "attend" and len(path) <= MOST_CALLS
