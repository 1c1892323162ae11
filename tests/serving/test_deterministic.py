"""Deterministic inference: a request's logits do not depend on its batch, bit for bit."""

import pytest
import torch

from sglab.serving import Engine
from sglab.serving.batch_invariant import TILE, BatchInvariantMode
from tests.support.serving.tiny import prompts, tiny_llama


@pytest.mark.parametrize("rows", [1, 5, TILE, TILE + 1, 100])
def test_a_row_alone_is_the_row_in_any_product(rows: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    a, weight, bias = (torch.randn(*shape, generator=generator) for shape in ((rows, 200), (77, 200), (77,)))
    with torch.inference_mode(), BatchInvariantMode():
        whole = torch.nn.functional.linear(a, weight, bias)
        for row in range(rows):
            assert torch.equal(torch.nn.functional.linear(a[row : row + 1], weight, bias)[0], whole[row])
    torch.testing.assert_close(whole.double(), a.double() @ weight.double().T + bias, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("graph", [False, True])
def test_logprobs_of_a_request_are_the_same_in_any_company(graph: bool) -> None:
    given = {"max_total_tokens": 1024, "disable_radix_cache": True, "enable_deterministic_inference": True}
    given |= {"cuda_graph": graph, "cuda_graph_bs": (1, 8)}
    sampling = {"temperature": 0.9, "max_new_tokens": 12}
    outputs = []
    for company in (0, 6):
        engine = Engine(tiny_llama(), **given)
        handle = engine.submit([5, 6, 7, 8], sampling, return_logprob=True, top_logprobs_num=5)
        for prompt in prompts(company):
            engine.submit(prompt, {"temperature": 1.0, "max_new_tokens": 9})
        engine.run()
        outputs.append(handle.output())
    assert outputs[0].token_ids == outputs[1].token_ids
    assert outputs[0].top_logprobs == outputs[1].top_logprobs, "equal to the last bit"
