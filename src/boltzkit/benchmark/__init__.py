"""Side-by-side timings: ratios measured in one run, interleaved, with medians."""

from boltzkit.benchmark.energy import EnergyBenchmark, benchmark_energy
from boltzkit.benchmark.flow import FlowBenchmark, benchmark_flow
from boltzkit.benchmark.simulate import SimulationBenchmark, benchmark_simulate
from boltzkit.benchmark.timing import interleaved

__all__ = [
    "EnergyBenchmark",
    "FlowBenchmark",
    "SimulationBenchmark",
    "benchmark_energy",
    "benchmark_flow",
    "benchmark_simulate",
    "interleaved",
]
