"""Models, one file per family, over the layers of `sglab.layers`; `load_model` reads one, `from_config` draws one."""

from sglab.models.causal_lm import CausalLM
from sglab.models.config import DecoderConfig
from sglab.models.loader import from_config, load_model, model_folder
from sglab.models.registry import ARCHITECTURES
from sglab.models.tokenizer import ByteTokenizer, Tokenizer, load_tokenizer

__all__ = [
    "ARCHITECTURES",
    "ByteTokenizer",
    "CausalLM",
    "DecoderConfig",
    "Tokenizer",
    "from_config",
    "load_model",
    "load_tokenizer",
    "model_folder",
]
