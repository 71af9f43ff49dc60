"""FAB: annealed importance sampling from the flow feeds a prioritised buffer that the flow learns from."""

from boltzkit.method.fab.annealed import Annealed, anneal
from boltzkit.method.fab.bridge import Bridge
from boltzkit.method.fab.config import FabConfig
from boltzkit.method.fab.replay import ReplayBatches

__all__ = ["Annealed", "Bridge", "FabConfig", "ReplayBatches", "anneal"]
