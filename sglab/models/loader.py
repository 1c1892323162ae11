"""load_model: from a folder, a hub id or the shipped model's name to a model with its weights."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from sglab.engine import arguments
from sglab.engine.errors import BadArgumentError
from sglab.layers import SINGLE, TensorParallel
from sglab.layers.quantization import QuantizationConfig, parse_quantization
from sglab.layers.quantization.online import rounding
from sglab.models.causal_lm import CausalLM
from sglab.models.gguf import GgufFile
from sglab.models.gguf_model import gguf_config, gguf_quantization, gguf_weights
from sglab.models.prepare import (
    process_weights_after_loading,
    quantize_layers,
    quantize_weights,
    relocate_experts,
    without_kv_scales,
)
from sglab.models.registry import model_class
from sglab.models.safetensors import read_safetensors

LoadFormat = Literal["auto", "dummy"]
SHIPPED = {"tiny": Path(__file__).parent / "tiny"}
"""Name -> folder in the package."""


def load_model(
    path_or_id: str | Path,
    *,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device = "cpu",
    quantization: str | None = None,
    load_format: LoadFormat = "auto",
    context_len: int | None = None,
    tp: TensorParallel = SINGLE,
    seed: int = 0,
    expert_location: Sequence[Sequence[int]] | None = None,
) -> CausalLM:
    """Read a model.

    Args:
        path_or_id: a folder with config.json and *.safetensors; a .gguf file; "tiny", the model
            that ships with sglab; or a hub id such as "Qwen/Qwen3-0.6B", which needs the package huggingface_hub.
        dtype: "float32", "float16" or "bfloat16"; None: what config.json says, but on a CPU float32, which is faster
            there.
        device: where its weights live.
        quantization: round weights of full precision to "fp8", "w8a8_int8", "mxfp8" or "mxfp4" as they are loaded;
            None: they stay as they are. How a quantised checkpoint is stored is said by its config.json.
        load_format: "auto" reads the weights; "dummy" draws them at random, with `seed` and in full precision.
        context_len: positions to load for; None: config.json's max_position_embeddings.
        tp: the shard to load.
        expert_location: of each layer with experts, in order, the experts that are held, some more than once: equal
            shares for the tp.ep_size ranks (`sglab.layers.moe.rebalance_experts`). None: each once.

    Raises:
        BadArgumentError: no such model, or one that is not known here. WeightError: weights that do not fit.
    """
    arguments.choice("load_format", load_format, ("auto", "dummy"))
    config, stored, weights = _source(path_or_id, load_format == "auto")
    if quantization is not None and stored is not None:
        got = f"{quantization!r} for a checkpoint in {stored.method}"
        raise BadArgumentError("quantization", "None for a quantised checkpoint", got, "Leave it out.")
    asked = None if quantization is None else rounding(quantization)
    if load_format == "dummy":
        model = from_config(config, dtype, device, seed, context_len=context_len, tp=tp)
    else:
        model = _construct(config, dtype, device, context_len, tp)
        if expert_location is not None:
            with default_dtype(model.dtype), model.device:
                relocate_experts(model, expert_location)
        _fill(model, weights, stored)
    if asked is not None:
        quantize_weights(model, asked)
    process_weights_after_loading(model)
    return model.eval()


def _source(
    path_or_id: str | Path, with_weights: bool
) -> tuple[dict[str, Any], QuantizationConfig | None, Iterator[tuple[str, torch.Tensor]]]:
    """config.json, what is quantised and how, and the weights, which are not read yet."""
    if Path(path_or_id).suffix == ".gguf" and Path(path_or_id).is_file():
        file = GgufFile(Path(path_or_id))
        config = gguf_config(file)
        return config, gguf_quantization(file), gguf_weights(file, config)
    folder = model_folder(path_or_id, with_weights)
    config = read_config(folder)
    return config, parse_quantization(config.get("quantization_config")), checkpoint(folder)


def _fill(model: CausalLM, weights: Iterable[tuple[str, torch.Tensor]], stored: QuantizationConfig | None) -> None:
    """Load a checkpoint's tensors, in its own formats where it is quantised."""
    if stored is not None:
        with default_dtype(model.dtype):
            quantize_layers(model, stored)
        weights = without_kv_scales(weights)
    model.load_weights(weights)


def from_config(
    config: dict[str, Any],
    dtype: str | torch.dtype | None = None,
    device: str | torch.device = "cpu",
    seed: int = 0,
    *,
    context_len: int | None = None,
    tp: TensorParallel = SINGLE,
) -> CausalLM:
    """A model with random weights: matrices normal with deviation 0.02, norms 1, biases 0.

    Args:
        config: what config.json would hold.

    Raises:
        BadArgumentError: an architecture or a value that is not known here.
    """
    model = _construct(config, dtype, device, context_len, tp)
    generator = torch.Generator(model.device).manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02, generator=generator)
        else:
            nn.init.constant_(parameter, 0.0 if name.endswith("bias") else 1.0)
    return model.eval()


def model_folder(path_or_id: str | Path, weights: bool = True) -> Path:
    """The folder that holds a model's files; a hub id's are fetched.

    Raises:
        BadArgumentError: there is none of that name, or it has no config.json.
    """
    folder = SHIPPED.get(str(path_or_id), Path(path_or_id))
    if not folder.is_dir():
        if _is_path(str(path_or_id)):  # never a hub id: it need not be asked for
            raise BadArgumentError("path_or_id", "a folder", repr(str(path_or_id)), "There is no such folder here.")
        folder = _from_hub(str(path_or_id), weights)
    if not (folder / "config.json").is_file():
        remedy = "Give the folder that the checkpoint was unpacked to."
        raise BadArgumentError("path_or_id", "a folder with config.json", str(folder), remedy)
    return folder


def _is_path(name: str) -> bool:
    """Whether it cannot be a hub id, which is a name or an owner and a name."""
    return name.startswith(("/", ".", "~")) or name.count("/") > 1 or "\\" in name


def read_config(folder: Path) -> dict[str, Any]:
    """config.json; what ModelOpt wrote beside it, hf_quant_config.json, is its quantization_config.

    Raises:
        BadArgumentError: one of them holds no JSON object.
    """
    config = _read_object(folder / "config.json")
    beside = folder / "hf_quant_config.json"
    if not config.get("quantization_config") and beside.is_file():
        config["quantization_config"] = _read_object(beside)["quantization"]
    return config


def _read_object(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise BadArgumentError(str(file), "a JSON object", f"{error}", "Fetch it again.") from None
    if not isinstance(found, dict):
        raise BadArgumentError(str(file), "a JSON object", type(found).__name__, "Fetch it again.")
    return found


def checkpoint(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of a folder's *.safetensors files, by name.

    Raises:
        BadArgumentError: it has none.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        remedy = 'Fetch them, or use load_format="dummy" for random weights.'
        raise BadArgumentError("path_or_id", "a folder with *.safetensors", str(folder), remedy)
    for file in files:
        yield from read_safetensors(file)


def _from_hub(name: str, weights: bool) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        remedy = "For a hub id, pip install huggingface_hub; else give a folder."
        known = " or ".join(map(repr, SHIPPED))
        raise BadArgumentError("path_or_id", f"a folder, {known} or a hub id", repr(name), remedy) from None
    patterns = ["*.json", "*.txt", "tokenizer*", *(["*.safetensors"] if weights else [])]
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as error:
        got = f"{name!r} ({type(error).__name__})"
        remedy = "Check the name and the network; a model behind a licence needs `hf auth login`."
        raise BadArgumentError("path_or_id", "a folder or an id on the hub", got, remedy) from error


def _construct(
    config: dict[str, Any],
    dtype: str | torch.dtype | None,
    device: str | torch.device,
    context_len: int | None,
    tp: TensorParallel,
) -> CausalLM:
    made = model_class(config)
    if context_len is not None:
        arguments.integer("context_len", context_len, 1)
    parsed = made.config_class.parse(config, context_len)
    where = arguments.device("device", device)
    named = "float32" if where.type == "cpu" else config.get("dtype") or config.get("torch_dtype") or "float32"
    with default_dtype(arguments.dtype("dtype", dtype or named)), where:
        return made(parsed, tp)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
