"""Statements on which GPU is which, and what it brought."""

from __future__ import annotations

from sglab.attention import HARDWARE, Model, Settings, select_attention_backend
from sglab.events.log import COPY_KINDS
from sglab.gpu import Architecture, EmulatedDevice, LaunchError
from sglab.kernels import ptx
from sglab.labs.pipelines import Pipeline

from .statement import Found, statement


@statement(
    "b",
    a=(True, "Look at what the launch says: the H100 refuses code for sm_100a, and its own kernel has other products."),
    b=(False, "The refusal names both: code for sm_100a needs tcgen05, which an H100 (sm_90a) does not have."),
    c=(False, "SM100 is no later stepping of Hopper: the instruction that multiplies is another one."),
)
def hopper_is_sm100() -> Found:
    """SM100 is NVIDIA's name for Hopper, so an H100 runs a kernel for sm_100a."""
    kernel = ptx.module("mla_decode_sm100")["mla_decode_sm100_f16"]
    try:
        kernel.launch(EmulatedDevice("sm_90a"), grid=2, cluster=2, block=352, args=[])
        refused = ""
    except LaunchError as error:
        refused = str(error)
    found: dict[str, object] = {"an H100 (sm_90a) is given code for sm_100a": refused}
    for name in ("mla_decode_sm90", "mla_decode_sm100"):
        text = ptx.text(name)
        count = f"{text.count('wgmma.mma_async')} wgmma, {text.count('tcgen05.mma')} tcgen05.mma"
        found[f"matrix products in {name}"] = count
    return not refused, found


@statement(
    "c",
    a=(True, "The run is on sm_90a, Hopper, and its copies are TMA's. What came with Blackwell is tensor memory."),
    b=(False, "An A100 (sm_80) has neither: its limit is clusters of 1, and it has cp.async, but no TMA."),
    c=(False, "Hopper has both. Blackwell's own are tcgen05, tensor memory and pairs of CTAs that multiply as one."),
)
def tma_came_with_blackwell() -> Found:
    """The copy engine TMA and clusters of CTAs came with Blackwell."""
    copies = Pipeline().record().copies
    kinds = {COPY_KINDS[kind] for kind in copies.kind}
    limits = {name: Architecture.parse(name).limits.cluster for name in ("sm_80", "sm_90a", "sm_100a")}
    found = {"copies of a pipeline that ran on sm_90a": f"{len(copies.kind)} × {', '.join(kinds)}"}
    return limits["sm_90a"] == 1, {**found, "CTAs per cluster, at most": limits}


@statement(
    "a",
    a=(False, "B300's capability is 10.3: 103. SGLang asks whether the first number is 10."),
    b=(False, "GB200 is a B200 beside a CPU of NVIDIA's: capability 10.0 as well. Which GPU has another one?"),
    c=(True, "Print B300's capability. It is Blackwell, runs the kernel, and would fall through."),
)
def capability_is_100() -> Found:
    """`capability == 100` is how a program finds the data-centre GPUs of the Blackwell generation."""
    b300 = HARDWARE["B300"]
    number = 10 * b300.capability[0] + b300.capability[1]
    chosen = select_attention_backend(b300, Model(True, "DeepseekV3ForCausalLM"))
    return number == 100, {
        "B300's capability": number,
        "equals 100": number == 100,
        "is_sm100_supported()": b300.is_sm100_supported(),
        "SGLang's choice for DeepSeek on it": chosen.decode,
    }


@statement(
    "b",
    a=(False, "They share the cache, not the kernel. Look at what the selection says for a B200."),
    b=(True, "SGLang calls it a hybrid backend: one for each mode, on one pool whose page size suits both."),
    c=(
        True,
        "It is true, but for any model: that other file is for hybrid *linear* attention. Here nothing is linear.",
    ),
)
def two_backends() -> Found:
    """One server may use one attention backend for prefill and another for decode."""
    settings = Settings("flashinfer", decode_attention_backend="cutlass_mla")
    chosen = select_attention_backend(HARDWARE["B200"], Model(True), settings)
    found = {"prefill": chosen.prefill, "decode": chosen.decode, "page size, one for both": chosen.page_size}
    return chosen.prefill != chosen.decode, found
