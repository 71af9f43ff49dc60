"""One ensemble under another condition: another temperature, another force field, any other energy."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from boltzkit.ensemble import Ensemble, Subject, Verdict
from boltzkit.errors import UserError
from boltzkit.molecule import Molecule
from boltzkit.weights import Estimate

__all__ = ["Reweighted", "free_energy_of_change", "reweight"]

_CHUNK = 10_000


@dataclass(frozen=True, eq=False)
class Reweighted:
    """An ensemble under a new condition.

    Attributes:
        ensemble: the same samples with the new energies and weights.
        free_energy: ΔF = −log Z'/Z, reduced, each energy by its own temperature.
        pareto_k: tail of the new weights.
        verdict: whether averages under the new condition can be trusted. Samples of the old one may miss what
            matters under the new one, and that cannot be seen in them.
    """

    ensemble: Ensemble
    free_energy: Estimate
    pareto_k: float
    verdict: Verdict


def reweight(
    ensemble: Ensemble,
    to: Molecule | Callable[[Tensor], Tensor] | None = None,
    temperature: float | None = None,
    confidence: float = 0.95,
) -> Reweighted:
    r"""Give the samples of an ensemble the weights of another Boltzmann distribution.

    $$\log w'(x) = -u'(x) - \log q(x)$$

    A new temperature alone costs nothing: u' = u·T/T', since force fields know no temperature. New energies cost one
    evaluation for each sample. Samples that fail under the new energy are weightless and counted.

    Args:
        ensemble: weighted samples.
        to: a molecule of the same atoms with another force field, or a function to reduced energies,
            ``(n, atoms, 3) -> (n,)``; the ensemble's own energy by default.
        temperature: K, of the new distribution; the ensemble's own by default. Beside a function it is only a remark:
            what that returns is reduced already.
        confidence: of the interval.
    """
    if to is None and temperature is None:
        raise UserError("Say what to reweight to: a molecule or a function, a temperature, or both.")
    if temperature is not None and not (temperature > 0 and math.isfinite(temperature)):
        raise UserError(f"A temperature is a positive number of kelvin, not {temperature:g}.")
    subject = _new_subject(ensemble, to, temperature)
    energy, cost = _new_energy(ensemble, to, subject)
    new = Ensemble.from_samples(
        ensemble.x,
        energy,
        ensemble.log_prob,
        ensemble.energy_evaluations + cost,
        ensemble.name,
        subject=subject,
    )
    # What the flow lacks, it lacks for every target.
    new = replace(new, findings=tuple(finding for finding in ensemble.findings if finding[0] != "trust"))
    difference = free_energy_of_change(ensemble, new, confidence)
    return Reweighted(new, difference, new.reweighting.pareto_k, new.verdict)


def free_energy_of_change(before: Ensemble, after: Ensemble, confidence: float = 0.95) -> Estimate:
    r"""Return ΔF = −log Z'/Z of two ensembles that share their samples.

    Both estimates err together, so that the error is that of the difference: sample i moves it by
    $\psi_i = \bar w_i - \bar w'_i$.
    """
    share, new_share = before.weights.normalised(), after.weights.normalised()
    value = before.weights.log_mean() - after.weights.log_mean()
    return Estimate.symmetric(value, float((share - new_share).norm()), confidence)


def _new_subject(
    ensemble: Ensemble, to: Molecule | Callable[[Tensor], Tensor] | None, temperature: float | None
) -> Subject | None:
    old = ensemble.subject
    if isinstance(to, Molecule):
        if old is not None:
            _refuse_other_atoms(old.molecule, to)
        elif tuple(ensemble.x.shape[1:]) != (to.n_atoms, 3):
            raise UserError(
                f"The samples have shape {tuple(ensemble.x.shape[1:])}, which is no configuration of {to.name} "
                f"with its {to.n_atoms} atoms."
            )
        if temperature is None:
            if old is None:
                raise UserError(
                    "The ensemble does not say its temperature: give one to reweight to a molecule."
                )
            temperature = old.temperature
        return Subject(to, temperature, old is not None and old.one_handed)
    if old is None:
        if to is None:
            raise UserError(
                "The ensemble does not say its temperature, so it cannot be taken to another one: reweight it to a "
                "function with its reduced energy there."
            )
        return None
    return replace(old, temperature=old.temperature if temperature is None else temperature)


def _new_energy(
    ensemble: Ensemble, to: Molecule | Callable[[Tensor], Tensor] | None, subject: Subject | None
) -> tuple[Tensor, int]:
    """Return the new reduced energies and how many evaluations they cost."""
    if to is None:
        assert subject is not None
        assert ensemble.subject is not None
        return ensemble.energy * (ensemble.subject.temperature / subject.temperature), 0
    function = to.energy(subject.temperature) if isinstance(to, Molecule) and subject is not None else to
    assert callable(function)
    with torch.no_grad():
        parts = [torch.as_tensor(function(part.double())).cpu() for part in torch.split(ensemble.x, _CHUNK)]
    if any(part.ndim != 1 for part in parts) or sum(map(len, parts)) != ensemble.n:
        raise UserError(
            f"The energy must be one number per sample, shape ({ensemble.n},), not "
            f"{tuple(parts[0].shape)} for {min(_CHUNK, ensemble.n)} samples."
        )
    energy = torch.cat(parts).double()
    if ensemble.subject is not None:
        # Mirror images that the old target forbids are forbidden by the new one, which is not asked about them.
        energy = energy.masked_fill(ensemble.energy.isposinf(), torch.inf)
    return energy, ensemble.n


def _refuse_other_atoms(old: Molecule, new: Molecule) -> None:
    """Refuse a molecule whose configurations are not those of the ensemble."""
    if new.n_atoms != old.n_atoms:
        raise UserError(
            f"{new.name} has {new.n_atoms} atoms and {old.name} {old.n_atoms}: an ensemble can only be reweighted to "
            "another force field for the same atoms."
        )
    pairs = zip(old.topology.atoms(), new.topology.atoms(), strict=True)
    for number, (a, b) in enumerate(pairs, start=1):
        if a.element != b.element:
            names = [atom.element.symbol if atom.element else "nothing" for atom in (a, b)]
            raise UserError(
                f"Atom {number} is {names[0]} in {old.name} but {names[1]} in {new.name}: reweighting needs the same "
                "atoms in the same order."
            )
    if _fixed(old) != _fixed(new):
        raise UserError(
            f"{old.name} and {new.name} do not hold the same bonds at the same lengths, so that neither has the "
            "other's configurations: build the molecule with the same constraints."
        )


def _fixed(molecule: Molecule) -> dict[tuple[int, int], float]:
    """Return the constrained pairs with their lengths to 10⁻⁴ nm."""
    held = molecule.constraints
    rows = zip(held.pairs.tolist(), held.lengths.tolist(), strict=True)
    return {(min(pair), max(pair)): round(length, 4) for pair, length in rows}
