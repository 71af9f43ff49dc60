"""boltzkit prepare: files of any engine become a molecule that every other verb takes."""

from pathlib import Path

from boltzkit.cli.figures import aligned

__all__ = ["prepare"]


def prepare(
    molecule: str,
    /,
    *,
    out: Path,
    forcefield: str | None = None,
    constraints: str | None = None,
    coordinates: Path | None = None,
    parameters: list[Path] | None = None,
    add_hydrogens: bool = False,
    trust: bool = False,
) -> None:
    """Make a molecule out of files, look whether it can be treated, and keep it in a folder.

    The folder stands for the molecule wherever a verb asks for one: force field, constraints and added hydrogens are in
    it, and the files it came from are no longer needed. The structure is minimised, and its batched energies are
    compared with OpenMM's. Small molecules (SDF, MOL, MOL2, SMILES) take MMFF94 in vacuum. For another force field,
    prepare them with OpenFF or GAFF, and give the prmtop, top, or System that comes out.

    **Examples**

    ```
    boltzkit prepare my.pdb --add-hydrogens --out my
    boltzkit prepare my.pdb --forcefield amber14-all.xml,implicit/gbn2.xml --out my
    boltzkit prepare drawing.sdf --add-hydrogens --out ligand
    boltzkit prepare smiles:OCCO --out glycol
    boltzkit prepare ligand.prmtop --coordinates ligand.inpcrd --forcefield OBC2 --out ligand
    boltzkit prepare system.top --coordinates system.gro --out my
    boltzkit prepare my.psf --coordinates my.pdb --parameters par.prm --parameters top.rtf --out my
    boltzkit prepare system.xml --coordinates structure.pdb --out my
    ```

    **Files in the folder**

    - `system.xml`: the OpenMM System
    - `topology.pdb`: the atoms, with the minimised structure

    Args:
        molecule: Name, sequence, SMILES (smiles:CCO), or file: PDB, mmCIF, SDF, MOL, MOL2, Amber prmtop, GROMACS top,
            CHARMM psf, OpenMM System (.xml).
        out: Folder of the molecule; its name is the molecule's.
        forcefield: OpenMM force-field files with commas between, for structures and sequences, Amber ff99SB-ILDN with
            OBC2 by default; for a prmtop or psf an implicit solvent (HCT, OBC1, OBC2, GBn, GBn2), vacuum by default.
        constraints: Bonds to hold fixed: HBonds, AllBonds or HAngles; none by default.
        coordinates: Structure that goes with a prmtop, top, psf or xml; the file of the same name beside it by default.
        parameters: Parameter files of a psf (rtf, prm, str); repeat it for more.
        add_hydrogens: Add hydrogens that a file lacks: PDB or mmCIF, for pH 7; SDF, MOL or MOL2, for its charges.
        trust: Let files run the code they carry; only for files of your own.
    """
    from boltzkit.energy.forcefield import check_parity
    from boltzkit.molecule import read_molecule, save_molecule

    found = read_molecule(
        molecule,
        forcefield,
        constraints,
        coordinates=coordinates,
        parameters=parameters or (),
        add_hydrogens=add_hydrogens,
        trust=trust,
    )
    parity = check_parity(found.system, found.positions, name=found.name)
    save_molecule(found, out)
    rows = [
        ("atoms", str(found.n_atoms)),
        ("bonds held fixed", str(len(found.constraints))),
        ("minimised energy", f"{found.minimum_energy:.3f} kJ/mol"),
        ("differs from OpenMM by", f"{parity.energy_error:.1e} kJ/mol"),
    ]
    print(aligned(rows))
    for remark in found.remarks:
        print(f"Remark: {remark}")
    print(f"Written to {out}.")
    print(f"Next: boltzkit run {out}")
