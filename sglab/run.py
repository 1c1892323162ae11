"""What `sglab run` does: build a batch, attend, compare with float64, show the plan."""

from __future__ import annotations

import argparse
import html
from typing import TYPE_CHECKING

from sglab.gpu.architecture import B200_SMS, H100_SMS

if TYPE_CHECKING:
    from torch import Tensor

    from sglab.planning import Plan
    from sglab.workbench.batch import Batch

PLANNER_OF_BACKEND = {"cutlass_mla": "sglang_cutlass_mla", "flashmla": "flash_mla", "triton": "sglang_triton"}
"""The planner that a backend's decode really follows; other backends here do not split."""


def decode(options: argparse.Namespace) -> None:
    """Print shapes, plan and error of one decode step; write the report if asked to."""
    from sglab import attend, decode_batch
    from sglab.workbench import reference

    if options.sm_count is None:
        options.sm_count = H100_SMS if options.backend == "flashmla" else B200_SMS
    check_options(options)
    batch = decode_batch(
        options.seq_lens,
        options.num_heads,
        options.num_kv_heads,
        kind=options.kind,
        page_size=options.page_size,
        dtype=options.dtype,
        seed=options.seed,
        layout=options.layout,
        device=options.device,
    )
    out = attend(batch, backend=options.backend, implementation=options.implementation)
    expected = reference(batch).o
    text = "\n\n".join([shapes(batch, out), accuracy(out, expected), story(out)])
    plan = plan_of(batch, options.planner, out.info.backend, options.sm_count)
    text += "\n\n" + (f"{out.info.backend} does not split: no plan" if plan is None else describe(plan))
    print(text)
    if options.html is not None:
        write_report(batch, plan, out.info.backend, options, text)
        print(f"\nwrote {options.html}")


def check_options(options: argparse.Namespace) -> None:
    """What would only be found wrong after the run is refused before it."""
    from sglab.planning import PLANNERS

    if options.planner not in (None, *PLANNERS):
        raise ValueError(f"--planner: expected one of {', '.join(PLANNERS)}; got {options.planner!r}")
    if not 2 <= options.sm_count <= 2048:
        known = f"an H100 has {H100_SMS}, a B200 {B200_SMS}"
        raise ValueError(f"--sm-count: expected 2..2048, got {options.sm_count}; {known}")
    if options.html is not None and (options.html.is_dir() or not options.html.absolute().parent.is_dir()):
        raise ValueError(f"--html: expected a file in a folder that exists, got {str(options.html)!r}")


def shapes(batch: Batch, out: Tensor) -> str:
    kv_pool = batch.runner.token_to_kv_pool
    rows = [
        ("batch", repr(batch)),
        ("q", tuple(batch.q.shape)),
        ("KV pool", f"{tuple(kv_pool.get_key_buffer(0).shape)}, {kv_pool.num_pages} pages of {batch.page_size} slots"),
        ("req_to_token", tuple(batch.req_to_token.shape)),
        ("output", tuple(out.shape)),
    ]
    return "\n".join(f"{name:<13} {value}" for name, value in rows)


def accuracy(out: Tensor, expected: Tensor) -> str:
    error = (out.double() - expected).abs().max()
    relative = (out.double() - expected).norm() / expected.norm()
    return f"against float64: largest error {float(error):.2e}, relative error (norms) {float(relative):.2e}"


def story(out: Tensor) -> str:
    return f"what ran: {out.info}"  # type: ignore[attr-defined]


def plan_of(batch: Batch, planner: str | None, backend: str, sm_count: int) -> Plan | None:
    """The requested plan, or that of the backend that ran, with the batch's own page size."""
    from sglab.planning import PLANNERS

    name = planner or PLANNER_OF_BACKEND.get(backend)
    if name is None:
        return None
    return PLANNERS[name](
        batch.seq_lens.tolist(),
        num_heads=batch.num_heads,
        num_kv_heads=batch.num_kv_heads,
        head_dim_qk=batch.layer.head_dim,
        head_dim_vo=batch.layer.v_head_dim,
        page_size=page_size_of(batch, name, backend),
        sm_count=sm_count,
    )


def page_size_of(batch: Batch, planner: str, backend: str) -> int:
    """In tokens, of a plan: the batch's for the backend that ran, another planner's own, since it may not take that."""
    from sglab.planning import PLANNERS

    return batch.page_size if planner == PLANNER_OF_BACKEND.get(backend) else PLANNERS[planner].page_size


def describe(plan: Plan) -> str:
    lines = [
        f"plan of {plan.planner} for {plan.launch.sm_count} SMs: grid {plan.grid}, cluster {plan.launch.cluster_size}, "
        f"{plan.waves:.2f} waves, {plan.occupancy:.0%} of the SMs used, {plan.idle_share:.0%} idle (modelled)",
        f"  workspace {plan.workspace_bytes:,} bytes, {plan.merge.partials:,} partials merged",
    ]
    lines += [f"  {name}: {value}" for name, value in plan.scalars.items()]
    lines += [f"  {name} {tuple(array.shape)} {array.dtype}" for name, array in plan.arrays.items()]
    return "\n".join(lines)


def write_report(batch: Batch, plan: Plan | None, backend: str, options: argparse.Namespace, text: str) -> None:
    """One HTML file with both widgets that needs neither Python nor a network."""
    from sglab.widgets import PageTable, SplitKV, html_page

    planners = [plan.planner] if plan is not None else None
    page_size = None if plan is None else page_size_of(batch, plan.planner, backend)
    widgets = [PageTable(batch), SplitKV(batch, planners, sm_count=options.sm_count, page_size=page_size)]
    body = f"<pre style='overflow-x:auto'>{html.escape(text)}</pre>"
    options.html.write_text(html_page(widgets, "sglab: one decode step", body), encoding="utf-8")
