"""What every backend would do with one pass: what it builds, which plan it makes, what it reads, what it refuses.

The analysis behind the widget BackendExplorer; it runs no kernel. Costs are counted; a time is a bound that follows
from published peaks.
"""

from sglab.attention.explore.answer import Answer, Pass, Refusal, answer
from sglab.attention.explore.built import Built, BuiltArray, Scratch
from sglab.attention.explore.costs import Cost
from sglab.attention.explore.explore import Exploration, explore
from sglab.attention.explore.machines import PEAKS, Peaks, why_not_on
from sglab.attention.explore.ranks import FirstRank

__all__ = [
    "PEAKS",
    "Answer",
    "Built",
    "BuiltArray",
    "Cost",
    "Exploration",
    "FirstRank",
    "Pass",
    "Peaks",
    "Refusal",
    "Scratch",
    "answer",
    "explore",
    "why_not_on",
]
