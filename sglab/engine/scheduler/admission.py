"""Why no more waiting requests were offered to a prefill batch, in a sentence for the step's record."""

from __future__ import annotations

from sglab.engine.batch.req import Req
from sglab.engine.scheduler.history import Budgets, Decision

STILL_FULL = "the running batch was found full before: none is offered until one of its requests ends or is retracted"


def no_row(max_running_requests: int, rows: int) -> str:
    """As many run as may."""
    if rows == 0:
        return "every row of the request pool is taken"
    return f"max_running_requests {max_running_requests} are running or taken"


def spent(left: Budgets) -> str:
    """A budget of the pass is used up."""
    if left.rem_chunk is not None and left.rem_chunk <= 0:
        return "the chunk is full (chunked_prefill_size)"
    if left.rem_input <= 0:
        return "max_prefill_tokens are taken"
    return "the KV slots are spoken for"


def cut(req: Req | None) -> str:
    """A prompt that goes on keeps its place."""
    return f"{req.rid} is cut and goes on in the next pass: until it is through, nothing else begins" if req else ""


def refused(decision: Decision) -> str:
    """The first request that does not fit ends the pass: those after it are not asked."""
    return f"{decision.rid} does not fit: {decision.reason}"
