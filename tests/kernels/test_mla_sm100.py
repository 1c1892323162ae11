"""The SM100 MLA decode kernel, from the PTX that ships, on the emulator against float64."""

import itertools
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from sglab.emulator import EmulatedDevice
from sglab.kernels import ptx
from sglab.kernels.contract import ContractError
from sglab.kernels.mla import MlaSm100, mla_decode_sm100, tensor_work
from sglab.planning.mla_sm100 import mla_sm100_plan
from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.kernels.decode_batches import SCALE, Batch

MIXED = [300, 0, 1, 128, 129, 65]
DTYPES = [torch.float16, torch.bfloat16]


def attend(batch: Batch, device: EmulatedDevice | None = None, max_splits: int = 1, **options: Any) -> None:
    """Run with poisoned outputs, partial results included, and compare."""
    scheduler = options.pop("scheduler", "auto")
    decode = MlaSm100(device or EmulatedDevice(), *batch.q_nope.shape[:2], max_splits, scheduler)
    decode.partial_out.fill_(torch.nan)
    decode.partial_lse.fill_(torch.nan)
    decode.partial_count.fill_(2**30)
    out = torch.full_like(batch.q_nope, torch.nan)
    lse = torch.full(out.shape[:2], torch.nan)
    decode.run(*batch.arguments, sm_scale=SCALE, out=out, lse=lse, **options)
    batch.check(out, lse, options.get("lse_base", "e"))


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 192, 193, 257, 1000])
def test_one_request(length: int) -> None:
    attend(Batch([length]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("page_size", [16, 32, 64, 128])
def test_mixed_lengths(page_size: int, dtype: torch.dtype) -> None:
    attend(Batch(MIXED, page_size=page_size, dtype=dtype))


@pytest.mark.parametrize("heads", [1, 16, 64, 100])
def test_fewer_heads_are_padded(heads: int) -> None:
    attend(Batch([200, 0, 40], heads))


@pytest.mark.parametrize("scheduler", ["individual", "persistent"])
@pytest.mark.parametrize("splits", [2, 3, 8])
def test_splits(splits: int, scheduler: str) -> None:
    """More splits than tiles among them: those find nothing to do."""
    attend(Batch([700, 0, 128, 300]), EmulatedDevice(sms=6), splits, scheduler=scheduler)


def test_splits_per_request() -> None:
    batch = Batch([1000, 500, 0, 100])
    plan = mla_sm100_plan(batch.lengths, sm_count=28)
    assert plan.num_splits.tolist() == [8, 4, 1, 1]
    attend(batch, max_splits=plan.max_splits, num_splits=torch.from_numpy(plan.num_splits))


@pytest.mark.parametrize("sms", [2, 4, 148])
def test_a_persistent_pair_works_on_several_units(sms: int) -> None:
    attend(Batch(MIXED, page_size=64), EmulatedDevice(sms=sms), 2, scheduler="persistent")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_whatever_warp_runs_first(scheduler: str, seed: int) -> None:
    device = EmulatedDevice(sms=4, scheduler=scheduler, seed=seed)
    attend(Batch([400, 0, 70, 260], page_size=32), device, 2, scheduler="persistent")


@pytest.mark.parametrize("base", ["2", "e"])
@pytest.mark.parametrize("splits", [1, 3])
def test_lse_base(base: str, splits: int) -> None:
    attend(Batch([300, 400]), max_splits=splits, lse_base=base)


@pytest.mark.parametrize("spread", [0.01, 30.0])
def test_flat_and_peaked_scores(spread: float) -> None:
    """Peaked scores move a row's reference often, flat ones never."""
    attend(Batch([800], spread=spread))


def test_scores_that_keep_growing_move_the_reference_each_tile() -> None:
    batch = Batch([640])
    direction = torch.sign(torch.randn(64))
    batch.q_pe[:] = direction
    for tile, page in enumerate(batch.page_table[0].tolist()):
        batch.kv_cache[page, :, 512:] = 3 * tile * direction
    attend(batch)


def test_one_result_every_time() -> None:
    """No race: the same inputs give the same bits, whatever the order of warps."""
    batch = Batch(MIXED, page_size=64)
    results = []
    for seed, scheduler in enumerate(SCHEDULERS):
        device = EmulatedDevice(sms=8, scheduler=scheduler, seed=seed)
        results.append(mla_decode_sm100(device, *batch.arguments, sm_scale=SCALE, max_splits=2))
    for out, lse in results[1:]:
        assert torch.equal(out, results[0][0]) and torch.equal(lse, results[0][1])


def test_strided_arguments() -> None:
    batch = Batch([150, 20], heads=128)
    joint = torch.cat([batch.q_nope, batch.q_pe], -1)
    pool = torch.zeros(len(batch.kv_cache), 128, 640, dtype=torch.float16)
    pool[..., :576] = batch.kv_cache
    table = torch.full((2, 8), -1, dtype=torch.int32)
    table[:, :2] = batch.page_table
    batch.q_nope, batch.q_pe = joint[..., :512], joint[..., 512:]
    batch.kv_cache, batch.page_table = pool[..., :576], table[:, :2]
    wide = torch.full((2, 128, 520), torch.nan, dtype=torch.float16)
    out, lse = mla_decode_sm100(EmulatedDevice(), *batch.arguments, sm_scale=SCALE, out=wide[..., :512])
    batch.check(out, lse)
    assert wide[..., 512:].isnan().all()


def test_an_empty_batch_runs_nothing() -> None:
    q = torch.zeros(0, 128, 512, dtype=torch.float16)
    lens, table = torch.zeros(0, dtype=torch.int32), torch.zeros(0, 1, dtype=torch.int32)
    cache = torch.zeros(1, 128, 576, dtype=torch.float16)
    out, lse = mla_decode_sm100(EmulatedDevice(), q, q[..., :64], cache, lens, table, sm_scale=SCALE)
    assert out.shape == (0, 128, 512) and lse.shape == (0, 128)


def test_arguments_are_refused_by_name() -> None:
    batch = Batch([300, 20])

    def refused(**changes: Any) -> str:
        names = ("q_nope", "q_pe", "kv_cache", "seq_lens", "page_table")
        tensors = {**dict(zip(names, batch.arguments, strict=True)), "sm_scale": SCALE, **changes}
        with pytest.raises(ContractError) as caught:
            mla_decode_sm100(EmulatedDevice(), **tensors)
        return str(caught.value)

    assert "q_nope must be" in refused(q_nope=torch.zeros(2, 128, 500, dtype=torch.float16))
    assert "kv_cache must be" in refused(kv_cache=torch.zeros(4, 8, 576, dtype=torch.float16))
    assert "kv_cache must be" in refused(kv_cache=torch.zeros(4, 64, 576, dtype=torch.bfloat16))
    assert "seq_lens must be" in refused(seq_lens=torch.tensor([300, 20]))
    assert "seq_lens[0] = 400" in refused(seq_lens=torch.tensor([400, 20], dtype=torch.int32))
    assert "page_table[1, 0] = 99" in refused(page_table=torch.tensor([[0, 1, 2], [99, 0, 0]], dtype=torch.int32))
    assert "sm_scale must be" in refused(sm_scale=0.0)
    assert "lse_base must be" in refused(lse_base="10")
    assert "max_splits must be from 1 to 256" in refused(max_splits=257)
    assert "num_splits[0] = 3" in refused(max_splits=2, num_splits=torch.tensor([3, 1], dtype=torch.int32))
    assert "scheduler must be" in refused(scheduler="greedy")


@pytest.mark.parametrize("heads", [16, 32, 64, 128])
def test_the_tensor_cores_work_for_128_heads_whatever_was_asked_for(heads: int) -> None:
    """Per tile of 128 tokens 36 products of 128 × 128 × 16 for S and 16 of 128 × 256 × 16 for O."""
    work = tensor_work(heads, 256)
    assert work.mma_instructions == 2 * (36 + 16)
    assert work.flop == 2 * 2 * 128 * 128 * (576 + 512)
    assert work.useful == heads / 128
    assert (work.allocated_columns, work.written_columns) == (512, 2 * 64 + 2 * 128)


def test_a_half_tile_without_tokens_is_not_multiplied_with_p() -> None:
    assert tensor_work(128, 64).mma_instructions == 36 + 8


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas")
def test_it_assembles_without_spills(tmp_path: Path) -> None:
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx.text("mla_decode_sm100"))
    command = ["ptxas", "-arch=sm_100a", "-v", source, "-o", tmp_path / "kernel.cubin"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert re.findall(r"(\d+) bytes spill", said) == ["0"] * 4, said  # stores and loads of both kernels


GRID = [[0], [1], [127], [128], [129], [1000], [0, 1, 127, 128, 129, 1000], [129, 0, 5000, 1], [1, 0, 64, 200] * 4]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("page_size", [16, 32, 64, 128])
def test_grid(page_size: int, dtype: torch.dtype) -> None:
    """Lengths × splits × schedulers of the kernel × schedulers of the emulator."""
    for lengths in GRID:
        batch = Batch(lengths, page_size=page_size, dtype=dtype)
        for (number, splits), how in itertools.product(enumerate([1, 2, 3, 5, 8]), ["individual", "persistent"]):
            device = EmulatedDevice(sms=8, scheduler=SCHEDULERS[number % 4])
            attend(batch, device, splits, scheduler=how)


def random_case(generator: random.Random) -> dict[str, Any]:
    lengths = [0, 1, 64, 127, 128, 129, 193, 513, 1000, 5000]
    weights = [2, 2, 2, 2, 2, 2, 2, 2, 2, 1]
    return {
        "lengths": generator.choices(lengths, weights, k=generator.choice([1, 1, 2, 3, 5, 16])),
        "heads": generator.choice([128, 128, 16, 64, 100]),
        "page_size": generator.choice([16, 32, 64, 128]),
        "dtype": generator.choice(DTYPES),
    }


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("seed", range(12))
def test_random_batches(scheduler: str, seed: int) -> None:
    generator = random.Random()
    case = random_case(generator)
    splits, how = generator.choice([1, 2, 3, 5, 8]), generator.choice(["individual", "persistent"])
    print(case, splits, how)
    device = EmulatedDevice(sms=generator.choice([2, 8, 148]), scheduler=scheduler, seed=seed)
    attend(Batch(**case), device, splits, scheduler=how)
