"""The free-energy difference of the chain's two wells, by quadrature: F(phi > 0) - F(phi < 0) in kJ/mol."""

import numpy as np

KT = 0.00831446261815324 * 300
phi = np.linspace(-np.pi, np.pi, 200_000, endpoint=False) + np.pi / 200_000
weight = np.exp(-(12 * (1 + np.cos(2 * phi)) + 3 * (1 + np.cos(phi - np.pi / 2))) / KT)
print(f"{-KT * np.log(weight[phi > 0].sum() / weight[phi < 0].sum()):.4f}")
