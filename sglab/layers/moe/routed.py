"""RoutedExperts: what every layer of experts is, however it holds their weights."""

from __future__ import annotations

from torch import nn

from sglab.layers.moe.topk import Routing


class RoutedExperts(nn.Module):
    """`forward(x, routing)` is the experts' weighted sum: one kernel, which reads the routing when it runs, so that a
    captured graph need not know who goes where.

    Attributes:
        routing: of the pass last run, for whoever looks on; None before the first.
    """

    routing: Routing | None = None
