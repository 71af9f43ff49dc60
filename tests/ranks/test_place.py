"""The shares of ranks are all rows, in order and of nearly the same size."""

import pytest

from boltzkit.ranks import share


@pytest.mark.parametrize("n", [0, 1, 2, 7, 12])
@pytest.mark.parametrize("parts", [1, 2, 5])
def test_shares_are_all_rows_in_order(n, parts):
    rows = list(range(n))
    shares = [rows[share(n, part, parts)] for part in range(parts)]
    assert sum(shares, []) == rows  # noqa: RUF017
    lengths = [len(part) for part in shares]
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths) - min(lengths) <= 1
