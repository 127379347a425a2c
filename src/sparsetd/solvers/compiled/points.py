"""One step in scalars: gradients, trial points and next points all lie in the span of a vector v and D = (φ, φ', e).

A point of a block is a pair (s, c), meaning s v + c·D. Its products with D are s p + Γc, with p those of v and Γ the
Gram matrix of D, and its square is s²‖v‖² + 2s c·p + cᵀΓc. So a step, its trial point, the norms that a rule asks for
and the projection on an l2 ball need no pass over the state. Gradients are often multiples of δ = φ − γφ', which may be
much shorter than φ: Γ is kept in the basis (φ, δ, e), so that their squares do not cancel.

Vectors are numbered w, θ, y1, y2; a system without w, or a method without y, leaves its places at zero. Arrays of 12
numbers hold four for each of φ, φ' and e, one for each vector: number 4i + b is a lane of a register (`intrinsics`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparsetd.solvers.compiled.compile import part
from sparsetd.solvers.compiled.rules import GX, GY, in_range, see, size_of_row, steps
from sparsetd.system import Array

# Rows of the room of a plan: products of v and of the trial point, gradient, next point, trial point, and in turn the
# numbers s of the next and of the trial point, and ‖v‖².
U, TRIED, GRADIENT, NEXT, TRIAL, NUMBERS = range(6)
S, T, N = 0, 4, 8
# The Gram matrix of (φ, δ, e): φφ, φδ, δδ, φe, δe, ee.
FF, FD, DD, FE, DE, EE = range(6)
ROOM = (7, 12, 0, 0)  # the lengths of rows in the room for a step (`solvers.state`)


class Stream(NamedTuple):
    """Rows in order: φ and φ' (arrays, or CSR rows), rewards, γ, the weights of φ and of the old e in e, steps."""

    phi: Any
    phi_next: Any
    reward: Array
    discount: Array
    fresh: Array
    old: Array
    alpha: Array


class Constants(NamedTuple):
    """The constants of a run: `damping`, `l1` and `l2` of w, θ, y1, y2; ‖x‖ ≤ radius, ‖y‖ ≤ ball, products < limit."""

    M: Array
    m: Array
    damping: Array
    l1: Array
    l2: Array
    norm: float
    radius: float
    ball: float
    limit: float


@part
def fold(G, folded, fixed, k, traced, discount, fresh):
    """A_t = D G Dᵀ and b_t = r D g (the last column): γ goes into G, and c too where e is cφ_t. Returns 1/γ, or 0.

    `folded` are γ, c and 1/γ of the row before: where they are the same again, nothing is to be done.
    """
    if discount == folded[0] and fresh == folded[1]:
        return folded[2]
    folded[0], folded[1], folded[2] = discount, fresh, 1.0 / discount if discount > 0.0 else 0.0
    first, M, m = 2 - k, fixed.M, fixed.m
    for b in range(k):
        for i in range(3):
            row, left = 3 * (first + b) + i, discount if i == 1 else 1.0
            G[row, 6] = left * m[3 * b + i]
            for c in range(k):
                for j in range(3):
                    G[row, 3 * (first + c) + j] = left * M[3 * b + i, 3 * c + j] * (discount if j == 1 else 1.0)
    if not traced:
        for b in range(first, 2):
            for c in range(7):
                G[3 * b, c] += fresh * G[3 * b + 2, c]
        for b in range(first, 2):
            for row in range(6):
                G[row, 3 * b] += fresh * G[row, 3 * b + 2]
    return folded[2]


@part
def residual(G, reward, u, out, at, first, width, times=1.0):
    """out = times·(G u − r g), from vector `at` on: to multiply what has just been written would wait for it."""
    for b in range(first, 2):
        for i in range(width):
            total = -reward * G[3 * b + i, 6]
            for c in range(first, 2):
                for j in range(width):
                    total += G[3 * b + i, 3 * c + j] * u[4 * j + c]
            out[4 * i + at + b] = times * total


@part
def adjoint(G, u, out, first, width, times=1.0):
    """out = times·Gᵀ u_y."""
    for b in range(first, 2):
        for i in range(width):
            total = 0.0
            for c in range(first, 2):
                for j in range(width):
                    total += G[3 * c + j, 3 * b + i] * u[4 * j + 2 + c]
            out[4 * i + b] = times * total


@part
def gradient(G, reward, u, out, first, width, saddle, times=1.0):
    """Descent in x and in y: A_t x − b_t, or A_tᵀ y and −(A_t x − b_t), times a number, without terms of damping."""
    if saddle:
        adjoint(G, u, out, first, width, times)
        residual(G, reward, u, out, 2, first, width, -times)
    else:
        residual(G, reward, u, out, 0, first, width, times)


@part
def square(c, b, gram, inverse):
    """‖c_b·D‖², with 1/γ (or 0 where γ is 0)."""
    other = c[4 + b] * inverse
    along, e = c[b] + other, c[8 + b]
    total = along * along * gram[FF] - 2.0 * along * other * gram[FD] + other * other * gram[DD]
    return total + 2.0 * e * (along * gram[FE] - other * gram[DE]) + e * e * gram[EE]


@part
def gram_with(gram, f, delta, h, traced):
    """The Gram matrix of (φ, δ, e) with one more feature."""
    ff, fd, dd, fe, de, ee = gram
    ff, fd, dd = ff + f * f, fd + f * delta, dd + delta * delta
    if traced:
        fe, de, ee = fe + f * h, de + delta * h, ee + h * h
    return ff, fd, dd, fe, de, ee


@part
def write_gram(out, gram, traced, fresh):
    """A Gram matrix; without traces e is cφ."""
    out[0], out[1], out[2], out[3], out[4], out[5] = gram
    if not traced:
        out[3], out[4], out[5] = fresh * out[0], fresh * out[1], fresh * fresh * out[0]


@part
def products_in_range(record, room, reward, rate, limit):
    """Return whether the run has not diverged, by the products in `room`."""
    u = room[U]
    value, others = abs(u[1]) + rate * abs(u[5]), abs(u[9])
    for i in range(12):
        others += abs(u[i]) if i % 4 != 1 else 0.0
    return in_range(record, reward, value, others, limit)


@part
def row_size(gram):
    """The bound of ‖A_t‖/‖M‖ from Γ."""
    return size_of_row(gram[FF], gram[FF] - 2.0 * gram[FD] + gram[DD], gram[EE])


@part
def inner(c, u, b):
    """(c_b·D)ᵀv for the products u of v with D."""
    return c[b] * u[b] + c[4 + b] * u[4 + b] + c[8 + b] * u[8 + b]


@part
def tried(u, s, c, b, gram, inverse, out):
    """Products of s v + c·D with D."""
    fg, ge = inverse * (gram[FF] - gram[FD]), inverse * (gram[FE] - gram[DE])
    gg = inverse * inverse * (gram[FF] - 2.0 * gram[FD] + gram[DD])
    c0, c1, c2 = c[b], c[4 + b], c[8 + b]
    out[b] = s * u[b] + c0 * gram[FF] + c1 * fg + c2 * gram[FE]
    out[4 + b] = s * u[4 + b] + c0 * fg + c1 * gg + c2 * ge
    out[8 + b] = s * u[8 + b] + c0 * gram[FE] + c1 * ge + c2 * gram[EE]


@part
def size(room, at, s, b, gram, inverse):
    """‖s v + c·D‖² for the c in row `at`, not below zero."""
    c, u = room[at], room[U]
    return max(s * s * room[NUMBERS, N + b] + 2.0 * s * inner(c, u, b) + square(c, b, gram, inverse), 0.0)


@part
def multiply(room, at, numbers, b, factor):
    """Multiply a point (s, c)."""
    room[NUMBERS, numbers + b] *= factor
    for i in range(b, 12, 4):
        room[at, i] *= factor


@part
def into_ball(room, at, numbers, first, radius, gram, inverse):
    """Scale the points of the vectors first and second of x, or of y, into the l2 ball of that radius."""
    last, total = first // 2 * 2 + 2, 0.0
    for b in range(first, last):
        total += size(room, at, room[NUMBERS, numbers + b], b, gram, inverse)
    if total > radius * radius:
        scale = radius / np.sqrt(total)
        for b in range(first, last):
            multiply(room, at, numbers, b, scale)


@part
def norms(room, damping, first, saddle, gram, inverse):
    """‖g_x‖² and ‖g_y‖² at the trial point (or at v, whose factor is 1)."""
    nx = ny = 0.0
    for b in range(first, 4 if saddle else 2):
        total = size(room, GRADIENT, damping[b] * room[NUMBERS, T + b], b, gram, inverse)
        if b < 2:
            nx += total
        else:
            ny += total
    return nx, ny


@part
def look(room, at, G, gram, reward, inverse, fixed, kinds):
    """Form the gradient at the point whose products are in row `at`, of v in row U; returns ‖g_x‖² and ‖g_y‖²."""
    _, _, k, traced, saddle = kinds
    for b in range(4 if at == U else 0):
        room[NUMBERS, T + b] = 1.0
    gradient(G, reward, room[at], room[GRADIENT], 2 - k, 3 if traced else 2, saddle)
    return norms(room, fixed.damping, 2 - k, saddle, gram, inverse)


@part
def first_look(rule, record, room, G, gram, reward, alpha, inverse, fixed, kinds):
    """Look at v, and take note of the row; returns ‖g_x‖², ‖g_y‖² and the steps of x and y that follow from them."""
    nx, ny = look(room, U, G, gram, reward, inverse, fixed, kinds)
    see(record, ny if kinds[4] else nx, fixed.norm * row_size(gram) + max(fixed.damping[0], fixed.damping[1]))
    return nx, ny, steps(rule, record, alpha, nx, ny)


@part
def plan(rule, record, room, G, gram, reward, alpha, inverse, fixed, kinds):
    """One step; leaves the next point and the averaged one in `room`, returns (α, β).

    room[U] and room[NUMBERS, N:] are the products and squares of v. The next point is that before the ridge's prox and
    the projections, which a pass applies; the averaged one is complete. Places that nothing is written to stay zero.
    `kinds` are whether the rule looks at gradients (without that there is no trial point), whether there is a trial
    point, the blocks of x, whether there are traces and a dual.
    """
    measured, trial, k, traced, saddle = kinds
    first, width, last, damping, l2 = 2 - k, 3 if traced else 2, 4 if saddle else 2, fixed.damping, fixed.l2
    numbers = room[NUMBERS]
    if not measured:
        gradient(G, reward, room[U], room[NEXT], first, width, saddle, -alpha)
        for b in range(first, last):
            numbers[S + b] = 1.0 - alpha * damping[b]
        return alpha, alpha
    nx, ny, (alpha, beta) = first_look(rule, record, room, G, gram, reward, alpha, inverse, fixed, kinds)
    if trial:
        for b in range(first, last):
            step = alpha if b < 2 else beta
            shrink = 1.0 / (1.0 + step * l2[b])
            numbers[T + b] = shrink * (1.0 - step * damping[b])
            for i in range(b, 12, 4):
                room[TRIAL, i] = -shrink * step * room[GRADIENT, i]
        if fixed.radius < np.inf:
            into_ball(room, TRIAL, T, first, fixed.radius, gram, inverse)
        if saddle and fixed.ball < np.inf:
            into_ball(room, TRIAL, T, 2, fixed.ball, gram, inverse)
        for b in range(first, last):
            tried(room[U], numbers[T + b], room[TRIAL], b, gram, inverse, room[TRIED])
        gradient(G, reward, room[TRIED], room[GRADIENT], first, width, saddle)
        for b in range(first, last):
            for i in range(b, 12, 4):
                room[GRADIENT, i] += damping[b] * room[TRIAL, i]
        mx, my = norms(room, damping, first, saddle, gram, inverse)
        nx, ny = max(nx, mx), max(ny, my)
        alpha, beta = steps(rule, record, alpha, nx, ny)
    record[GX] += nx
    record[GY] += ny
    for b in range(first, last):
        step = alpha if b < 2 else beta
        numbers[S + b] = 1.0 - step * damping[b] * numbers[T + b]
        for i in range(b, 12, 4):
            room[NEXT, i] = -step * room[GRADIENT, i]
    return alpha, beta
