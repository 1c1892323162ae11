"""Recorded runs of the index kernels: every entry accounted for, on random batches."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import sglab
from sglab.workbench.recorders.index_runs import COLUMNS, NONE, run_index_kernel

SMALL = {"kv_lora_rank": 16, "qk_rope_head_dim": 16, "num_heads": 16}
column = {name: number for number, name in enumerate(COLUMNS)}


def make_batch(seed: int, page_size: int):
    lens = np.random.default_rng(seed).integers(1, 1500, size=5).tolist()
    return sglab.decode_batch(lens, page_size=page_size, layout="fragmented", seed=seed, **SMALL)


@pytest.fixture(params=[1, 16, 64])
def batch(request: pytest.FixtureRequest):
    return make_batch(seed=request.param, page_size=request.param)


def expected_table(batch, width: int) -> np.ndarray:
    table = np.full((batch.batch_size, width), -1)
    for i in range(batch.batch_size):
        pages = batch.pages(i)
        table[i, : len(pages)] = pages
    return table


def test_flashmla_builds_the_page_table_over_padding_of_minus_one(batch) -> None:
    run = run_index_kernel("flashmla", batch)
    assert (run.before == -1).all()
    assert run.after.shape[1] * batch.page_size % 128 == 0
    assert np.array_equal(run.after, expected_table(batch, run.after.shape[1]))


def test_flashinfer_builds_the_slots_of_all_tokens(batch) -> None:
    run = run_index_kernel("flashinfer", batch)
    assert np.array_equal(run.after, np.concatenate([batch.slots(i).numpy() for i in range(batch.batch_size)]))


@pytest.mark.parametrize("kernel", ["flashmla", "flashinfer"])
def test_replaying_the_moments_gives_the_output(batch, kernel: str) -> None:
    run = run_index_kernel(kernel, batch)
    replayed = run.before.copy()
    for moment in run.moments[run.moments[:, column["write_tensor"]] != NONE]:
        row, place = moment[column["write_row"]], moment[column["write_column"]]
        replayed[(row, place) if replayed.ndim == 2 else place] = moment[column["write_value"]]
    assert np.array_equal(replayed, run.after)


@pytest.mark.parametrize("kernel", ["flashmla", "flashinfer"])
def test_every_read_of_a_moment_shows_the_value_that_is_there(batch, kernel: str) -> None:
    run = run_index_kernel(kernel, batch)
    names = [tensor.name for tensor in run.trace.tensors]
    for moment in run.moments[run.moments[:, column["read_tensor"]] != NONE]:
        array = run.inputs[names[moment[column["read_tensor"]]]]
        row, place = moment[column["read_row"]], moment[column["read_column"]]
        assert array[(row, place) if array.ndim == 2 else place] == moment[column["read_value"]]


@pytest.mark.parametrize("kernel", ["flashmla", "flashinfer"])
def test_step_and_program_ends_cut_the_moments(batch, kernel: str) -> None:
    run = run_index_kernel(kernel, batch)
    assert run.step_ends[-1] == run.program_ends[-1] == len(run.moments)
    assert set(run.program_ends) <= set(run.step_ends)
    starts = np.concatenate(([0], run.program_ends[:-1]))
    for program, (start, end) in enumerate(zip(starts, run.program_ends, strict=True)):
        assert (run.moments[start:end, 0] == program).all()


def test_touched_at_names_the_moment_of_every_entry(batch) -> None:
    run = run_index_kernel("flashmla", batch)
    touched = run.touched_at
    assert ((touched[run.output] > 0) == (run.after >= 0)).all()
    i, page = 3, len(batch.pages(3)) - 1
    moment = run.moments[touched[run.output][i, page] - 1]
    assert moment[column["write_value"]] == batch.pages(3)[page]
    read = touched["req_to_token"][batch.reqs[3].req_pool_idx]
    assert np.flatnonzero(read).tolist() == list(range(0, int(batch.seq_lens[3]), batch.page_size))


def test_an_empty_batch_has_nothing_to_step_through() -> None:
    batch = sglab.decode_batch([5], page_size=16, **SMALL)
    batch.free(0)
    for kernel in ("flashmla", "flashinfer"):
        run = run_index_kernel(kernel, batch)
        assert len(run.moments) == 0
        assert run.after.size == 0


def test_the_run_leaves_the_batch_alone(batch) -> None:
    before = batch.req_to_token.clone(), batch.seq_lens.clone(), batch.free_pages()
    run_index_kernel("flashmla", batch)
    assert torch.equal(batch.req_to_token, before[0])
    assert torch.equal(batch.seq_lens, before[1])
    assert batch.free_pages() == before[2]


def test_req_to_token_is_recorded_as_it_is(batch) -> None:
    run = run_index_kernel("flashinfer", batch)
    assert run.inputs["req_to_token"].shape == tuple(batch.req_to_token.shape)
    assert np.array_equal(run.inputs["req_to_token"], batch.req_to_token.numpy())
