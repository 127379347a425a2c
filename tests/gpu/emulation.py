"""The kernel's algorithm in NumPy: the same scalars, the same passes, every sum in the kernel's order.

It exists to be compared: with the kernel where there is a GPU, and with the library's solvers where there is none.
The sums over a block go thread by thread over its own elements, then as a tree over the 32 lanes of a warp, then warp
by warp.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from sparsetd.sweeps.cuda.job import Inputs, Shape
from sparsetd.system import Array


def emulate(shape: Shape, tables: Array, inputs: Inputs, points: list[int], *_: Any) -> tuple[Array, Array]:
    """In the place of `sparsetd.sweeps.cuda.launch.launch`, run by run."""
    gram = inputs.gram(np) if shape.job.rule != "fixed" else None
    runs = [_Run(shape, tables, inputs, gram, b) for b in range(len(inputs.job))]
    found = [run.go(points) for run in runs]
    return np.stack(found), np.array([run.t for run in runs])


def block_sum(values: Array, threads: int, padded: int) -> Any:
    """The sum of an array (…, actions, elements, threads) in the kernel's order, where a step needs `padded` sums."""
    own = values[..., 0, 0, :]
    for a in range(values.shape[-3]):
        for i in range(values.shape[-2]):
            if a or i:
                own = own + values[..., a, i, :]
    lanes = own.reshape(*own.shape[:-1], threads // 32, 32)
    for offset in (16, 8, 4, 2, 1):
        lanes = lanes[..., :offset] + lanes[..., offset : 2 * offset]
    warps, at_once = lanes[..., 0], 32 // padded
    parts = [warps[..., k::at_once] for k in range(min(at_once, threads // 32))]
    sums = [reduce(np.add, np.moveaxis(part, -1, 0)) for part in parts]
    sums += [0 * sums[0]] * (at_once - len(sums))
    while len(sums) > 1:
        sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


class _Run:
    """One thread block: vectors have the shape (blocks, actions, elements, threads)."""

    def __init__(self, shape: Shape, tables: Array, inputs: Inputs, gram: Any, b: int) -> None:
        self.shape, self.inputs, self.job, self.gram = shape, inputs, shape.job, gram
        self.real: Any = np.float64 if shape.constants["REAL"] == "double" else np.float32
        self.scalar: Any = self.real if self.job.rule == "fixed" else np.float64
        self.data, self.trace, self.policy = int(inputs.data[b]), int(inputs.trace[b]), int(inputs.policy[b])
        k = self.job.table.n_blocks
        cuts = np.cumsum([9 * k * k, 3 * k, k, k, k, 3])
        parts = np.split(tables[int(inputs.job[b])].astype(self.scalar), cuts)
        self.M, (self.m, self.damping, self.l1, self.l2, self.step, rest) = parts[0].reshape(3 * k, 3 * k), parts[1:]
        self.radius, self.dual_radius, self.start_at, self.cap, self.norm, self.limit = rest
        self.x = self.zeros(k)
        self.origin = self.zeros(k)
        if inputs.origin is not None:
            origins = np.asarray(inputs.origin).reshape(-1, inputs.actions, inputs.phi.shape[2])
            self.origin[-1] = self.laid_out(origins[b if len(origins) > 1 else 0])
        self.averaging = self.job.rule == "averaging"
        if not self.averaging:
            self.x = self.origin.copy()
        self.y, self.e = self.zeros(k), self.zeros(1)[0]
        self.sum, self.earlier = self.zeros(1)[0], self.zeros(1)[0]
        self.t, self.fine = 0, True
        self.weight = self.weight_earlier = self.mass = self.gx = self.gy = self.reach = self.start = self.scalar(0)
        self.size = self.rows = self.last = self.scale = self.scalar(0)

    def zeros(self, k: int) -> Array:
        return np.zeros(
            (k, self.shape.constants["ACTIONS"], self.shape.constants["PER"], self.shape.constants["THREADS"]),
            self.real,
        )

    def laid_out(self, rows: Array) -> Array:
        """(actions, d) → (actions, elements, threads): element i of thread j is feature i·threads + j."""
        out = np.zeros((len(rows), self.shape.width), self.real)
        out[:, : rows.shape[1]] = rows
        return out.reshape(len(rows), self.shape.constants["PER"], self.shape.constants["THREADS"])

    def load(self, t: int) -> None:
        """φ, ψ and e of row t, e from the trace before it."""
        inputs, t = self.inputs, t % self.inputs.n_rows
        self.reward = self.scalar(inputs.reward[self.data, t])
        self.ahead = inputs.ahead[self.policy, t].astype(self.scalar)
        self.fresh = self.scalar(inputs.fresh[self.trace, t])
        phi, following = (
            self.laid_out(inputs.phi[self.data, t][None]),
            self.laid_out(inputs.phi_next[self.data, t][None]),
        )
        here = np.zeros(inputs.actions, self.real)
        here[0 if inputs.action is None else int(inputs.action[self.data, t])] = 1
        self.f, self.g = here[:, None, None] * phi, self.ahead.astype(self.real)[:, None, None] * following
        if self.job.table.lam > 0:
            self.e = self.real(self.fresh) * self.f + self.real(inputs.old[self.trace, t]) * self.e
        else:
            self.e = self.real(self.fresh) * self.f
        if self.gram is not None:
            self.row_gram = self.gram[self.data, t]
            change = self.f - following
            self.with_e = [self.total(self.e * v) for v in (self.f, change, self.e)]

    def total(self, values: Array) -> Any:
        return self.scalar(block_sum(values, self.shape.constants["THREADS"], self.shape.constants["PADDED"]))

    def products(self, v: Array, scale: Any) -> Array:
        p = [self.total(block * row) for block in v for row in (self.f, self.g, self.e)]
        return np.asarray(scale * np.array(p, dtype=self.scalar))

    def in_range(self, p: Array, q: Array) -> bool:
        """Whether θᵀφ and θᵀψ stay within the run's own scale, and everything within the range of numbers."""
        value = np.abs(p[-3:-1]).sum()
        self.scale = max(self.scale, abs(self.reward))
        if (self.t < 10 or self.scale == 0) and value < self.limit:
            self.scale = max(self.scale, value)
        self.fine = bool(value <= 1e8 * self.scale and np.abs(p).sum() + np.abs(q).sum() < self.limit)
        return self.fine

    def square(self, k: Array, damping: Any, p: Array, xx: Any) -> Any:
        """‖k₀φ + k₁ψ + k₂e + damping·x‖² from the Gram matrix of φ, φ − φ' and e."""
        c = self.ahead[0]
        f, q = k[0] + c * k[1], -c * k[1]
        ff, fd, dd = self.row_gram
        ef, ed, ee = self.with_e
        s = f * f * ff + 2 * f * q * fd + q * q * dd + k[2] * (2 * f * ef + 2 * q * ed + k[2] * ee)
        return s + damping * (2 * (k @ p) + damping * xx)

    def gradient(self, p: Array, v: Array, *, adjoint: bool) -> tuple[Array, Any]:
        """The gradient as vectors, and its squared length; `v` is what damping multiplies."""
        k = ((self.M.T @ p) if adjoint else self.M @ p - self.reward * self.m).reshape(-1, 3)
        rows = np.stack([self.f, self.g, self.e])
        vectors = np.tensordot(k.astype(self.real), rows, axes=1)
        damping = np.zeros(len(k), self.scalar) if self.job.dual != "none" else self.damping
        vectors += damping.astype(self.real)[:, None, None, None] * v
        if self.job.rule == "fixed":
            return vectors, self.scalar(0)
        sizes = [self.total(b * b) if d else 0.0 for b, d in zip(v, damping, strict=True)]
        squares = [self.square(k[b], damping[b], p[3 * b : 3 * b + 3], sizes[b]) for b in range(len(k))]
        return vectors, sum(squares)

    def steps(self, nx: Any, ny: Any) -> tuple[Any, Any, Any]:
        """(α, β, weight) with these squares on top of the record."""
        reach = max(self.reach, self.start)
        if self.job.rule == "fixed":
            scale, horizon, power = self.step
            alpha = scale / (1 + self.scalar(self.t) / horizon) ** power
            return alpha, alpha, self.scalar(0)
        if self.job.rule == "distance":
            top = self.cap * min(self.rows / self.size, 1.5 / self.last) if self.last > 0 else np.inf
            return min(_over_root(reach, self.gx + nx), top), _over_root(self.dual_radius, self.gy + ny), self.scalar(0)
        return _over_root(1.0, self.gx + nx), _over_root(self.dual_radius, self.gy + reach * reach * ny), reach

    def shrink(self, v: Array, step: Any) -> Array:
        bound = (step * self.l1).astype(self.real)[:, None, None, None]
        ridge = (1 + step * self.l2).astype(self.real)[:, None, None, None]
        return np.asarray((v - np.clip(v, -bound, bound)) / ridge)

    def primal(self, v: Array, g: Array, alpha: Any, weight: Any, mass: Any) -> Array:
        if self.averaging:
            moved = self.origin - self.real(alpha) * (v + self.real(weight) * g)
            return self.shrink(moved, alpha * mass) if alpha > 0 else self.origin.copy()
        return self.shrink(v - self.real(alpha) * g, alpha)

    def dual(self, v: Array, g: Array, beta: Any, weight: Any) -> Array:
        moved = self.real(beta) * (v + self.real(weight) * g) if self.averaging else v + self.real(beta) * g
        return np.clip(moved, -1, 1) if self.job.dual == "box" else moved

    def into_ball(self, y: Array) -> Any:
        square = sum(self.total(b * b) for b in y) if self.job.dual == "l2" else self.scalar(0)
        return 1 / np.sqrt(square) if square > 1 else self.scalar(1)

    def go(self, points: list[int]) -> Array:
        found = []
        for count in range(self.inputs.n_rows * self.job.passes):
            self.load(count)
            if not self.row():
                break
            self.t += 1
            if self.t in points:
                found.append(self.reported())
        while len(found) < len(points):
            found.append(self.reported())
        return np.stack(found)

    def row(self) -> bool:
        """One row of the stream; False where a product left the range of numbers."""
        self.hold()
        alpha, beta, _ = self.steps(0, 0)
        x = self.primal(self.x, 0 * self.x, alpha, 0, self.mass) if self.averaging else self.x
        y = self.dual(self.y, 0 * self.y, beta, 0) if self.averaging else self.y
        sy = self.into_ball(y)
        p, q = self.products(x, self.scalar(1)), self.products(y, sy) if self.job.dual != "none" else np.zeros(0)
        if not self.in_range(p, q):
            return False
        if self.t >= 2 and self.t & (self.t - 1) == 0 and self.job.average == "suffix":
            self.earlier, self.weight_earlier = self.sum, self.weight
            self.sum, self.weight = 0 * self.sum, self.scalar(0)
        y = self.real(sy) * y
        gx, gy, nx, ny = self.both(p, q, x, y)
        if self.gram is not None:
            self.record_row(nx if self.job.dual == "none" else ny)
        alpha, beta, weight = self.steps(nx, ny)
        counted = x
        if self.job.trial:
            stored = (self.x, self.y) if self.averaging else (x, y)
            counted = self.primal(stored[0], gx, alpha, weight, self.mass + weight)
            mid = self.dual(stored[1], gy, beta, weight)
            s = self.into_ball(mid)
            p, q = self.products(counted, self.scalar(1)), self.products(mid, s) if self.job.dual != "none" else q
            gx, gy, mx, my = self.both(p, q, counted, self.real(s) * mid)
            nx, ny = max(nx, mx), max(ny, my)
            alpha, beta, weight = self.steps(nx, ny)
        share = weight if self.averaging else alpha
        self.gx, self.gy = self.gx + nx, self.gy + (weight * weight if self.averaging else 1) * ny
        self.mass, self.weight = self.mass + weight, self.weight + share
        self.sum = self.sum + self.real(share) * counted[-1]
        if self.averaging:
            self.x, self.y = self.x + self.real(weight) * gx, self.y + self.real(weight) * gy
        else:
            self.x = self.primal(x, gx, alpha, 0, 0)
            self.y = self.dual(y, gy, beta, 0)
        return True

    def hold(self) -> None:
        """The projection of x that waits, and the distance from the origin."""
        if np.isfinite(self.radius):
            square = sum(self.total(b * b) for b in self.x)
            if square > self.radius * self.radius:
                self.x = self.real(self.radius / np.sqrt(square)) * self.x
        if self.gram is not None and self.t > 0:
            alpha = self.steps(0, 0)[0]
            x = self.primal(self.x, 0 * self.x, alpha, 0, self.mass) if self.averaging else self.x
            self.reach = max(self.reach, np.sqrt(sum(self.total(b * b) for b in x - self.origin)))

    def both(self, p: Array, q: Array, x: Array, y: Array) -> tuple[Array, Array, Any, Any]:
        """Gradients of x and y and their squares; without a dual there is one."""
        residual, square = self.gradient(p, x, adjoint=False)
        if self.job.dual == "none":
            return residual, 0 * y, square, self.scalar(0)
        descent, length = self.gradient(q, y, adjoint=True)
        return descent, residual, length, square

    def record_row(self, square: Any) -> None:
        ff, fd, dd = self.row_gram
        c, damping = self.ahead[0], self.damping[0] if self.shape.constants["DAMPED"] else 0.0
        psi = c * c * (ff - 2 * fd + dd)
        bound = self.norm * (ff + psi + np.sqrt(self.with_e[2] * max(ff, psi))) + damping
        if bound > 0:
            self.start = max(self.start, self.start_at * np.sqrt(square) / bound)
        self.size, self.rows, self.last = self.size + bound, self.rows + 1, bound

    def reported(self) -> Array:
        last = self.steps(0, 0)[0] if self.job.rule == "fixed" and not self.job.trial and self.fine else self.scalar(0)
        self.hold()
        x = self.primal(self.x, 0 * self.x, self.steps(0, 0)[0], 0, self.mass) if self.averaging else self.x
        v, weight = x[-1], self.weight + last
        if self.job.average != "none" and weight + self.weight_earlier > 0:
            suffix = self.job.average == "suffix"
            weight = weight + (self.weight_earlier if suffix else 0)
            v = (self.sum + (self.earlier if suffix else 0) + self.real(last) * v) / self.real(weight)
        d = self.inputs.phi.shape[2]
        return np.asarray(v.reshape(self.shape.constants["ACTIONS"], -1)[:, :d].reshape(-1))


def _over_root(top: Any, square: Any) -> Any:
    return top / np.sqrt(square) if square > 0 else 0.0 * top
