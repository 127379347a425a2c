"""The triple-link inverted pendulum on a cart: F(q) q̈ + G(q, q̇) q̇ + H(q) = L(q̇, force).

q = (x, θ1, θ2, θ3) holds the cart's position and the absolute angles of the links (0 = upright, positive towards
+x); the state is (q, q̇), eight numbers. Constants and structure follow the public dotRL code of Si & Wang's (2001)
plant, with three errors of that code corrected: J11 uses m1 l1² (not m2 l1²), a product that must be a sum in G, and
Coulomb friction that opposes the velocity (not the position). The constants below are SI.

The dynamics are compiled and all live in this file. The tests hold the same equations in plain NumPy, next to a
derivation from the Lagrangian that shares no code with either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from sparsetd.system import Array

FORCES = np.array([0.0, 5.0, -5.0])  # the paper's three actions, in newtons
# The cited code's Coulomb coefficients. Off by default: they act on absolute angular velocities, so they hold the light
# third link against inertial space, up to 3.5° from upright, which no joint does.
COULOMB = (0.07 * 1.3, 0.003 * 0.506, 0.003 * 0.219, 0.003 * 0.568)
TRACK = 1.0
ANGLE = np.deg2rad(20.0)


@dataclass(frozen=True)
class Plant:
    """Masses, lengths and frictions; the derived constants of F, G and H are its methods."""

    g: float = 9.8
    cart: float = 1.014
    mass: tuple[float, float, float] = (0.4506, 0.219, 0.0568)
    centre: tuple[float, float, float] = (0.37, 0.30, 0.05)
    length: tuple[float, float, float] = (0.43, 0.33, 0.13)
    inertia: tuple[float, float, float] = (0.0042, 0.0012, 0.00010609)
    viscous: tuple[float, float, float, float] = (5.5, 0.00026875, 0.00026875, 0.00026875)
    coulomb: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def constants(self) -> Array:
        """g, Mt, h1..h3, J11, J22, J33, J12, J13, J23, the four viscous and the four Coulomb coefficients."""
        (m1, m2, m3), (l1, l2, l3), (L1, L2, _) = self.mass, self.centre, self.length
        h1, h2, h3 = m1 * l1 + (m2 + m3) * L1, m2 * l2 + m3 * L2, m3 * l3
        J11 = self.inertia[0] + m1 * l1**2 + (m2 + m3) * L1**2
        J22 = self.inertia[1] + m2 * l2**2 + m3 * L2**2
        J33 = self.inertia[2] + m3 * l3**2
        total = self.cart + m1 + m2 + m3
        inertias = (J11, J22, J33, L1 * h2, L1 * h3, L2 * h3)
        return np.array([self.g, total, h1, h2, h3, *inertias, *self.viscous, *self.coulomb])


@njit(cache=True)
def derivative(s: Array, force: float, k: Array, out: Array) -> None:
    """Writes (q̇, q̈) to `out`: q̈ = F⁻¹(L − G q̇ − H), solved by an unrolled Cholesky factor of F."""
    t1, t2, t3, v0, v1, v2, v3 = s[1], s[2], s[3], s[4], s[5], s[6], s[7]
    s12, s13, s23 = np.sin(t1 - t2), np.sin(t1 - t3), np.sin(t2 - t3)
    n1, n2, n3 = np.sin(t1), np.sin(t2), np.sin(t3)
    F10, F20, F30 = k[2] * np.cos(t1), k[3] * np.cos(t2), k[4] * np.cos(t3)
    F21, F31, F32 = k[8] * np.cos(t1 - t2), k[9] * np.cos(t1 - t3), k[10] * np.cos(t2 - t3)
    r0 = force - np.sign(v0) * k[15] - k[11] * v0 + k[2] * n1 * v1 * v1 + k[3] * n2 * v2 * v2 + k[4] * n3 * v3 * v3
    r1 = k[0] * k[2] * n1 - np.sign(v1) * k[16] - (k[12] + k[13]) * v1 + k[13] * v2
    r1 -= k[8] * s12 * v2 * v2 + k[9] * s13 * v3 * v3
    r2 = k[0] * k[3] * n2 - np.sign(v2) * k[17] + k[13] * v1 - (k[13] + k[14]) * v2 + k[14] * v3
    r2 += k[8] * s12 * v1 * v1 - k[10] * s23 * v3 * v3
    r3 = k[0] * k[4] * n3 - np.sign(v3) * k[18] + k[14] * v2 - k[14] * v3 + k[9] * s13 * v1 * v1 + k[10] * s23 * v2 * v2
    d0 = k[1]
    a1, a2, a3 = F10 / d0, F20 / d0, F30 / d0
    d1 = k[5] - a1 * F10
    b2, b3 = (F21 - a2 * F10) / d1, (F31 - a3 * F10) / d1
    d2 = k[6] - a2 * F20 - b2 * b2 * d1
    c3 = (F32 - a3 * F20 - b3 * b2 * d1) / d2
    d3 = k[7] - a3 * F30 - b3 * b3 * d1 - c3 * c3 * d2
    r1 -= a1 * r0
    r2 -= a2 * r0 + b2 * r1
    r3 -= a3 * r0 + b3 * r1 + c3 * r2
    x3 = r3 / d3
    x2 = r2 / d2 - c3 * x3
    x1 = r1 / d1 - b2 * x2 - b3 * x3
    x0 = r0 / d0 - a1 * x1 - a2 * x2 - a3 * x3
    out[0], out[1], out[2], out[3] = v0, v1, v2, v3
    out[4], out[5], out[6], out[7] = x0, x1, x2, x3


@njit(cache=True)
def rk4(state: Array, force: float, constants: Array, dt: float, substeps: int) -> Array:
    """The state after `dt` seconds of constant force: `substeps` steps of the classical Runge–Kutta method."""
    h = dt / substeps
    s = state.copy()
    k1, k2, k3, k4 = np.empty(8), np.empty(8), np.empty(8), np.empty(8)
    for _ in range(substeps):
        derivative(s, force, constants, k1)
        derivative(s + 0.5 * h * k1, force, constants, k2)
        derivative(s + 0.5 * h * k2, force, constants, k3)
        derivative(s + h * k3, force, constants, k4)
        s = s + (h / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return s


def failed(state: Array) -> bool:
    """Return whether the cart left the track (±1 m) or a link tilted beyond 20°."""
    return bool(abs(state[0]) > TRACK or np.max(np.abs(state[1:4])) > ANGLE)
