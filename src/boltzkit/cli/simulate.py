"""boltzkit simulate: samples of a molecule with energies."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from boltzkit.cli.figures import aligned
from boltzkit.cli.progress import tell
from boltzkit.cli.recipe import Settings
from boltzkit.errors import UserError

if TYPE_CHECKING:
    from boltzkit.molecule import Molecule

__all__ = ["simulate"]

_SHOWN = 12
"""Observables that are printed beside the energy, the slowest first."""


def simulate(
    molecule: str,
    /,
    *,
    out: Path | None = None,
    protocol: str = "batched",
    preset: str | None = None,
    samples: int | None = None,
    split: Literal["train", "test"] = "train",
    seed: int = 0,
    settings: Settings = (),
    show: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    forcefield: str | None = None,
    constraints: str | None = None,
) -> None:
    """Draw samples of a molecule into a dataset, with energies.

    Six protocols make data:

    - `batched`: thousands of walkers move at once on the batched force field, by short Hamiltonian trajectories, turns
      about bonds and, where asked for, swaps between temperatures; each move has an exact accept step. The fastest way
      to the equilibrium of a small molecule. Constrained bonds stay at their lengths.
    - `md`: Langevin dynamics, independent simulations from the reference structure, by OpenMM or batched.
    - `replica-exchange`: OpenMM dynamics at several temperatures that exchange; the samples at the target's are stored.
    - `seeded`: many short trajectories from given structures, or from minima that are looked for. Biased: how often a
      basin occurs follows from the starts, and the manifest says so.
    - `metadynamics`: OpenMM walkers fill the free-energy surface over one or two torsions, well-tempered; then the bias
      stands still and frames are stored. Biased, with the bias energy of every frame.
    - `umbrella`: OpenMM dynamics in harmonic windows along one torsion. Biased, with the bias energy of every frame.

    The same command goes on where it stopped; with a larger --samples, further. At the end the autocorrelation of
    torsions along the trajectories says how many independent samples the dataset is worth; of frames with a bias energy
    a sentence says what they are good for.

    **Examples**

    ```
    boltzkit simulate alanine-dipeptide --out data --set validation=0.1
    boltzkit simulate alanine-dipeptide --out data --split test --seed 1
    boltzkit simulate my.pdb --out data --set tempering.temperatures=6 --set tempering.hottest=4
    boltzkit simulate alanine-dipeptide --out md --protocol md --samples 80000 --set trajectories=8
    boltzkit simulate alanine-dipeptide --out biased --protocol seeded --preset paper
    boltzkit simulate my.pdb --out biased --protocol seeded --set starts=structures.pdb --set repeats=10
    boltzkit simulate alanine-dipeptide --out meta --protocol metadynamics --samples 20000 --set filling=500
    boltzkit simulate alanine-dipeptide --out windows --protocol umbrella --samples 24000 --set windows=24
    boltzkit simulate alanine-hexapeptide --protocol replica-exchange --preset paper --show
    ```

    **Files in the dataset folder**

    - `manifest.json`, `shards/`: the dataset
    - `sampler-*.safetensors`: where the simulation stands, to go on from
    - `quality-*.json`: means, autocorrelation times and effective numbers of samples
    - `ramachandran-*.png`: of a peptide, what the samples cover; of a biased set, with its starts

    Args:
        molecule: Name of a molecule, PDB, mmCIF, SDF or MOL2 file, prmtop or top (coordinates beside it), a sequence
            like ACE-TRP-NME, SMILES like smiles:CCO, or a folder that boltzkit prepare wrote.
        out: Folder of the dataset.
        protocol: How samples are made: batched, md, replica-exchange, seeded, metadynamics or umbrella.
        preset: Settings to start from: paper has those of the paper, for the molecules that it simulated.
        samples: Samples to store, at least; a million by default.
        split: What the samples may be used for: train or test. Runs with other seeds are independent.
        seed: Of all draws.
        settings: Any other setting, such as tempering.walkers=2000, every=5 or temperature=310. Repeat it for more.
        show: Print every setting of the protocol with its meaning and stop.
        forcefield: OpenMM force-field files with commas between, for structure files and sequences.
        constraints: Bonds held fixed: HBonds, AllBonds or HAngles; none by default.
    """
    from boltzkit.cli.settings import explain
    from boltzkit.molecule import read_molecule
    from boltzkit.simulate import find_protocol
    from boltzkit.simulate import preset as find_preset

    known = find_protocol(protocol)
    subject = read_molecule(molecule, forcefield, constraints)
    given: dict[str, Any] = {} if preset is None else dict(find_preset(preset, subject.name, protocol, split))
    given |= {"split": split} | ({} if samples is None else {"samples": samples})
    config = known.settings(given, seed).with_overrides(settings)
    if show:
        print("\n".join(explain(config)))
        return
    if out is None:
        raise UserError("Say where the dataset shall live: --out data/NAME.")
    known.simulate(subject, config, out, tell)
    _judge(subject, out, config.split)


def _judge(subject: "Molecule", out: Path, split: Literal["train", "test"]) -> None:
    """Measure what the dataset is worth, write it down and print it."""
    from boltzkit.data import Dataset
    from boltzkit.molecule import Backbone
    from boltzkit.report import dataset_figure, png
    from boltzkit.simulate import assess
    from boltzkit.storage import write_bytes, write_json

    dataset = Dataset.open(out, subject)
    quality = assess(dataset.split(split), subject)
    write_json(out / f"quality-{split}.json", quality.to_json())
    figure = dataset_figure(dataset.split(split), Backbone.of(subject.topology))
    if figure is not None:
        write_bytes(out / f"ramachandran-{split}.png", png(figure))
    energy, *others = quality.observables
    others.sort(key=lambda o: -o.autocorrelation_time)
    rows = [
        (
            o.name,
            f"{o.mean:.4g} ± {o.error:.1g}, τ {o.autocorrelation_time:.1f} frames, {o.effective:,.0f} effective",
        )
        for o in (energy, *others[:_SHOWN])
    ]
    left_out = len(others) - _SHOWN
    if left_out > 0:
        rows.append(("faster ones", f"{left_out}, in quality-{split}.json"))
    if (o := quality.drifting) is not None:
        rows.append(
            (
                "not settled",
                f"{o.name} moves by {abs(o.drift):.1f} standard errors from the first third to the last",
            )
        )
    bias = [("biased", dataset.about.bias)] if dataset.about.bias else []
    counts = ("samples", f"{quality.samples:,} in {quality.trajectories:,} trajectories")
    print(aligned([counts, *bias, *rows]))
