"""The shipped model: what trains it and what serves it are the same function."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import torch

from sglab.models import from_config
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
