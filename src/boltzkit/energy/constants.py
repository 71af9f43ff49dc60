"""Physical constants in nm, kJ/mol and kelvin."""

__all__ = ["BOLTZMANN"]

BOLTZMANN = 0.00831446261815324
"""k_B in kJ/(mol K)."""
