"""Split-KV and work-partition planners: what the real systems compute, as pure functions from lengths to arrays.

`PLANNERS` holds every planner under one signature; it returns a `Plan` with the planner's exact arrays and a modelled
placement of its work on the device. The functions below it are the planners themselves, one module per noun.
"""

from sglab.planning.cta_tile_q import fa2_determine_cta_tile_q
from sglab.planning.cuda_graph import (
    capture_batch_sizes,
    capture_order,
    limit_to_pool,
    piecewise_capture_tokens,
    replay_batch_size,
)
from sglab.planning.cutlass_mla_splits import split_ranges
from sglab.planning.cutlass_mla_workspace import (
    copied_workspace_size,
    cutlass_mla_get_workspace_size,
    cutlass_workspace_size,
)
from sglab.planning.fa3_num_splits import num_splits_heuristic, prepare_varlen_num_blocks
from sglab.planning.flash_mla import get_mla_metadata
from sglab.planning.flashinfer_decode import decode_plan
from sglab.planning.flashinfer_mla import mla_plan
from sglab.planning.flashinfer_prefill import prefill_plan
from sglab.planning.flashinfer_prefill_sm90 import prefill_sm90_plan
from sglab.planning.flashinfer_shared_storage import fa2_kv_tile, shared_storage_qkvo
from sglab.planning.mla_tile_scheduler import individual_schedule, persistent_schedule
from sglab.planning.num_kv_splits import deterministic_num_kv_splits, get_num_kv_splits, static_num_kv_splits
from sglab.planning.paged_kv import PagedKV
from sglab.planning.plan import Merge, Plan, Work
from sglab.planning.registry import PLANNERS, Planner
from sglab.planning.set_split_kv import fixed_split_kv, set_split_kv, set_split_kv_cluster_aware
from sglab.planning.split_tuning import SplitCost, SplitTuning, tune_num_kv_splits
from sglab.planning.uint_fastdiv import UintFastDiv

__all__ = [
    "PLANNERS",
    "Merge",
    "PagedKV",
    "Plan",
    "Planner",
    "SplitCost",
    "SplitTuning",
    "UintFastDiv",
    "Work",
    "capture_batch_sizes",
    "capture_order",
    "copied_workspace_size",
    "cutlass_mla_get_workspace_size",
    "cutlass_workspace_size",
    "decode_plan",
    "deterministic_num_kv_splits",
    "fa2_determine_cta_tile_q",
    "fa2_kv_tile",
    "fixed_split_kv",
    "get_mla_metadata",
    "get_num_kv_splits",
    "individual_schedule",
    "limit_to_pool",
    "mla_plan",
    "num_splits_heuristic",
    "persistent_schedule",
    "piecewise_capture_tokens",
    "prefill_plan",
    "prefill_sm90_plan",
    "prepare_varlen_num_blocks",
    "replay_batch_size",
    "set_split_kv",
    "set_split_kv_cluster_aware",
    "shared_storage_qkvo",
    "split_ranges",
    "static_num_kv_splits",
    "tune_num_kv_splits",
]
