"""Side-by-side timings: ratios measured in one run, interleaved, with medians."""

from boltzkit.benchmark.energy import EnergyBenchmark, benchmark_energy
from boltzkit.benchmark.timing import interleaved

__all__ = ["EnergyBenchmark", "benchmark_energy", "interleaved"]
