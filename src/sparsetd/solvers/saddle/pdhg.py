"""The primal–dual hybrid gradient method with adaptive steps, restarts and a primal weight (after PDLP).

    x⁺ = prox_{τh}(x − τAᵀy)        y⁺ = Π(y + σ(A(2x⁺ − x) − b))        τ = s/ω, σ = sω

One product with A and one with Aᵀ per iteration, and nothing factorised: the method for solutions with so many
non-zeros that a working set would be the whole problem. The products are averaged along with the iterates, so the
duality gap of the average is free; it decides when to restart from the average.

References
----------
Applegate et al. (2021), Practical large-scale linear programming using primal-dual hybrid gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetd.solvers.saddle.problem import Point, Problem
from sparsetd.solvers.saddle.support import polished
from sparsetd.system import Array

# Restart when the gap fell to 20 %, when it fell to 80 % and rises again, or after 36 % of all iterations.
SUFFICIENT, NECESSARY, LONG = 0.2, 0.8, 0.36
LOOK_EVERY = 3  # iterations between two looks at the gap


@dataclass
class _Steps:
    """The step s, adapted to the curvature that was met, and the primal weight ω."""

    size: float
    weight: float
    tried: int = 0

    def advance(self, problem: Problem, now: Array) -> Array:
        """One iteration from the rows (x, y, Ax, Aᵀy), repeated with a smaller step until the step was safe."""
        while True:
            self.tried += 1
            tau, sigma = self.size / self.weight, self.size * self.weight
            x = problem.terms.prox(now[0] - tau * now[3], tau)
            Ax = problem.apply(x)
            y = problem.norm.project(now[1] + sigma * (2 * Ax - now[2] - problem.A.b))
            dx, dy = x - now[0], y - now[1]
            curvature = abs(float(dy @ (Ax - now[2])))
            length = self.weight * float(dx @ dx) + float(dy @ dy) / self.weight
            limit = length / (2 * curvature) if curvature > 0 else np.inf
            safe = self.size <= limit
            # PDLP's rule: shrink below what was safe, or grow a little; both changes fade as tries add up.
            self.size = min((1 - (self.tried + 1) ** -0.3) * limit, (1 + (self.tried + 1) ** -0.6) * self.size)
            if safe:
                return np.stack([x, y, Ax, problem.adjoint(y)])


def pdhg(problem: Problem, tol: float, start: Point, max_iter: int = 10_000) -> Point:
    """Improves `start` until its relative gap is at most `tol`, in at most `max_iter` iterations."""
    origin = mean = now = np.stack([start.x, start.y, start.Ax, start.z])
    steps, best = _first_steps(problem, start), start
    total, count, gap_origin, gap_last = 0.0, 0, start.gap, np.inf
    last = tried = np.empty(0)
    for k in range(1, max_iter + 1):
        if best.relative_gap <= tol or problem.late:
            break
        step = steps.size
        now = steps.advance(problem, now)
        total, count = total + step, count + 1
        mean = now if count == 1 else mean + step / total * (now - mean)
        if k % LOOK_EVERY and count < LONG * k:
            continue
        here, there = problem.point(*now), problem.point(*mean)
        candidate, point = (now, here) if here.gap < there.gap else (mean, there)
        best = best.merged(here).merged(there)
        problem.note(best, problem.A.size)
        enough = point.gap <= SUFFICIENT * gap_origin or (point.gap <= NECESSARY * gap_origin and point.gap > gap_last)
        gap_last = point.gap
        if enough or count >= LONG * k:
            moved_x, moved_y, *_ = np.linalg.norm(candidate - origin, axis=1)
            if min(moved_x, moved_y) > 1e-12:  # equal progress in both
                steps.weight = float(np.sqrt(steps.weight * moved_y / moved_x))
            signs = np.sign(here.x)
            if np.array_equal(signs, last) and not np.array_equal(signs, tried):
                # A restart left the signs as they were: probably the support is the right one, so try its closed form.
                best, tried = best.merged(polished(problem, here)), signs
            last = signs
            origin = mean = now = candidate
            total, count, gap_origin, gap_last = 0.0, 0, point.gap, np.inf
    return best


def _first_steps(problem: Problem, start: Point) -> _Steps:
    """s = 1/‖A‖ from a few power iterations, and ω = ‖b‖₂ as the ratio of the scales of y and x."""
    v = start.z if start.z.any() else np.ones(problem.A.size)
    length = 1.0
    for _ in range(3):
        v = problem.adjoint(problem.apply(v / np.linalg.norm(v)))
        length = float(np.linalg.norm(v)) or 1.0
    size_x = float(np.linalg.norm(start.x)) or float(np.linalg.norm(problem.A.b)) / np.sqrt(length)
    return _Steps(1.0 / np.sqrt(length), problem.norm.scale / max(size_x, 1e-300))
