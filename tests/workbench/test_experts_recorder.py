"""What is recorded of routing is what the model did: against float64, and against the layer's own output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import sglab
from sglab import gpu
from sglab.engine import BadArgumentError
from sglab.models import from_config
from sglab.serving import Engine
from sglab.serving.ranks import Ranks
from sglab.workbench import RoutingRun, record_experts
from sglab.workbench.recorders.experts import find_mixtures
from tests.support.ranks import fork_follower
from tests.support.serving.tiny import tiny_llama
from tests.support.tiny_configs import DEEPSEEK, QWEN3_MOE

GROUPED = {**DEEPSEEK, "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "max_position_embeddings": 128}
CONFIGS = {"qwen3_moe": {**QWEN3_MOE, "max_position_embeddings": 128}, "deepseek": GROUPED}
PROMPTS = [[3, 4, 5, 6, 7], [9, 2, 40]]


def engine(name: str, **more: Any) -> Engine:
    model = from_config(CONFIGS[name], seed=3)
    for parameter in model.parameters():
        parameter.mul_(8 if parameter.dim() > 1 else 1)
    for one in model.modules():
        if getattr(one, "e_score_correction_bias", None) is not None:
            one.e_score_correction_bias.copy_(torch.randn(8) * 0.2)
    return Engine(model, max_total_tokens=256, **more)


def recorded(name: str, **more: Any) -> RoutingRun:
    made = engine(name, **more)
    with made, record_experts(made) as run:
        made.generate(PROMPTS, {"temperature": 0, "max_new_tokens": 4})
    return run


@pytest.mark.parametrize("name", CONFIGS)
def test_routing_is_what_float64_makes_of_the_recorded_rows(name: str) -> None:
    run = recorded(name)
    assert [one.mode for one in run.passes][:2] == ["EXTEND", "DECODE"]
    for one in run.passes:
        for routed in one.layers:
            mixture = routed.mixture
            logits = routed.x.double() @ mixture.gate.weight.double().T
            scores = logits.softmax(-1) if mixture.topk.scoring == "softmax" else logits.sigmoid()
            assert torch.allclose(routed.logits.double(), logits, rtol=1e-4, atol=1e-4)
            assert torch.allclose(routed.scores.double(), scores, rtol=1e-4, atol=1e-5)
            choice = routed.scores.double() + (0 if mixture.bias is None else mixture.bias.double())
            groups, per = mixture.groups, mixture.num_experts // mixture.groups
            for t in range(len(one.tokens)):
                best = choice[t].view(groups, per).sort(-1, descending=True).values
                value = best[:, :2].sum(-1) if mixture.bias is not None else best[:, 0]
                kept = set(range(groups)) if groups == 1 else set(value.topk(mixture.topk.topk_group).indices.tolist())
                assert set(routed.kept_groups[t].nonzero()[:, 0].tolist()) == kept
                allowed = [e for e in range(mixture.num_experts) if e // per in kept]
                chosen = sorted(allowed, key=lambda e, t=t: -float(choice[t, e]))[: mixture.topk.top_k]
                assert set(routed.ids[t].tolist()) == set(chosen)
                weights = scores[t, routed.ids[t]]
                if mixture.topk.renormalize:
                    weights = weights / weights.sum()
                assert torch.allclose(
                    routed.weights[t].double(), weights * mixture.topk.routed_scaling_factor, rtol=1e-4
                )


def test_tokens_positions_and_rows_are_those_of_the_pass() -> None:
    run = recorded("qwen3_moe")
    first = run.passes[0]
    assert first.tokens.tolist() == PROMPTS[0] + PROMPTS[1]
    assert first.positions.tolist() == [*range(5), *range(3)]
    assert first.requests.tolist() == [0] * 5 + [1] * 3
    assert run.passes[1].positions.tolist() == [5, 3] and run.passes[1].requests.tolist() == [0, 1]


def test_requests_keep_their_names_when_their_rows_of_the_batch_change() -> None:
    made = engine("qwen3_moe")
    short, long = ({"temperature": 0, "max_new_tokens": count} for count in (2, 5))
    with made, record_experts(made) as run:
        made.submit(PROMPTS[0], short, rid="short")
        made.submit(PROMPTS[1], long, rid="long")
        made.run()
    assert (run.passes[0].rids, run.passes[-1].rids) == (("short", "long"), ("long",))
    assert run.passes[-1].requests.tolist() == [0]
    assert all(len(one.rids) == int(one.requests.max()) + 1 for one in run.passes)


def test_loads_add_up_and_blocks_hold_every_choice_once() -> None:
    run = recorded("deepseek")
    tokens = sum(len(one.tokens) for one in run.passes)
    assert run.load.sum(1).tolist() == [tokens * 2] * len(run.mixtures)
    for one in run.passes:
        for routed in one.layers:
            for block in (1, 4, 16):
                sorted_ids, expert_ids, post_pad = (part.tolist() for part in routed.align(block))
                choices, flat = routed.ids.numel(), routed.ids.flatten().tolist()
                rows = sorted_ids[: post_pad[0]]
                assert sorted(row for row in rows if row < choices) == list(range(choices))
                assert post_pad[0] == sum(-(-int(n) // block) * block for n in routed.load)
                for at, row in enumerate(rows):
                    assert row == choices or flat[row] == expert_ids[at // block]


def test_eplb_evens_out_what_is_uneven_and_every_expert_is_somewhere() -> None:
    run = recorded("deepseek")
    before, after = run.place(2, 2)
    for even, placed, load in zip(before, after, run.load.numpy(), strict=True):
        assert even.rank_load.sum() == load.sum()
        assert placed.rank_load.sum() == pytest.approx(load.sum())  # a copy of three has a third, which is rounded
        assert set(placed.physical) == set(range(8)) and len(placed.physical) == 10
        copies = np.bincount(placed.physical)
        shares = (load / copies)[placed.physical].reshape(2, 5).sum(1)
        assert shares == pytest.approx(placed.rank_load)
    with torch.inference_mode():
        for one in run.passes:
            one.layers[0].ids.copy_(torch.tensor([0, 1]))  # all of it on rank 0
    before, after = run.place(2, 2)
    assert before[0].rank_load.tolist() == [run.load[0].sum(), 0]
    assert after[0].rank_load.tolist() == [run.load[0].sum() / 2] * 2
    for wrong, message in (((3, 1), "ranks: expected a divisor of the 8 experts, got 3"), ((4, 5), "With 8 all hold")):
        with pytest.raises(BadArgumentError, match=message):
            run.place(*wrong)


@pytest.mark.skipif(not hasattr(gpu, "capture"), reason="needs the emulator")
def test_the_kernel_computes_what_the_layer_did_on_the_same_rows() -> None:
    pytest.importorskip("triton")
    run = recorded("qwen3_moe")
    routed = run.passes[1].layers[0]
    launches = gpu.capture(routed.compute)
    assert [launch.name for launch in launches].count("fused_moe_kernel") == 2
    experts, x = routed.mixture.experts, routed.x.double()
    expected = torch.zeros_like(x)
    for t, (ids, weights) in enumerate(zip(routed.ids, routed.weights, strict=True)):
        for e, weight in zip(ids.tolist(), weights.double(), strict=True):
            gate, up = (experts.w13[e].double() @ x[t]).chunk(2)
            expected[t] += weight * (experts.w2[e].double() @ (torch.nn.functional.silu(gate) * up))
    assert torch.allclose(launches.result.double(), expected, rtol=1e-3, atol=1e-3)


def test_a_model_s_own_passes_are_recorded_and_nothing_is_left_on_it() -> None:
    made = engine("qwen3_moe")
    before = sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in made.model.modules())
    with record_experts(made.model) as run:
        sglab.prompt_batch(PROMPTS, made.model, page_size=4)
    assert len(run.passes) == 1 and run.texts == {}
    assert sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in made.model.modules()) == before
    made.generate(PROMPTS, {"temperature": 0, "max_new_tokens": 2})
    assert len(run.passes) == 1


def test_a_pass_that_an_error_ended_is_not_kept() -> None:
    """Half of its layers would be missing: it could not be shown, and the load of the others would be counted twice."""
    made = from_config({**QWEN3_MOE, "num_hidden_layers": 2})
    mixtures = find_mixtures(made)
    with record_experts(made) as run:
        sglab.prompt_batch(PROMPTS, made, page_size=4)
        hook = mixtures[1].experts.register_forward_pre_hook(_fails)
        with pytest.raises(ZeroDivisionError):
            sglab.prompt_batch(PROMPTS, made, page_size=4)
        hook.remove()
        sglab.prompt_batch(PROMPTS, made, page_size=4)
    assert [(one.number, len(one.layers)) for one in run.passes] == [(0, 2), (1, 2)]
    assert run.load.sum(1).tolist() == [2 * 2 * len(run.passes[0].tokens)] * 2


def _fails(*_: object) -> None:
    raise ZeroDivisionError


def test_bad_calls_name_what_is_wrong() -> None:
    with (
        pytest.raises(BadArgumentError, match="source: expected a model with experts"),
        record_experts(Engine(tiny_llama(), max_total_tokens=256)),
    ):
        pass
    graphs = engine("qwen3_moe", cuda_graph=True, cuda_graph_bs=(1,))
    with pytest.raises(BadArgumentError, match="replays graphs"), record_experts(graphs):
        pass
    with pytest.raises(BadArgumentError, match="source: expected an engine or a model, got int"), record_experts(7):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("options", [{"dp_size": 2}, {"enable_two_batch_overlap": True}], ids=str)
def test_passes_that_layers_do_not_see_as_they_are_are_refused(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experts see the tokens of all groups, and rank 0 knows its own; halves of a pass come to a layer in turns."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    with (
        Engine("tiny", device="cpu", tp_size=2, page_size=16, max_total_tokens=256, **options) as made,
        pytest.raises(BadArgumentError, match="choose the same experts"),
        record_experts(made),
    ):
        pass


def test_a_run_is_one_line_in_a_notebook() -> None:
    assert repr(recorded("deepseek")).startswith("<routing of DeepseekV3ForCausalLM, 1 mixture of 8 experts, 4 passes")
