"""Reading config.json into a model's own dataclass: fields by name, with the defaults of the architecture."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

from sglab.engine.errors import BadArgumentError
from sglab.layers import RopeConfig

Config = TypeVar("Config", bound="DecoderConfig")


@dataclass
class DecoderConfig:
    """What decoder-only models have in common, under config.json's names."""

    aliases: ClassVar[dict[str, str]] = {}
    """Another name of a field in some config.json files -> the field."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int = 0
    """0: as many as query heads."""
    head_dim: int = 0
    """0: hidden_size / num_attention_heads."""
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    rope: RopeConfig = field(default_factory=lambda: RopeConfig(0, 1.0, 0, 0))
    """Filled by `parse`, as the ones below."""
    context_len: int = 0
    """Positions that the model is loaded for."""
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    """The whole config.json."""

    @classmethod
    def parse(cls: type[Config], config: dict[str, Any], context_len: int | None = None) -> Config:
        """Take what the model reads of a config.json; null counts as absent.

        Raises:
            BadArgumentError: a field without a default is missing, or a value is of another type.
        """
        config = {cls.aliases.get(name, name): value for name, value in config.items()}
        known = {one.name: one for one in fields(cls)}
        given = {name: value for name, value in config.items() if name in known and value is not None}
        for name, one in known.items():
            if name not in given and one.default is MISSING and one.default_factory is MISSING:
                remedy = "Is this the config.json of the architecture that it names?"
                raise BadArgumentError(f"config.json: {name}", "a value", "none", remedy)
            if name in given:
                _check_type(name, one, given[name])
        parsed = cls(**given)
        parsed.raw = config
        parsed.context_len = context_len or parsed.max_position_embeddings
        parsed.complete(config)
        return parsed

    def complete(self, config: dict[str, Any]) -> None:
        """Fill what follows from other fields."""
        self.num_key_value_heads = self.num_key_value_heads or self.num_attention_heads
        self.head_dim = self.head_dim or self.hidden_size // self.num_attention_heads
        self.rope = RopeConfig.of(config, self.rotary_head_dim, self.context_len)
        if self.hidden_act not in ("silu", "swish"):
            remedy = "Its MLP is another: this architecture is gated by silu."
            raise BadArgumentError("config.json: hidden_act", "'silu'", repr(self.hidden_act), remedy)

    @property
    def rotary_head_dim(self) -> int:
        """Dims of a head that positions may turn."""
        return self.head_dim

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        ids = self.eos_token_id
        return () if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)


def _check_type(name: str, one: Field[Any], value: object) -> None:
    """Numbers, words and switches are what the field says; sizes without a default are 1 at least."""
    least = 1 if one.type == "int" and one.default is MISSING else None
    right = {
        "int": isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
    }
    if not right.get(str(one.type), True):
        expected = {"int": "an integer", "float": "a number", "bool": "true or false", "str": "a string"}[str(one.type)]
        remedy = "Is this the config.json of the architecture that it names?"
        raise BadArgumentError(f"config.json: {name}", expected + " of at least 1" * bool(least), repr(value), remedy)
