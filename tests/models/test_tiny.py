"""The shipped model: what trains it and what serves it are the same function, and it has learned what it was taught."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
import torch

from sglab.models import from_config, load_model, load_tokenizer
from sglab.models.loader import SHIPPED
from tests.support.models import Driver, prompts, relative_error

TOOLS = Path(__file__).parents[2] / "tools" / "tiny"


def tool(name: str) -> ModuleType:
    """A module of tools/tiny, which is no package."""
    spec = importlib.util.spec_from_file_location(f"tools_tiny_{name}", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_training_forward_is_what_is_served() -> None:
    torch.manual_seed(3)
    tiny = tool("model")
    trained = tiny.TinyModel().eval()
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
            parameter.copy_(parameter.bfloat16())
        for name, buffer in trained.named_buffers():
            if name.endswith("correction_bias"):
                buffer.normal_(std=0.1)
    served = from_config(tiny.CONFIG, dtype="float32")
    served.load_weights(iter(tiny.checkpoint(trained.state_dict()).items()))
    (prompt,) = prompts([60], 256)
    with torch.inference_mode():
        expected = trained(torch.tensor([prompt]))[0]
    assert relative_error(Driver(served, page_size=16).prefill([prompt], chunk=23)[0], expected) < 1e-4


def completed(prompt: str, count: int) -> str:
    """Greedy text after a prompt, by the model that ships."""
    tokenizer = load_tokenizer("tiny")
    (output,) = Driver(load_model("tiny"), page_size=16).generate([tokenizer.encode(prompt)], count)
    return tokenizer.decode(output)


def test_the_shipped_model_is_small_and_of_the_trained_config() -> None:
    model = load_model("tiny")
    assert model.config.raw == tool("model").CONFIG
    assert (SHIPPED["tiny"] / "model.safetensors").stat().st_size <= 6_000_000
    curve = json.loads((SHIPPED["tiny"] / "loss.json").read_text())["curve"]
    assert curve[0]["loss"] > 5 and curve[-1]["validation"] < 0.2


@pytest.mark.parametrize("sum_", ["12 + 7 = 19", "36 + 47 = 83", "50 - 8 = 42"])
def test_it_adds(sum_: str) -> None:
    prompt, _, result = sum_.rpartition(" ")
    assert completed(prompt, len(result) + 2) == f" {result}\n"


@pytest.mark.parametrize("seed", range(3))
def test_it_repeats_words_that_it_never_saw(seed: int) -> None:
    """Which takes heads that look back to what followed the same letters before."""
    random = Random(seed)
    words = " ".join("".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=4)) for _ in range(4))
    assert completed(f"Repeat: {words}\n", len(words)) == words


def test_it_tells_stories() -> None:
    text = completed("Once there was", 80)
    assert re.match(r" an? \w+ who lived near the [\w ]+\. (Its name was|The \w+ was called) \w+\.", text), text
