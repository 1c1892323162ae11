"""Statements on kernels, tools and error messages."""

from __future__ import annotations

import re
from typing import Any

import torch

from sglab.gpu import EmulatedDevice, LaunchError
from sglab.kernels import (
    ContractError,
    cutlass_mla,
    cutlass_mla_decode,
    cutlass_mla_get_workspace_size,
    ptx,
)
from sglab.labs.debugging import Decode
from sglab.labs.pipelines import Pipeline
from sglab.planning import fa3_tile_size, shared_storage_qkvo
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, NUM_HEADS

from .statement import Found, statement


@statement(
    "a",
    a=(False, "The C++ has had the variant for long; it is the Python wrapper that asks for 16 bits."),
    b=(False, "B200's tensor cores have had FP8 from the first day. A layer further up refuses it."),
    c=(True, "Ask the dispatch for float8_e4m3fn: there is a kernel."),
)
def no_fp8_kernel() -> Found:
    """There is no FP8 kernel in SGLang's CUTLASS MLA decode yet, which is why Python refuses an FP8 cache."""
    variant = cutlass_mla.dispatch(torch.float8_e4m3fn, 128)
    storage = f"{variant.loader}, {variant.shared_storage:,} bytes of shared memory, O in {variant.out_dtype}"
    q = torch.zeros(1, NUM_HEADS, HEAD_DIM).to(torch.float8_e4m3fn)
    cache = torch.zeros(2, 128, HEAD_DIM).to(torch.float8_e4m3fn)
    workspace = torch.empty(cutlass_mla_get_workspace_size(512, 1), dtype=torch.uint8)
    lengths, table = torch.tensor([100], dtype=torch.int32), torch.zeros(1, 1, dtype=torch.int32)
    try:
        cutlass_mla_decode(q[..., :LATENT_DIM], q[..., LATENT_DIM:], cache, lengths, table, workspace, 0.1)
        wrapper = "runs"
    except ContractError as error:
        wrapper = str(error)
    return variant.dtype != torch.float8_e4m3fn, {"C++ variant for e4m3": storage, "the Python function": wrapper}


@statement(
    "c",
    a=(True, "Count `bar.sync 0`, which `__syncthreads()` compiles to: the SM100 kernel has none."),
    b=(False, "Warps of different roles do wait for each other, all the time. By what?"),
    c=(False, "mbarriers, on which one role waits while the others go on. A barrier for all would stop the pipeline."),
)
def syncthreads_between_phases() -> Found:
    """The phases of the SM100 MLA kernel (load, multiply, softmax) are kept apart by `__syncthreads()`."""
    found: dict[str, object] = {}
    plain = {}
    for name in ("mla_decode_sm100", "paged_decode"):
        entry = ptx.text(name).split(".entry ")[1]
        numbers = re.findall(r"bar\.sync\s+([%\w]+)", entry)
        plain[name] = numbers.count("0")
        named = len(numbers) - plain[name]
        waits = entry.count("mbarrier.try_wait")
        found[name] = f"{plain[name]} __syncthreads, {named} named barriers, {waits} waits for an mbarrier"
    return plain["mla_decode_sm100"] > 0, found


@statement(
    "b",
    a=(True, "Ask the planners for 576: both refuse, before anything about memory."),
    b=(False, "Its head dim ends at 256. FA3 takes the 64 rotary dims as the key and 512 as a value of its own."),
    c=(False, "Memory was never asked: the number of dims is a constant of the compiled kernels."),
)
def fa2_runs_576() -> Found:
    """FlashAttention-2 can run absorbed MLA, keys of 576 and values of 512; it only needs more shared memory."""
    found: dict[str, object] = {}
    refused = True
    for name, call in (
        ("tile for a head dim of 576", lambda: fa3_tile_size.round_up_headdim(576)),
        ("FlashInfer's FA2 kernels, 576 and 512", lambda: shared_storage_qkvo(64, 64, HEAD_DIM, LATENT_DIM, 1)),
    ):
        try:
            found[name] = call()
            refused = False
        except ValueError as error:
            found[name] = str(error)
    return not refused, found


@statement(
    "a",
    a=(False, "It checks addresses. Races are racecheck's, reads of what was never written are initcheck's."),
    b=(False, "Run it as often as you like: an access that is in bounds is none of its business."),
    c=(True, "Here are two kernels that race: how many findings has the memory check?"),
)
def memcheck_finds_races() -> Found:
    """A kernel that `compute-sanitizer` (memcheck, its default) passes has no races."""
    launches: dict[str, Any] = {
        "decode without its 2nd barrier": Decode(without_barrier=2),
        "early_arrival": Pipeline("early_arrival"),
    }
    found, missed = {}, True
    for name, launch in launches.items():
        memory = len(launch.run(sanitize={"memory"}).findings)
        races = len(launch.run(sanitize={"races"}).findings)
        missed &= memory == 0 and races > 0
        found[name] = f"memory check {memory} findings, race check {races}"
    return not missed, found


@statement(
    "c",
    a=(True, "Nothing is allocated in any of the three launches. Read what each is refused for."),
    b=(False, "A kernel that was compiled for another GPU gets another error (see statement 1)."),
    c=(False, "A grid, a block or an amount of shared memory that the hardware cannot launch. Check the geometry."),
)
def invalid_configuration_is_memory() -> Found:
    """The CUDA error "invalid configuration argument" means that the GPU's memory is full."""
    pipeline = Pipeline()
    arguments = pipeline._arguments()
    found: dict[str, object] = {}
    for changed in ({"grid": (1, 70_000)}, {"block": 2048}, {"smem": 300_000}):
        try:
            pipeline.kernel.launch(EmulatedDevice("sm_90a"), **{**arguments, **changed})
            found[str(changed)] = "runs"
        except LaunchError as error:
            found[str(changed)] = str(error).partition(": ")[2]
    return any("allocat" in str(text) or "full" in str(text) for text in found.values()), found


@statement(
    "b",
    a=(True, "It works with one number, and with None. Try two numbers."),
    b=(False, "A tensor of two or more numbers has no truth value. Ask `is not None`."),
    c=(False, "An empty tensor is false, that is so. But there is a case that does not get that far."),
)
def truth_of_a_tensor() -> Found:
    """`states if output.hidden_states else None` asks whether there are hidden states."""
    found = {}
    for states in (torch.zeros(1), torch.ones(1), torch.zeros(2)):
        try:
            found[f"bool({states.tolist()})"] = str(bool(states))
        except RuntimeError as error:
            found[f"bool({states.tolist()})"] = f"RuntimeError: {str(error)[:70]}"
    return set(found.values()) == {"True"}, found
