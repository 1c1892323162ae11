"""The scheduler, as in SGLang and without a model: the policy that orders waiting requests, the PrefillAdder that says
which of them fit, retraction when decoding runs out of memory, the books that must balance and the history of it all.
"""

from sglab.engine.scheduler.config import SchedulerConfig
from sglab.engine.scheduler.history import BatchEntry, Decision, History, PoolUse, StepRecord
from sglab.engine.scheduler.invariants import LeakError
from sglab.engine.scheduler.new_token_ratio import NewTokenRatioTracker
from sglab.engine.scheduler.policy import SchedulePolicy
from sglab.engine.scheduler.prefill_adder import AddReqResult, PrefillAdder
from sglab.engine.scheduler.scheduled_pass import PassResult, ScheduledPass
from sglab.engine.scheduler.scheduler import Scheduler

__all__ = [
    "AddReqResult",
    "BatchEntry",
    "Decision",
    "History",
    "LeakError",
    "NewTokenRatioTracker",
    "PassResult",
    "PoolUse",
    "PrefillAdder",
    "SchedulePolicy",
    "ScheduledPass",
    "Scheduler",
    "SchedulerConfig",
    "StepRecord",
]
