"""From a weighted ensemble of a molecule to the numbers a chemist uses, each with its confidence interval."""

from boltzkit.analysis.agreement import Agreement, BasinShare, Compared, agreement
from boltzkit.analysis.analyse import Analysis, Average, StateResult, analyse, state_results
from boltzkit.analysis.analysis_folder import write_analysis
from boltzkit.analysis.averages import average, circular_mean
from boltzkit.analysis.basins import Arc, basins
from boltzkit.analysis.bootstrap import bootstrap
from boltzkit.analysis.bridge import Bridge, bridge
from boltzkit.analysis.clusters import Cluster, Partition, cluster
from boltzkit.analysis.export import Exported, export
from boltzkit.analysis.findings import compare_with, data_findings, spread_frames
from boltzkit.analysis.observables import Observable, observables_of
from boltzkit.analysis.profile import Band, Cells, Profile, Surface, profile, surface
from boltzkit.analysis.refine import Local, Refined, refine
from boltzkit.analysis.resampling import systematic
from boltzkit.analysis.reweight import Reweighted, reweight
from boltzkit.analysis.state_file import read_states
from boltzkit.analysis.states import State, automatic_states
from boltzkit.analysis.torsion_names import Torsion, main_torsions, torsions_of

__all__ = [
    "Agreement",
    "Analysis",
    "Arc",
    "Average",
    "Band",
    "BasinShare",
    "Bridge",
    "Cells",
    "Cluster",
    "Compared",
    "Exported",
    "Local",
    "Observable",
    "Partition",
    "Profile",
    "Refined",
    "Reweighted",
    "State",
    "StateResult",
    "Surface",
    "Torsion",
    "agreement",
    "analyse",
    "automatic_states",
    "average",
    "basins",
    "bootstrap",
    "bridge",
    "circular_mean",
    "cluster",
    "compare_with",
    "data_findings",
    "export",
    "main_torsions",
    "observables_of",
    "profile",
    "read_states",
    "refine",
    "reweight",
    "spread_frames",
    "state_results",
    "surface",
    "systematic",
    "torsions_of",
    "write_analysis",
]
