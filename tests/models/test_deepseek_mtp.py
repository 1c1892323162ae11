"""DeepSeek's draft layer against transformers: its checkpoint, its prefill and what it drafts further."""

import json
from pathlib import Path

import pytest
import torch

from sglab.engine import ForwardBatch, MLATokenToKVPool
from sglab.models import load_model, load_mtp
from tests.support.deepseek import SHAPE, V3
from tests.support.models import Driver, oracle, prompts, relative_error

LAYER = f"model.layers.{SHAPE['num_hidden_layers']}"


def test_the_draft_layer(tmp_path: Path) -> None:
    modeling_layers = pytest.importorskip("transformers.modeling_layers")
    safetensors = pytest.importorskip("safetensors.torch")
    config = {**SHAPE, **V3, "first_k_dense_replace": 0, "num_nextn_predict_layers": 1}
    theirs, _ = oracle("DeepseekV3ForCausalLM", tmp_path, config)
    torch.manual_seed(5)
    draft = modeling_layers.MtpModel(theirs, 1).eval()
    own = draft.layers[0]
    with torch.no_grad():
        for name, parameter in own.named_parameters():  # not all of them were initialised
            parameter.copy_(0.1 * torch.randn(parameter.shape) + ("norm" in name))
        own.mtp_block.mlp.gate.e_score_correction_bias.normal_(std=0.1)
    tensors = dict(safetensors.load_file(tmp_path / "model.safetensors"))
    tensors |= {f"{LAYER}.{name}": tensor for name, tensor in checkpoint_names(own.state_dict()).items()}
    safetensors.save_file(tensors, tmp_path / "model.safetensors")
    assert json.loads((tmp_path / "config.json").read_text())["num_hidden_layers"] == SHAPE["num_hidden_layers"]

    target = load_model(tmp_path, dtype="float32")
    ours = load_mtp(tmp_path, target)
    (prompt,) = prompts([40], 131)
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        hidden = theirs.model(ids[:, :-1]).last_hidden_state
        positions = torch.arange(1, len(prompt))[None]
        expected = draft.forward_layer(0, hidden, positions, None, input_ids=ids[:, 1:])[0]
        logits = draft._project_to_logits(expected)

    driver = Driver(target)
    shape = ours.attention_config()
    pool = MLATokenToKVPool(
        driver.runner.token_to_kv_pool.size, 4, torch.float32, shape.kv_lora_rank, shape.qk_rope_head_dim, 1
    )
    mine = []

    def follow(forward_batch: ForwardBatch, states: torch.Tensor) -> None:
        """Run the draft over the same pass: the token after each, over a pool of its own."""
        following = ids[0, forward_batch.positions + 1]
        forward_batch.token_to_kv_pool = pool
        with torch.inference_mode():
            mine.append(ours(following, forward_batch.positions, forward_batch, states))

    plain = driver.run
    driver.run = lambda batch: (states := plain(batch), follow(driver.last, states))[0]  # type: ignore[method-assign]
    driver.prefill([prompt[:-1]], chunk=13)
    out = torch.cat(mine)
    assert relative_error(out, expected) < 1e-4
    assert relative_error(ours.compute_logits(out), logits) < 1e-4


def checkpoint_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Names of the released checkpoints, with a matrix per expert."""
    named: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        name = name.removeprefix("mtp_block.").replace("post_norm.", "shared_head.norm.")
        if name == "mlp.experts.gate_up_proj":
            for i, one in enumerate(tensor):
                gate, up = one.chunk(2)
                named |= {f"mlp.experts.{i}.gate_proj.weight": gate.contiguous()}
                named |= {f"mlp.experts.{i}.up_proj.weight": up.contiguous()}
        elif name == "mlp.experts.down_proj":
            named |= {f"mlp.experts.{i}.down_proj.weight": one.contiguous() for i, one in enumerate(tensor)}
        else:
            named[name] = tensor
    return named
