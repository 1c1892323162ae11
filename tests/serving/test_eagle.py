"""EAGLE: a layer that drafts from the target's hidden states changes the number of passes and nothing else."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from sglab.engine import BadArgumentError, ForwardBatch, ModelConfig
from sglab.models import DeepseekMTP, from_config
from sglab.models.deepseek import DeepseekV2ForCausalLM
from sglab.serving import Engine
from tests.support.tiny_configs import DEEPSEEK

VOCAB = DEEPSEEK["vocab_size"]
PROMPTS = [[3, 4, 5, 6] * 5, [9, 2, 40], list(range(11))]


def drawn() -> tuple[DeepseekV2ForCausalLM, DeepseekMTP]:
    target = from_config({**DEEPSEEK, "max_position_embeddings": 256}, seed=1)
    assert isinstance(target, DeepseekV2ForCausalLM)
    for parameter in target.parameters():
        parameter.mul_(8 if parameter.dim() > 1 else 1)
    draft = DeepseekMTP(target).eval()
    for parameter in draft.parameters():
        parameter.copy_(torch.randn(parameter.shape) * 0.1 if parameter.dim() > 1 else torch.ones(parameter.shape))
    return target, draft


def engine(target: Any, draft: Any, steps: int = 3, topk: int = 2, drafts: int = 5, **more: Any) -> Engine:
    return Engine(
        target,
        speculative_algorithm="EAGLE",
        draft_model=draft,
        speculative_num_steps=steps,
        speculative_eagle_topk=topk,
        speculative_num_draft_tokens=drafts,
        check_invariants=True,
        **{"max_total_tokens": 640, **more},
    )


@pytest.mark.parametrize(("steps", "topk", "drafts", "more"), [
    (3, 2, 5, {}),
    (1, 1, 2, {"page_size": 16}),
    (4, 1, 4, {"page_size": 4, "chunked_prefill_size": 8}),
    (2, 3, 8, {"max_total_tokens": 64, "schedule_conservativeness": 0.1}),
])  # fmt: skip
@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 0.7, "sampling_seed": 5}])
def test_tokens_are_those_of_plain_decoding(
    steps: int, topk: int, drafts: int, more: dict[str, Any], sampling: dict[str, Any]
) -> None:
    target, draft = drawn()
    each = [{**sampling, "max_new_tokens": n} for n in (14, 9, 12)]
    plain = Engine(target, max_total_tokens=640).generate(PROMPTS, each)
    found = engine(target, draft, steps, topk, drafts, **more)
    assert [o.token_ids for o in found.generate(PROMPTS, each)] == [o.token_ids for o in plain]
    assert found.generate(PROMPTS[0], each[0]).token_ids == plain[0].token_ids  # its prefix is cached now


class Recorder:
    """A draft layer that says what the target would, and remembers what it was given."""

    def __init__(self, target: DeepseekV2ForCausalLM, text: list[int]) -> None:
        self.target, self.text, self.seen = target, text, {}

    def __call__(
        self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: ForwardBatch, states: torch.Tensor
    ) -> torch.Tensor:
        if not forward_batch.forward_mode.is_target_verify():
            for token, position, state in zip(input_ids.tolist(), positions.tolist(), states, strict=True):
                self.seen[position] = token, state
        return positions[:, None].float().expand(-1, states.shape[1])

    def compute_logits(self, hidden_rows: torch.Tensor) -> torch.Tensor:
        after = [self.text[min(int(row) + 2, len(self.text) - 1)] for row in hidden_rows[:, 0]]
        return torch.nn.functional.one_hot(torch.tensor(after), VOCAB) * 20.0

    def attention_config(self) -> ModelConfig:
        return self.target.attention_config()


def test_the_draft_has_each_token_with_the_state_before_it_and_a_right_one_is_accepted() -> None:
    target, _ = drawn()
    greedy = {"temperature": 0, "max_new_tokens": 24}
    plain = Engine(target, max_total_tokens=640, disable_radix_cache=True)
    prompt = PROMPTS[0]
    text = [*prompt, *plain.generate(prompt, greedy).token_ids]
    states: list[torch.Tensor] = []
    hook = target.model.register_forward_hook(lambda module, args, output: states.append(output))
    plain.generate(text, {"temperature": 0, "max_new_tokens": 1})
    hook.remove()
    recorder = Recorder(target, text)
    found = engine(target, recorder, steps=3, topk=2, drafts=6)
    assert found.generate(prompt, greedy).token_ids == text[len(prompt) :]
    for position, (token, state) in recorder.seen.items():
        assert token == text[position + 1]
        assert torch.allclose(state, states[0][position], rtol=1e-3, atol=1e-4)
    assert set(range(len(text) - 5)) <= set(recorder.seen)
    verified = [step for step in found.history.steps if step.mode == "TARGET_VERIFY"]
    assert len(verified) == 6, "three drafts and one more token a pass, of 23 after the prefill's"
    assert sum(step.accepted for step in verified) >= 17


def test_without_a_seed_the_distribution_is_the_targets() -> None:
    """Chi-square over two sampled tokens, of which a draft may have brought the second."""
    target, draft = drawn()
    count, sampling, prompt = 300, {"temperature": 1.0, "top_k": 2, "max_new_tokens": 3}, PROMPTS[1]
    found = engine(target, draft, max_running_requests=50, max_total_tokens=2000)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(count // 50):
        for output in found.generate([prompt] * 50, sampling):
            seen[tuple(output.token_ids[1:])] = seen.get(tuple(output.token_ids[1:]), 0) + 1
    tell = Engine(target, max_total_tokens=640)

    def two(tokens: list[int]) -> list[tuple[int, float]]:
        top = tell.generate(tokens, {"temperature": 0, "max_new_tokens": 1}, return_logprob=True, top_logprobs_num=2)
        weights = torch.tensor([p for _, p in top.top_logprobs[0]], dtype=torch.float64).softmax(-1)
        return [(token, float(w)) for (token, _), w in zip(top.top_logprobs[0], weights, strict=True)]

    exact: dict[tuple[int, ...], float] = {}
    for first, p in two(prompt):
        for second, q in two([*prompt, first]):
            for third, r in two([*prompt, first, second]):
                exact[second, third] = exact.get((second, third), 0.0) + p * q * r
    assert set(seen) <= set(exact)
    statistic = sum((seen.get(key, 0) - p * count) ** 2 / (p * count) for key, p in exact.items())
    degrees = max(len(exact) - 1, 1)
    assert (statistic - degrees) / math.sqrt(2 * degrees) < 5


def test_a_draft_layer_is_asked_for() -> None:
    target, _ = drawn()
    with pytest.raises(BadArgumentError, match="draft_model: expected a model with speculative_algorithm='STANDALONE'"):
        Engine(target, speculative_algorithm="EAGLE")
