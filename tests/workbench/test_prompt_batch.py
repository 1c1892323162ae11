"""prompt_batch: what a model attends to, as a batch to look at."""

import pytest
import torch

import sglab
from sglab.engine import BadArgumentError
from sglab.models import from_config, load_model, load_tokenizer
from sglab.serving import Engine
from sglab.workbench import max_error, prompt_batch, reference
from tests.support.gpt_oss_model import gpt_oss
from tests.support.models import Driver

TEXTS = ["Repeat: abc wxy pq\nabc w", "Mia had two apples."]


@pytest.mark.parametrize("layer", [0, 3])
def test_queries_and_keys_are_the_model_s_own(layer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = prompt_batch(TEXTS, layer=layer, page_size=16, dtype="float32", layout="fragmented")
    prompts = [load_tokenizer("tiny").encode(text) for text in TEXTS]
    assert batch.seq_lens.tolist() == [len(prompt) for prompt in prompts]
    assert [req.token_ids() for req in batch.reqs] == prompts
    model = load_model("tiny")
    driver, outputs = Driver(model, page_size=16), []
    attend = driver.backend.forward

    def watched(*arguments: object, **options: object) -> torch.Tensor:
        outputs.append(attend(*arguments, **options))  # type: ignore[arg-type]
        return outputs[-1]

    monkeypatch.setattr(driver.backend, "forward", watched)
    driver.prefill(prompts)
    last = torch.tensor([len(prompt) for prompt in prompts]).cumsum(0) - 1
    expected = outputs[layer][last].view(2, batch.num_heads, -1)
    assert max_error(sglab.attend(batch, "torch_native"), expected) < 1e-4
    assert max_error(reference(batch).o, expected) < 1e-4


def test_the_kernels_attend_to_it() -> None:
    batch = sglab.prompt_batch(TEXTS[0], page_size=128)
    assert max_error(sglab.attend(batch, "cutlass_mla"), reference(batch).o) < 5e-3


def test_models_with_heads_of_their_own() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    batch = prompt_batch([[5, 6, 7], [8]], from_config(config), layer=1, page_size=4)
    assert (batch.kind, batch.num_heads, batch.num_kv_heads) == ("mha", 4, 2)
    assert max_error(sglab.attend(batch, "torch_native"), reference(batch).o) < 1e-5


@pytest.mark.parametrize("layer", [0, 1])
def test_windows_and_sinks_are_those_of_the_model(layer: int) -> None:
    """Sinks were left out of what was stepped, and of the reference that it was held against."""
    model = gpt_oss()
    batch = prompt_batch([list(range(3, 33))], model, layer, page_size=4)
    keys, values = batch.runner.token_to_kv_pool.get_kv_buffer(layer)
    slots = batch.slots(0)[-9:] if layer == 0 else batch.slots(0)
    sinks = model.get_parameter(f"model.layers.{layer}.self_attn.sinks").double()
    expected = []
    for head, q in enumerate(batch.q[0].double()):
        k, v = keys[slots, head // 3].double(), values[slots, head // 3].double()
        weights = torch.cat([k @ q * 16**-0.5, sinks[head, None]]).softmax(0)
        expected.append(weights[:-1] @ v)
    assert max_error(reference(batch).o, torch.stack(expected)[None]) < 1e-12
    assert max_error(sglab.attend(batch, "torch_native"), torch.stack(expected)[None]) < 1e-5


def test_a_kernel_that_is_stepped_has_the_layer_s_window_and_sinks() -> None:
    pytest.importorskip("triton")
    recording = (engine := Engine(gpt_oss(), page_size=16, max_total_tokens=256)).record()
    engine.generate([list(range(3, 33))], {"temperature": 0, "max_new_tokens": 2, "ignore_eos": True})
    for step, layer in ((0, 1), (1, 0), (1, 1)):  # an extend, a decode
        batch = sglab.step_batch(recording, step, layer, dtype="float16")
        assert batch.sinks is not None
        assert max_error(sglab.trace(batch, "triton").result, reference(batch).o) < 5e-3


def test_what_is_refused() -> None:
    with pytest.raises(BadArgumentError, match=r"layer: expected an integer 0\.\.3, got 4"):
        prompt_batch("a", layer=4)
    with pytest.raises(BadArgumentError, match="prompts: expected one or more"):
        prompt_batch([])
    with pytest.raises(BadArgumentError, match="prompts: expected token ids for a model that was loaded before"):
        prompt_batch("a", load_model("tiny"))
