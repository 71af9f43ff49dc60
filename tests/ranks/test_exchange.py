"""Alone, a rank gets back what it gives; tests/training/test_several_ranks.py has two."""

import pytest
import torch
from torch import nn

from boltzkit.errors import UserError
from boltzkit.ranks import (
    add_over_ranks,
    average_gradients,
    by_first_rank,
    copy_first_rank,
    gather_ranks,
    join_ranks,
    of_first_rank,
    spread_over_ranks,
    sum_over_ranks,
    tensors_of_first_rank,
    wait_for_ranks,
)


def test_alone_everything_is_what_it_was():
    x = torch.randn(3, 4, requires_grad=True)
    with join_ranks():
        assert sum_over_ranks(x) is x
        assert gather_ranks(x) is x
        assert spread_over_ranks(lambda rows: (rows,), x)[0] is x
        assert tensors_of_first_rank({"x": x})["x"] is x
        assert add_over_ranks(7) == 7
        assert of_first_rank((1, None)) == (1, None)
        assert by_first_rank(lambda: x) is x
        copy_first_rank([x])
        wait_for_ranks()


def test_alone_gradients_stay():
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    before = layer.weight.grad
    average_gradients(list(layer.parameters()))
    assert layer.weight.grad is before


def test_alone_an_error_is_raised_as_it_is():
    def refuse() -> None:
        raise UserError("A sentence.")

    with pytest.raises(UserError, match="A sentence"):
        by_first_rank(refuse)
