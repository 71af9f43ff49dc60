"""Side-by-side timings: ratios measured in one run, interleaved, with medians."""

from boltzkit.benchmark.all import AllBenchmarks, Result, benchmark_all
from boltzkit.benchmark.energy import EnergyBenchmark, benchmark_energy
from boltzkit.benchmark.flow import benchmark_flow
from boltzkit.benchmark.flow_table import FlowBenchmark
from boltzkit.benchmark.growth import GrowthBenchmark, benchmark_growth
from boltzkit.benchmark.inference import InferenceBenchmark, benchmark_inference
from boltzkit.benchmark.peers import PeerBenchmark, benchmark_peers
from boltzkit.benchmark.ranks import RankBenchmark, benchmark_ranks
from boltzkit.benchmark.reach import ReachBenchmark, benchmark_reach
from boltzkit.benchmark.reading import ReadingBenchmark, benchmark_reading
from boltzkit.benchmark.simulate import SimulationBenchmark, benchmark_simulate
from boltzkit.benchmark.timing import interleaved

__all__ = [
    "AllBenchmarks",
    "EnergyBenchmark",
    "FlowBenchmark",
    "GrowthBenchmark",
    "InferenceBenchmark",
    "PeerBenchmark",
    "RankBenchmark",
    "ReachBenchmark",
    "ReadingBenchmark",
    "Result",
    "SimulationBenchmark",
    "benchmark_all",
    "benchmark_energy",
    "benchmark_flow",
    "benchmark_growth",
    "benchmark_inference",
    "benchmark_peers",
    "benchmark_ranks",
    "benchmark_reach",
    "benchmark_reading",
    "benchmark_simulate",
    "interleaved",
]
