"""The triple-link inverted pendulum on a cart: F(q) q̈ + G(q, q̇) q̇ + H(q) = L(q̇, force).

q = (x, θ1, θ2, θ3) holds the cart's position and the absolute angles of the links (0 = upright, positive towards
+x); the state is (q, q̇), eight numbers. Constants and structure follow the public dotRL code of Si & Wang's (2001)
plant, with three errors of that code corrected: J11 uses m1 l1² (not m2 l1²), a product that must be a sum in G, and
Coulomb friction that opposes the velocity (not the position). The constants below are SI.

The dynamics are compiled and all live in this file; :func:`accelerations` is the readable form the compiled one is
tested against, next to a derivation from the Lagrangian that shares no code with either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla

from sparsetd._tools.jit import njit
from sparsetd.system import Array

FORCES = np.array([0.0, 5.0, -5.0])
"""The paper's three actions, in newtons."""

COULOMB = (0.07 * 1.3, 0.003 * 0.506, 0.003 * 0.219, 0.003 * 0.568)
"""The cited code's Coulomb coefficients. Off by default: they act on absolute angular velocities, so they hold the
light third link against inertial space, up to 3.5° from upright, which no joint does."""

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

    def frictionless(self) -> Plant:
        """The same masses without any friction: energy is conserved."""
        return replace(self, viscous=(0.0,) * 4, coulomb=(0.0,) * 4)

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


def accelerations(state: Array, force: float, plant: Plant) -> Array:
    """q̈ = F⁻¹ (L − G q̇ − H) in plain NumPy."""
    g, total, h1, h2, h3, J11, J22, J33, J12, J13, J23, *friction = plant.constants()
    (C0, C1, C2, C3), coulomb = friction[:4], np.array(friction[4:])
    (t1, t2, t3), v = state[1:4], state[4:]
    c12, c13, c23 = np.cos(t1 - t2), np.cos(t1 - t3), np.cos(t2 - t3)
    s12, s13, s23 = np.sin(t1 - t2), np.sin(t1 - t3), np.sin(t2 - t3)
    a, b, c = h1 * np.cos(t1), h2 * np.cos(t2), h3 * np.cos(t3)
    F = np.array(
        [
            [total, a, b, c],
            [a, J11, J12 * c12, J13 * c13],
            [b, J12 * c12, J22, J23 * c23],
            [c, J13 * c13, J23 * c23, J33],
        ]
    )
    G = np.array(
        [
            [C0, -h1 * np.sin(t1) * v[1], -h2 * np.sin(t2) * v[2], -h3 * np.sin(t3) * v[3]],
            [0.0, C1 + C2, J12 * s12 * v[2] - C2, J13 * s13 * v[3]],
            [0.0, -J12 * s12 * v[1] - C2, C2 + C3, J23 * s23 * v[3] - C3],
            [0.0, -J13 * s13 * v[1], -J23 * s23 * v[2] - C3, C3],
        ]
    )
    H = -g * np.array([0.0, h1 * np.sin(t1), h2 * np.sin(t2), h3 * np.sin(t3)])
    L = np.array([force, 0.0, 0.0, 0.0]) - np.sign(v) * coulomb
    return np.linalg.solve(F, L - G @ v - H)


@njit(cache=True)
def _derivative(s: Array, force: float, k: Array, out: Array) -> None:
    """Writes (q̇, q̈) to `out`: the same equations as `accelerations`, solved by an unrolled Cholesky factor of F."""
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
        _derivative(s, force, constants, k1)
        _derivative(s + 0.5 * h * k1, force, constants, k2)
        _derivative(s + 0.5 * h * k2, force, constants, k3)
        _derivative(s + h * k3, force, constants, k4)
        s = s + (h / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return s


def failed(state: Array) -> bool:
    """Whether the cart left the track (±1 m) or a link tilted beyond 20°."""
    return bool(abs(state[0]) > TRACK or np.max(np.abs(state[1:4])) > ANGLE)


def energy(state: Array, plant: Plant) -> float:
    """Kinetic plus potential energy, from F and H of the equations of motion."""
    g, total, h1, h2, h3, J11, J22, J33, J12, J13, J23 = plant.constants()[:11]
    (t1, t2, t3), (v0, v1, v2, v3) = state[1:4], state[4:]
    kinetic = 0.5 * (total * v0**2 + J11 * v1**2 + J22 * v2**2 + J33 * v3**2)
    kinetic += v0 * (h1 * np.cos(t1) * v1 + h2 * np.cos(t2) * v2 + h3 * np.cos(t3) * v3)
    kinetic += J12 * np.cos(t1 - t2) * v1 * v2 + J13 * np.cos(t1 - t3) * v1 * v3 + J23 * np.cos(t2 - t3) * v2 * v3
    return float(kinetic + g * (h1 * np.cos(t1) + h2 * np.cos(t2) + h3 * np.cos(t3)))


def linearize(plant: Plant, step: float = 1e-6) -> tuple[Array, Array]:
    """(A, B) of ṡ ≈ A s + B force upright, without Coulomb friction (which has no derivative at 0)."""
    constants = replace(plant, coulomb=(0.0,) * 4).constants()

    def f(state: Array, force: float) -> Array:
        out = np.empty(8)
        _derivative(state, force, constants, out)
        return out

    A = np.column_stack([(f(step * e, 0.0) - f(-step * e, 0.0)) / (2 * step) for e in np.eye(8)])
    B = (f(np.zeros(8), step) - f(np.zeros(8), -step)) / (2 * step)
    return A, B[:, None]


@dataclass(frozen=True)
class LQR:
    """The reference controller: force = −K s, rounded to the nearest of the paper's three actions.

    `value` is the matrix P of the cost Σ sᵀ Q s + R force², so sᵀ P s is the (unquantised) cost to go. It knows the
    model: it shows that the task can be solved, and is not a competitor.
    """

    gain: Array
    value: Array

    def __call__(self, state: Array) -> int:
        """Index of the action nearest to −K s."""
        return int(np.argmin(np.abs(FORCES + self.gain @ state)))


def lqr(plant: Plant, dt: float, control_cost: float = 0.01) -> LQR:
    """Discrete-time linear-quadratic controller for the linearised plant, with unit state costs, held for `dt`."""
    A, B = linearize(plant)
    block = sla.expm(dt * np.block([[A, B], [np.zeros((1, 9))]]))
    Ad, Bd = block[:8, :8], block[:8, 8:]
    P = sla.solve_discrete_are(Ad, Bd, np.eye(8), np.array([[control_cost]]))
    gain = np.linalg.solve(control_cost + Bd.T @ P @ Bd, Bd.T @ P @ Ad)
    return LQR(gain[0], P)
