"""The paper's tables and figures, and where in the results each of them is answered."""

from dataclasses import dataclass

__all__ = ["EXHIBITS", "EXPERIMENT_SECTIONS", "Exhibit", "ExperimentSection"]


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper, numbered as they follow each other.

    Args:
        name: "Table 1".
        about: what it shows.
        answered: experiments, or folders of the results, that answer it.
        state: said instead of what the files tell.
    """

    name: str
    about: str
    answered: tuple[str, ...]
    state: str = ""


EXHIBITS: tuple[Exhibit, ...] = (
    Exhibit(
        "Table 1",
        "training on unbiased data: NLL, ESS, ESS by data size",
        ("gmm", "aldp-unbiased", "hexa-unbiased"),
    ),
    Exhibit("Table 2", "training on biased data with importance samples", ("aldp-biased",)),
    Exhibit("Table 3", "variational training without data", ("aldp-variational", "hexa-variational")),
    Exhibit("Table 4", "TarFlow on Cartesian coordinates", ("aldp-cartesian",)),
    Exhibit("Table 5", "samples with weights per hour", ("flows",)),
    Exhibit("Table 6", "the molecules and their force fields", ("systems",)),
    Exhibit("Table 7", "numbers of parameters", ("flows",)),
    Exhibit("Table 8", "gradient steps and training times", ("times",)),
    Exhibit("Table 9", "other log-dispersion penalties", ("hexa-variants", "aldp-variants")),
    Exhibit("Table 10", "all of the Gaussian mixture", ("gmm",)),
    Exhibit("Table 11", "all metrics of unbiased data", ("aldp-unbiased", "hexa-unbiased")),
    Exhibit("Table 12", "all metrics of biased data", ("aldp-biased",)),
    Exhibit("Table 13", "all metrics of variational training", ("aldp-variational", "hexa-variational")),
    Exhibit("Table 14", "all metrics of Cartesian coordinates, with path gradients", ("aldp-cartesian",)),
    Exhibit("Figure 1", "the idea, as a drawing", ("gmm",), "ours from data: learned densities and weights"),
    Exhibit("Figure 2", "Ramachandran plot of the biased data", ("simulation-cost",)),
    Exhibit("Figure 3", "Ramachandran plots of 10⁴, 2.5 · 10⁵ and 10⁷ samples", ("ground-truth",)),
    Exhibit("Figure 4", "sensitivity to λ_data, dipeptide", ("aldp-lambda",)),
    Exhibit("Figure 5", "sensitivity to λ_data, hexapeptide", ("hexa-lambda",)),
    Exhibit("Figure 6", "log-dispersion without a data objective", ("aldp-no-data",)),
    Exhibit("Figure 7", "variance of the gradient norm by penalty", ("hexa-variants", "aldp-variants")),
    Exhibit("Figure 8", "CMT with 10⁶ to 10⁷ energy evaluations", ("aldp-variational",)),
    Exhibit(
        "Figure 9",
        "marginals of all systems and methods",
        (
            "aldp-unbiased",
            "hexa-unbiased",
            "aldp-biased",
            "aldp-variational",
            "hexa-variational",
            "aldp-cartesian",
        ),
    ),
)
"""Every table and figure, appendix included."""


@dataclass(frozen=True)
class ExperimentSection:
    """An experiment with the data it takes.

    Args:
        data: name of the molecule whose dataset it takes, None where it draws its own samples.
        remark: a sentence on the published side.
    """

    data: str | None = None
    remark: str = ""


_DIPEPTIDE, _HEXAPEPTIDE = "alanine-dipeptide", "alanine-hexapeptide"
_ONLY_DRAWN = "The paper draws this and prints no numbers."

EXPERIMENT_SECTIONS: dict[str, ExperimentSection] = {
    "gmm": ExperimentSection(),
    "aldp-unbiased": ExperimentSection(_DIPEPTIDE),
    "hexa-unbiased": ExperimentSection(_HEXAPEPTIDE),
    "aldp-variants": ExperimentSection(_DIPEPTIDE, remark="The paper's table is of the hexapeptide."),
    "hexa-variants": ExperimentSection(_HEXAPEPTIDE),
    "aldp-lambda": ExperimentSection(_DIPEPTIDE, remark=_ONLY_DRAWN),
    "hexa-lambda": ExperimentSection(_HEXAPEPTIDE, remark=_ONLY_DRAWN),
    "aldp-no-data": ExperimentSection(_DIPEPTIDE, remark=_ONLY_DRAWN),
    "aldp-optimisers": ExperimentSection(_DIPEPTIDE, remark="The paper has Adam alone."),
    "aldp-biased": ExperimentSection(_DIPEPTIDE),
    "aldp-variational": ExperimentSection(
        _DIPEPTIDE,
        remark="Of 10⁶ evaluations the paper prints an ESS alone, and no spread; the rest of Figure 8 is drawn.",
    ),
    "ile-variational": ExperimentSection(
        "ACE-ILE-NME", remark="Not in the paper: a side chain with torsions of its own."
    ),
    "hexa-variational": ExperimentSection(_HEXAPEPTIDE),
    "known-answers": ExperimentSection(remark="Targets whose log Z and modes are known."),
    "aldp-cartesian": ExperimentSection("alanine-dipeptide-cartesian"),
    "acetamide-cartesian": ExperimentSection(
        "ACE-NH2",
        remark="Nine atoms, which a small flow resolves; the published rows are of alanine dipeptide.",
    ),
}
"""Experiments in the order of the page."""
