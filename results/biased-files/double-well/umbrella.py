"""Umbrella windows of the chain by plain OpenMM, as any user would have them: one DCD file each, and umbrella.toml.

Run it with the folder to fill: ``python umbrella.py windows``.
"""

import math
import sys
from pathlib import Path

import openmm
from openmm import app, unit

WINDOWS, FRAMES, EVERY, FORCE_CONSTANT = 16, 2000, 50, 40.0
HERE = Path(__file__).parent


def simulate(centre: float, seed: int, path: Path) -> None:
    """Run one window, 200 ps after 10 ps of equilibration, and store a frame every 0.1 ps."""
    structure = app.PDBFile(str(HERE / "chain.pdb"))
    field = app.ForceField(str(HERE / "chain.xml"))
    system = field.createSystem(structure.topology, removeCMMotion=False)
    bias = openmm.CustomTorsionForce("k/2*d^2; d=min(abs(theta-s), 6.283185307179586-abs(theta-s))")
    bias.addGlobalParameter("k", FORCE_CONSTANT)
    bias.addGlobalParameter("s", centre)
    bias.addTorsion(0, 1, 2, 3)
    system.addForce(bias)
    integrator = openmm.LangevinMiddleIntegrator(300 * unit.kelvin, 5 / unit.picosecond, 2 * unit.femtosecond)
    integrator.setRandomNumberSeed(seed)
    simulation = app.Simulation(
        structure.topology, system, integrator, openmm.Platform.getPlatformByName("Reference")
    )
    simulation.context.setPositions(structure.positions)
    simulation.minimizeEnergy()
    simulation.context.setVelocitiesToTemperature(300 * unit.kelvin, seed)
    simulation.step(5000)
    simulation.reporters.append(app.DCDReporter(str(path), EVERY))
    simulation.step(FRAMES * EVERY)


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir()
    text = f"torsion = [0, 1, 2, 3]\nforce_constant = {FORCE_CONSTANT}\n"
    for window in range(WINDOWS):
        centre = -math.pi + 2 * math.pi * window / WINDOWS
        simulate(centre, 1 + window, out / f"window-{window:02d}.dcd")
        text += f'\n[[window]]\nfile = "window-{window:02d}.dcd"\ncentre = {centre:.6f}\n'
    (out / "umbrella.toml").write_text(text)
