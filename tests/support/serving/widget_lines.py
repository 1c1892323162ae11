"""What a widget of a recorded engine sends, and an engine with captured graphs to send it of."""

from __future__ import annotations

import json
from typing import Any

from sglab.serving import Engine
from tests.support.serving.tiny import tiny_llama

GREEDY = {"temperature": 0, "max_new_tokens": 5, "min_new_tokens": 5}


def lines(widget: Any) -> list[dict[str, Any]]:
    """Its JSON lines, parsed."""
    return [json.loads(line) for line in bytes(widget._tensors["lines"].array).decode().splitlines()]


def graph_engine(**options: object) -> Engine:
    """Sizes 1, 2 and 4 are captured; six requests may run."""
    sizes = {"cuda_graph": True, "cuda_graph_bs": (1, 2, 4), "max_running_requests": 6}
    return Engine(tiny_llama(), **{"max_total_tokens": 512, **sizes, **options})  # type: ignore[arg-type]
