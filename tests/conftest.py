"""What every test runs under: one thread, no display, no network, no random examples."""

import os
import socket
from collections.abc import Iterator
from typing import Any

# Child processes inherit these; they are set before the libraries that read them are imported.
os.environ["MPLBACKEND"] = "Agg"
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import settings

# Sums over threads are rounded differently from run to run and machine to machine.
torch.set_num_threads(1)

# The same examples every time, and no deadline: a slow machine is not a failure.
settings.register_profile("reproducible", derandomize=True, deadline=None, database=None)
settings.load_profile("reproducible")


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    connect = socket.socket.connect

    def connect_locally(self: socket.socket, address: Any) -> None:
        # Other families than the internet's are how worker processes talk to each other.
        if self.family in (socket.AF_INET, socket.AF_INET6):
            raise RuntimeError(f"a test tried to connect to {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_locally)
        yield
