"""Several processes that train one model: which of them this is, and how they put together what each has.

Under ``torchrun`` every process is a rank. With one rank every function here returns what it was given, so that
ordinary code runs as if this module were not there. Nothing is pickled: ranks exchange tensors and JSON.
"""

from boltzkit.ranks.exchange import (
    add_over_ranks,
    average_gradients,
    by_first_rank,
    copy_first_rank,
    gather_ranks,
    of_first_rank,
    spread_over_ranks,
    sum_over_ranks,
    tensors_of_first_rank,
    wait_for_ranks,
)
from boltzkit.ranks.joining import first_to_tell, join_ranks
from boltzkit.ranks.lost import RankLost
from boltzkit.ranks.place import is_first_rank, rank_count, rank_number, share

__all__ = [
    "RankLost",
    "add_over_ranks",
    "average_gradients",
    "by_first_rank",
    "copy_first_rank",
    "first_to_tell",
    "gather_ranks",
    "is_first_rank",
    "join_ranks",
    "of_first_rank",
    "rank_count",
    "rank_number",
    "share",
    "spread_over_ranks",
    "sum_over_ranks",
    "tensors_of_first_rank",
    "wait_for_ranks",
]
