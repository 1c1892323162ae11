"""What an engine did, kept to be looked at: every step with the slots of its requests, and every operation on its radix
tree. An engine that is not recorded runs the same code as if there were no recorder: a recording wraps the methods of
one scheduler and one tree while it lasts.
"""

from sglab.engine.recording.recording import RecordedReq, Recording
from sglab.engine.recording.tree_log import Evicted, NodeState, TreeLog, TreeOp

__all__ = ["Evicted", "NodeState", "RecordedReq", "Recording", "TreeLog", "TreeOp"]
