"""Without torchrun, or as its only process, a rank is alone; tests/training/test_several_ranks.py has two."""

import torch

from boltzkit.ranks import first_to_tell, is_first_rank, join_ranks, rank_count, rank_number


def test_without_torchrun_a_process_is_alone():
    with join_ranks():
        assert (rank_count(), rank_number(), is_first_rank(), first_to_tell()) == (1, 0, True, True)


def test_one_process_of_torchrun_is_alone(monkeypatch):
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    with join_ranks():
        assert rank_count() == 1
        assert not torch.distributed.is_initialized()
