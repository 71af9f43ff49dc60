"""Side-by-side timings: ratios measured in one run, interleaved, with medians."""

from boltzkit.benchmark.energy import EnergyBenchmark, benchmark_energy
from boltzkit.benchmark.flow import FlowBenchmark, benchmark_flow
from boltzkit.benchmark.inference import InferenceBenchmark, benchmark_inference
from boltzkit.benchmark.simulate import SimulationBenchmark, benchmark_simulate
from boltzkit.benchmark.timing import interleaved

__all__ = [
    "EnergyBenchmark",
    "FlowBenchmark",
    "InferenceBenchmark",
    "SimulationBenchmark",
    "benchmark_energy",
    "benchmark_flow",
    "benchmark_inference",
    "benchmark_simulate",
    "interleaved",
]
