"""boltzkit simulate: equilibrium samples with energies."""

from pathlib import Path
from typing import Literal

from boltzkit.cli.figures import aligned
from boltzkit.cli.progress import tell
from boltzkit.cli.recipe import Settings

__all__ = ["simulate"]


def simulate(
    molecule: str,
    /,
    *,
    out: Path,
    samples: int = 1_000_000,
    split: Literal["train", "test"] = "train",
    seed: int = 0,
    settings: Settings = (),
    forcefield: str | None = None,
    constraints: str | None = None,
) -> None:
    """Draw equilibrium samples of a molecule into a dataset, with energies.

    Thousands of walkers move at once on the batched force field, by short Hamiltonian trajectories, turns about bonds
    and, where asked for, swaps between temperatures; each move has an exact accept step. Constrained bonds stay at
    their lengths. The same command goes on where it stopped; with a larger --samples, further.

    At the end the autocorrelation of torsions along the walkers says how many independent samples the dataset is worth.

    **Examples**

    ```
    boltzkit simulate alanine-dipeptide --out data --set validation=0.1
    boltzkit simulate alanine-dipeptide --out data --split test --seed 1
    boltzkit simulate my.pdb --out data --set tempering.temperatures=6 --set tempering.hottest=4
    ```

    **Files in the dataset folder**

    - `manifest.json`, `shards/`: the dataset
    - `sampler-*.safetensors`: where the walkers are, to go on from
    - `quality-*.json`: means, autocorrelation times and effective numbers of samples

    Args:
        molecule: Name of a molecule, a PDB or mmCIF file, or a sequence such as ACE-TRP-NME.
        out: Folder of the dataset.
        samples: Samples to store, at least.
        split: What the samples may be used for: train or test. Runs with other seeds are independent.
        seed: Of all draws.
        settings: Any other setting, such as tempering.walkers=2000, every=5 or temperature=310. Repeat it for more.
        forcefield: OpenMM force-field files with commas between, for structure files and sequences.
        constraints: Bonds held fixed: HBonds, AllBonds or HAngles; none by default.
    """
    from boltzkit.data import Dataset
    from boltzkit.molecule import read_molecule
    from boltzkit.simulate import BatchedSimulation, assess, simulate_batched
    from boltzkit.storage import write_json

    subject = read_molecule(molecule, forcefield, constraints)
    config = BatchedSimulation.parse({"samples": samples, "split": split, "tempering": {"seed": seed}})
    simulate_batched(subject, config.with_overrides(settings), out, tell)
    quality = assess(Dataset.open(out, subject).split(split), subject)
    write_json(out / f"quality-{split}.json", quality.to_json())
    rows = [
        (
            o.name,
            f"{o.mean:.4g} ± {o.error:.1g}, τ {o.autocorrelation_time:.1f} frames, {o.effective:,.0f} effective",
        )
        for o in quality.observables
    ]
    print(aligned([("samples", f"{quality.samples:,} in {quality.trajectories:,} trajectories"), *rows]))
