"""From a configuration to what is learned: the target's energy, and the flow that fits its coordinates."""

from functools import lru_cache
from typing import Annotated, Any

from pydantic import Discriminator, PositiveFloat, Tag

from boltzkit.config import Config
from boltzkit.coordinates import Handedness, InternalCoordinates, centred_scale
from boltzkit.coordinates.config import CoordinatesConfig
from boltzkit.energy import Target, TargetConfig, build_target
from boltzkit.errors import UserError
from boltzkit.flow import (
    Chain,
    Flow,
    RealNVPConfig,
    SplineFlowConfig,
    TarFlowConfig,
    build_euclidean_spline_flow,
    build_realnvp,
    build_spline_bijection,
    build_tarflow,
    unit_box_base,
)
from boltzkit.method.one_handed import OneHanded
from boltzkit.molecule import Molecule, read_molecule

__all__ = [
    "FlowChoice",
    "MoleculeConfig",
    "TargetChoice",
    "build_energy",
    "build_flow_for",
    "hash_of",
    "molecule_of",
    "same_configurations",
]


class MoleculeConfig(Config):
    """Which molecule, at which temperature, in which coordinates."""

    molecule: str
    """Name of a molecule, PDB, mmCIF, SDF or MOL2 file, prmtop or top (coordinates beside it), a sequence such as
    ACE-ALA-NME, SMILES such as smiles:CCO, or a folder that boltzkit prepare wrote."""
    forcefield: str | None = None
    """OpenMM force-field files with commas between, for structures and sequences; ff99SB-ILDN with OBC2 by default."""
    constraints: str | None = None
    """Bonds held fixed, for files and sequences: HBonds, AllBonds or HAngles; none by default."""
    temperature: PositiveFloat = 300.0
    """Kelvin."""
    coordinates: CoordinatesConfig = CoordinatesConfig()
    """Windows of the internal coordinates."""
    one_handed: bool = False
    """Give mirror images, and methyls with exchanged hydrogens, no weight; flows on internal coordinates have none."""

    @property
    def name(self) -> str:
        """How messages call the target."""
        return self.molecule


def _tag(value: Any) -> str:
    given = type(value).model_fields if isinstance(value, Config) else value
    return "molecular" if isinstance(given, dict) and "molecule" in given else "analytic"


def _kind(value: Any) -> str:
    if isinstance(value, RealNVPConfig | SplineFlowConfig | TarFlowConfig):
        return str(value.kind)
    # What is no group at all is left to the default kind, which says so.
    return str(value.get("kind", "realnvp")) if isinstance(value, dict) else "realnvp"


TargetChoice = Annotated[
    Annotated[TargetConfig, Tag("analytic")] | Annotated[MoleculeConfig, Tag("molecular")],
    Discriminator(_tag),
]
"""An analytic target, or a molecule where the setting ``molecule`` is given."""
FlowChoice = Annotated[
    Annotated[RealNVPConfig, Tag("realnvp")]
    | Annotated[SplineFlowConfig, Tag("spline")]
    | Annotated[TarFlowConfig, Tag("tarflow")],
    Discriminator(_kind),
]
"""An architecture, by its ``kind``; RealNVP where none is given."""


def build_energy(config: TargetConfig | MoleculeConfig) -> Target:
    """Return the counted energy of a target."""
    if isinstance(config, TargetConfig):
        return build_target(config)
    molecule = molecule_of(config)
    energy: Target = molecule.energy(config.temperature)
    return OneHanded(energy, Handedness.of(molecule, permutations=True)) if config.one_handed else energy


def molecule_of(config: MoleculeConfig) -> Molecule:
    """Return the molecule; built once per process, for the same settings."""
    return _molecule(config.molecule, config.forcefield, config.constraints)


def hash_of(config: TargetConfig | MoleculeConfig) -> str | None:
    """Return the hash of a molecule and its force field as its files are now; None of another target."""
    return molecule_of(config).hash if isinstance(config, MoleculeConfig) else None


def same_configurations(one: TargetConfig | MoleculeConfig, other: TargetConfig | MoleculeConfig) -> bool:
    """Whether flows on both targets have the same coordinates of the same molecule; temperatures may differ."""
    if not (isinstance(one, MoleculeConfig) and isinstance(other, MoleculeConfig)):
        return one == other
    return one.coordinates == other.coordinates and hash_of(one) == hash_of(other)


@lru_cache(maxsize=8)
def _molecule(text: str, forcefield: str | None, constraints: str | None) -> Molecule:
    return read_molecule(text, forcefield, constraints)


def build_flow_for(
    target: TargetConfig | MoleculeConfig,
    flow: RealNVPConfig | SplineFlowConfig | TarFlowConfig,
    seeds: tuple[int, ...],
    *,
    batched: bool,
) -> Flow:
    """Build a flow on the target's configurations; ``batched`` makes each seed a replica."""
    if isinstance(target, TargetConfig):
        return _euclidean_flow(target, flow, seeds, batched)
    if isinstance(flow, RealNVPConfig):
        raise UserError(
            f"RealNVP does not model molecules: set flow.kind to spline or tarflow for {target.name}."
        )
    _refuse_replicas(batched)
    if isinstance(flow, TarFlowConfig):
        molecule = molecule_of(target)
        if len(molecule.constraints):
            raise UserError(
                f"{target.name} has constrained bonds, which leave Cartesian positions no volume: set "
                "flow.kind=spline, or take a molecule without constraints."
            )
        scale = centred_scale(molecule.positions) if flow.scale is None else flow.scale
        return build_tarflow(flow, molecule.n_atoms, seeds[0], scale).float()
    coordinates = InternalCoordinates.of(molecule_of(target), target.coordinates)
    bijection = build_spline_bijection(flow, coordinates.kinds, seeds[0])
    chain = Chain([*bijection.links, coordinates])
    built = Flow(unit_box_base(coordinates.kinds), chain, event_shape=(coordinates.n_atoms, 3))
    return built.float()


def _euclidean_flow(
    target: TargetConfig,
    flow: RealNVPConfig | SplineFlowConfig | TarFlowConfig,
    seeds: tuple[int, ...],
    batched: bool,
) -> Flow:
    (dim,) = build_target(target).event_shape
    if isinstance(flow, RealNVPConfig):
        return build_realnvp(flow, dim, seeds, batched)
    if isinstance(flow, TarFlowConfig):
        raise UserError(f"TarFlow models molecules, not {target.name}: set flow.kind to realnvp or spline.")
    _refuse_replicas(batched)
    return build_euclidean_spline_flow(flow, dim, seeds[0]).float()


def _refuse_replicas(batched: bool) -> None:
    if batched:
        raise UserError("Only RealNVP has replicas: train other flows one by one.")
