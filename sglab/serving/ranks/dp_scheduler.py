"""DpScheduler: a scheduler for each group that attends apart, with the interface of one.

A request goes to the group with the fewest tokens to its name and stays there, with its pages and its prefix.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglab.engine import Req
from sglab.engine.scheduler import History, PassResult, ScheduledPass, Scheduler

Passes = list[ScheduledPass | None]


class DpScheduler:
    """Plans a pass of every group at a time.

    Attributes:
        schedulers: of the groups.
        history: the first group's; the others' are their schedulers'.
    """

    def __init__(self, schedulers: Sequence[Scheduler]) -> None:
        self.schedulers = list(schedulers)
        self.config = schedulers[0].config

    @property
    def history(self) -> History:
        return self.schedulers[0].history

    def add_request(self, req: Req) -> None:
        """Queue a request. Raises as Scheduler's does."""
        same = next((one for one in self.schedulers if one.unfinished(req.rid) is not None), None)
        (same or min(self.schedulers, key=tokens_of)).add_request(req)

    def drop(self, req: Req) -> None:
        """Take back a request that has not run."""
        for one in self.schedulers:
            if req in one.waiting_queue:
                one.drop(req)

    def abort_request(self, rid: str, message: str = "Aborted by its caller") -> bool:
        """End a request before its next step; names are unique over all groups."""
        return any(one.abort_request(rid, message) for one in self.schedulers)

    def requests(self) -> list[Req]:
        return [req for one in self.schedulers for req in one.requests()]

    def has_work(self) -> bool:
        return any(one.has_work() for one in self.schedulers)

    def get_next_batch_to_run(self) -> Passes | None:
        """Each group's next pass; None: none has one."""
        planned = [one.get_next_batch_to_run() for one in self.schedulers]
        return planned if any(each is not None for each in planned) else None

    def process_batch_result(self, scheduled: Passes, result: list[PassResult | None]) -> None:
        for one, planned, found in zip(self.schedulers, scheduled, result, strict=True):
            if planned is not None and found is not None:
                one.process_batch_result(planned, found)

    def fail_batch(self, scheduled: Passes, message: str) -> None:
        for one, planned in zip(self.schedulers, scheduled, strict=True):
            if planned is not None:
                one.fail_batch(planned, message)

    def flush_cache(self) -> None:
        for one in self.schedulers:
            one.flush_cache()

    def check_invariants(self) -> None:
        for one in self.schedulers:
            one.check_invariants()


def tokens_of(scheduler: Scheduler) -> int:
    """Tokens of a group's unfinished requests, with those that they may still generate."""
    return sum(len(req.origin_input_ids) + req.sampling_params.max_new_tokens for req in scheduler.requests())
