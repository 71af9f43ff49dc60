"""Umbrella windows along phi of alanine dipeptide by plain OpenMM: one DCD file each, and umbrella.toml.

Run it with the folder to fill: ``python umbrella.py windows``.
"""

import math
import sys
from pathlib import Path

import openmm
from openmm import app, unit

import boltzkit as bk

WINDOWS, FRAMES, EVERY, FORCE_CONSTANT = 24, 4000, 50, 60.0
PHI = (4, 6, 8, 14)


def simulate(molecule: bk.Molecule, centre: float, seed: int, path: Path) -> None:
    """Run one window, 200 ps after 5 ps of equilibration, and store a frame every 50 fs."""
    system = openmm.XmlSerializer.deserialize(openmm.XmlSerializer.serialize(molecule.system))
    bias = openmm.CustomTorsionForce("k/2*d^2; d=min(abs(theta-s), 6.283185307179586-abs(theta-s))")
    bias.addGlobalParameter("k", FORCE_CONSTANT)
    bias.addGlobalParameter("s", centre)
    bias.addTorsion(*PHI)
    system.addForce(bias)
    integrator = openmm.LangevinMiddleIntegrator(300 * unit.kelvin, 2 / unit.picosecond, 1 * unit.femtosecond)
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(
        molecule.topology, system, integrator, openmm.Platform.getPlatformByName("CPU"), {"Threads": "1"}
    )
    simulation.context.setPositions(molecule.positions.numpy())
    simulation.minimizeEnergy()
    simulation.context.setVelocitiesToTemperature(300 * unit.kelvin, seed)
    simulation.step(5000)
    simulation.reporters.append(app.DCDReporter(str(path), EVERY))
    simulation.step(FRAMES * EVERY)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir()
    molecule = bk.molecules.alanine_dipeptide()
    text = f"torsion = {list(PHI)}\nforce_constant = {FORCE_CONSTANT}\n"
    for window in range(WINDOWS):
        centre = -math.pi + 2 * math.pi * window / WINDOWS
        simulate(molecule, centre, 1 + window, out / f"window-{window:02d}.dcd")
        text += f'\n[[window]]\nfile = "window-{window:02d}.dcd"\ncentre = {centre:.6f}\n'
    (out / "umbrella.toml").write_text(text)
