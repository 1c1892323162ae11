"""Several processes that run one model: `launch` starts and watches them, `follower` is what each runs, `rank_model` is
a rank's share of a pass, `worker` runs passes on all of them, `dp_scheduler` plans for groups that attend apart."""

from sglab.serving.ranks.launch import RankDiedError, Ranks

__all__ = ["RankDiedError", "Ranks"]
