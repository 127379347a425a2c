"""The triple link against a derivation from the Lagrangian that shares no code with it, and conservation of energy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from reproduction.triple_link_coordinates import fourier, linearize, lqr
from reproduction.triple_link_plant import COULOMB, FORCES, Plant, failed, rk4

FRICTIONLESS = Plant(viscous=(0.0,) * 4)
STATES = [0.4 * np.random.default_rng(seed).normal(size=8) for seed in range(5)]


def accelerations(state, force, plant):
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


def energy(state, plant):
    """Kinetic plus potential energy, from F and H of the equations of motion."""
    g, total, h1, h2, h3, J11, J22, J33, J12, J13, J23 = plant.constants()[:11]
    (t1, t2, t3), (v0, v1, v2, v3) = state[1:4], state[4:]
    kinetic = 0.5 * (total * v0**2 + J11 * v1**2 + J22 * v2**2 + J33 * v3**2)
    kinetic += v0 * (h1 * np.cos(t1) * v1 + h2 * np.cos(t2) * v2 + h3 * np.cos(t3) * v3)
    kinetic += J12 * np.cos(t1 - t2) * v1 * v2 + J13 * np.cos(t1 - t3) * v1 * v3 + J23 * np.cos(t2 - t3) * v2 * v3
    return float(kinetic + g * (h1 * np.cos(t1) + h2 * np.cos(t2) + h3 * np.cos(t3)))


def lagrangian(q, v):
    """T − V from the velocities of the centres of mass, with the constants written out a second time."""
    mass, centre, length = [0.4506, 0.219, 0.0568], [0.37, 0.30, 0.05], [0.43, 0.33, 0.13]
    inertia = [0.0042, 0.0012, 0.00010609]
    total = 0.5 * 1.014 * v[0] ** 2
    joint_velocity, joint_height = np.array([v[0], 0.0]), 0.0
    for m, c, full, own, angle, rate in zip(mass, centre, length, inertia, q[1:], v[1:], strict=True):
        swing = rate * np.array([np.cos(angle), -np.sin(angle)])
        velocity = joint_velocity + c * swing
        total += 0.5 * m * velocity @ velocity + 0.5 * own * rate**2
        total -= m * 9.8 * (joint_height + c * np.cos(angle))
        joint_velocity = joint_velocity + full * swing
        joint_height += full * np.cos(angle)
    return total


def euler_lagrange(state, h=1e-3):
    """q̈ from d/dt ∂L/∂q̇ = ∂L/∂q with central differences of the Lagrangian (exact in q̇, where it is quadratic)."""
    q, v, eye = state[:4], state[4:], np.eye(4)

    def mixed(f):
        return np.array([[(f(a, b) - f(a, -b) - f(-a, b) + f(-a, -b)) / (4 * h * h) for b in h * eye] for a in h * eye])

    F = mixed(lambda a, b: lagrangian(q, v + a + b))
    cross = mixed(lambda a, b: lagrangian(q + b, v + a))

    # 4th-order difference for the gradient in q, so that its error is below that of `cross`.
    def slope(e):
        near, far = lagrangian(q + e, v) - lagrangian(q - e, v), lagrangian(q + 2 * e, v) - lagrangian(q - 2 * e, v)
        return (8 * near - far) / (12 * h)

    return np.linalg.solve(F, np.array([slope(e) for e in h * eye]) - cross @ v)


@pytest.mark.parametrize("state", STATES)
def test_equations_of_motion_follow_from_the_lagrangian(state):
    assert accelerations(state, 0.0, FRICTIONLESS) == pytest.approx(euler_lagrange(state), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("plant", [Plant(), Plant(coulomb=COULOMB)])
def test_compiled_step_solves_the_readable_equations(state, plant):
    dt = 1e-5
    expected = (rk4(state, 3.0, plant.constants(), dt, 1) - rk4(state, 3.0, plant.constants(), -dt, 1))[4:] / (2 * dt)
    assert accelerations(state, 3.0, plant) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_energy_is_conserved_without_friction_and_equals_that_of_the_lagrangian():
    plant, state = FRICTIONLESS, 0.2 * STATES[0]
    start = energy(state, plant)
    # L(q, q̇) = T − V and L(q, 0) = −V
    assert start == pytest.approx(lagrangian(state[:4], state[4:]) - 2 * lagrangian(state[:4], np.zeros(4)), rel=1e-12)
    for _ in range(2000):
        state = rk4(state, 0.0, plant.constants(), 0.001, 8)
    assert energy(state, plant) == pytest.approx(start, abs=1e-9)


def test_friction_only_removes_energy():
    state, plant = 0.3 * STATES[1], Plant(coulomb=COULOMB)
    levels = []
    for _ in range(500):
        levels.append(energy(state, plant))
        state = rk4(state, 0.0, plant.constants(), 0.001, 1)
    assert np.all(np.diff(levels) < 1e-9)


def test_one_runge_kutta_step_is_accurate_at_the_control_step():
    state, k = 0.2 * STATES[2], Plant().constants()
    coarse, fine = rk4(state, 5.0, k, 0.005, 1), rk4(state, 5.0, k, 0.005, 50)
    assert coarse == pytest.approx(fine, abs=1e-6)


def test_unstable_poles_are_those_of_the_literature_constants():
    poles = np.sort(np.linalg.eigvals(linearize(Plant())[0]).real)[-3:]
    assert poles == pytest.approx([4.45, 8.84, 11.11], abs=5e-3)


def test_upright_is_an_equilibrium_and_mirror_images_stay_mirror_images():
    k = Plant().constants()
    assert np.array_equal(rk4(np.zeros(8), 0.0, k, 0.005, 1), np.zeros(8))
    assert rk4(STATES[3], 5.0, k, 0.005, 1) == pytest.approx(-rk4(-STATES[3], -5.0, k, 0.005, 1), abs=1e-12)


@pytest.mark.parametrize("dt", [0.005, 0.02])
def test_quantised_lqr_balances_so_the_task_is_solvable(dt):
    plant = Plant()
    controller = lqr(plant, dt)
    state = rk4(np.zeros(8), FORCES[1], plant.constants(), dt, 1)
    for _ in range(5000):
        state = rk4(state, FORCES[controller(state)], plant.constants(), dt, 1)
        assert not failed(state)


def test_random_pushes_fail_within_a_few_hundred_steps():
    rng, lengths = np.random.default_rng(0), []
    for _ in range(20):
        state, steps = np.zeros(8), 0
        while not failed(state):
            state, steps = rk4(state, rng.choice(FORCES), Plant().constants(), 0.005, 1), steps + 1
        lengths.append(steps)
    assert 70 < np.mean(lengths) < 140


@pytest.mark.parametrize(("p", "order"), [(1, 3), (2, 2), (3, 1), (8, 2)])
def test_fourier_by_products_equals_its_cosines(p, order):
    s = np.random.default_rng(2).random(p)
    c = np.array(list(itertools.product(range(order + 1), repeat=p)))
    assert fourier(s, order) == pytest.approx(np.cos(np.pi * c @ s), abs=1e-12)
