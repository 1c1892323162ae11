"""The workbench: a live batch to edit and attend over, the float64 reference, and recorders of what a run did."""

from sglab.workbench.attend import attend
from sglab.workbench.batch import Batch
from sglab.workbench.build import decode_batch, extend_batch
from sglab.workbench.explore import explore_backends
from sglab.workbench.float64 import Reference, max_error, reference
from sglab.workbench.prompt_batch import prompt_batch
from sglab.workbench.recorders.attention import AttentionRun, record_attention
from sglab.workbench.recorders.experts import RoutingRun, record_experts
from sglab.workbench.recorders.ranks import RanksRun, record_exchange, record_ranks
from sglab.workbench.recorders.speculation import SpeculationRun, record_speculation
from sglab.workbench.step_batch import step_batch
from sglab.workbench.trace import trace

__all__ = [
    "AttentionRun",
    "Batch",
    "RanksRun",
    "Reference",
    "RoutingRun",
    "SpeculationRun",
    "attend",
    "decode_batch",
    "explore_backends",
    "extend_batch",
    "max_error",
    "prompt_batch",
    "record_attention",
    "record_exchange",
    "record_experts",
    "record_ranks",
    "record_speculation",
    "reference",
    "step_batch",
    "trace",
]
