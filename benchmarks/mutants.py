"""Would the tests notice? `python -m benchmarks.mutants [WORD …]` changes one place of the library at a time and tells.

A mutant is a small wrong edit: a sign, a bound, a forgotten factor. It is applied to a copy of the repository, the
tests that should notice it run there, and the table says whether they did. WORDs select mutants by file or tests. A
mutant whose place is no longer in the code is an error: correct the list. `--tests` tries other tests on the same
mutants, for example those of an earlier version. The command is for people who change the tests; it takes minutes and
is no part of the checks. With NUMBA_DISABLE_JIT=1 nothing is compiled, and it takes less.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "docs", "benchmarks", "reproduction", "examples", "pyproject.toml", "README.md")
LAWS = "tests/test_laws.py"


@dataclass(frozen=True)
class Mutant:
    """One edit: `old`, which stands in `file` just once, becomes `new`; `tests` should fail."""

    file: str
    old: str
    new: str
    tests: str = LAWS

    def applied(self, tree: Path) -> str:
        """Edit the copy; return the text before."""
        path = tree / "src" / "sparsetd" / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise LookupError(f"{self.file} has {text.count(self.old)} times {self.old!r}: correct the list of mutants")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return text


BASE, CHECKS, KEPT = "estimators/base.py", "estimators/validation.py", "solvers/rows.py"
BAD_ROWS = "tests/logs/test_bad_input.py"
MEAN, GAP = "solvers/mean.py", "solvers/saddle/problem.py"
PATHS, PROGRAMS = "solvers/path_following.py", "solvers/linear_program.py"
PENALTY, METRIC, STABLE = "tests/penalties", "tests/test_metrics.py", "tests/selection/test_stability_and_intervals.py"
RULE, KEPT_WORK, STORED = "tests/logs/test_rules.py", "tests/storage/test_cache.py", "tests/storage"
PROGRAM, LITERAL = "tests/solvers/test_linear_programs.py", "tests/solvers/test_against_reference.py -k literal"
LINEAR, WEIGHED = (
    "tests/evaluation/test_linear.py tests/evaluation/test_influence.py",
    "tests/evaluation/test_importance.py",
)
META, LAZY = "tests/test_metamorphic.py", "tests/solvers/test_sparse_kernels.py"
MUTANTS = (
    # What all estimators share.
    Mutant(BASE, "np.where(np.append(begins[1:], True), 0.0, gammas)", "gammas"),
    Mutant(BASE, "np.where(np.append(begins[1:], True)", "np.where(np.append(begins[1:], False)"),
    Mutant(BASE, "np.asarray(X @ self.coef_ + self.intercept_)", "np.asarray(X @ self.coef_last_ + self.intercept_)"),
    Mutant(BASE, "self.support_ |= self.coef_ < -bound", "self.support_ |= self.coef_ > bound"),
    Mutant(BASE, "and self.support_tol * max(", "and 0.5 * self.support_tol * max("),
    Mutant(BASE, "return 1.0 - error / nothing", "return 1.0 + error / nothing"),
    Mutant(BASE, 'first, small, triple = not hasattr(self, "_state")', "first, small, triple = True"),
    Mutant(BASE, "float(solution.coef[d]) if self.fit_intercept", "float(solution.coef_last[d]) if self.fit_intercept"),
    Mutant(BASE, 'column("ratio", ratio, n)', 'column("ratio", None, n)'),
    Mutant(BASE, 'column("interest", interest, n)', 'column("interest", interest, n, default=2.0)'),
    Mutant(
        BASE,
        'column("discount", discount, n, default=self.gamma, high=1.0)',
        'column("discount", discount, n, default=1.0, high=1.0)',
    ),
    Mutant(BASE, "default=self.gamma, high=1.0)", "default=self.gamma, high=2.0)"),
    Mutant(BASE, "phi = np.ascontiguousarray(phi)  #", "phi = phi  #"),
    Mutant(
        BASE,
        "phi_next = validation.with_constant(phi_next) if self.fit_intercept",
        "phi_next = 2.0 * validation.with_constant(phi_next) if self.fit_intercept",
    ),
    Mutant(
        BASE,
        "self.coef_last_ = solution.coef_last[:d]",
        "self.coef_last_ = solution.coef[:d]",
    ),
    Mutant(
        BASE,
        "self._last, self._watch, self._collects_sparse = init, Watch(), batch.is_sparse",
        "self._last, self._watch, self._collects_sparse = init, Watch(), False",
        "tests/estimators/test_plausible.py",
    ),
    Mutant("logs/checks.py", "else places // width", "else places", "tests/estimators/test_validation.py"),
    Mutant("logs/checks.py", "(array != 0) & (array != 1)", "array < 0", BAD_ROWS),
    Mutant(
        "logs/checks.py", "    length(name, array, n)\n    finite(name, array)", "    finite(name, array)", BAD_ROWS
    ),
    Mutant(CHECKS, "(array < 0) | (array > high)", "array < 0"),
    Mutant(CHECKS, "(array < 0) | (array > high)", "array > high"),
    Mutant(
        CHECKS, 'lambda v: 0.0 <= v <= 1.0, "a number in [0, 1]"', 'lambda v: 0.0 <= v <= 2.0, "a number in [0, 1]"'
    ),
    Mutant(CHECKS, "lambda v: 0.0 <= v < np.inf", "lambda v: -2.0 <= v < np.inf"),
    Mutant(CHECKS, "self.phi[first + 1 : stop + 1]", "self.phi[first:stop]"),
    Mutant(CHECKS, "beside(phi, np.ones((phi.shape[0], 1)", "beside(phi, np.zeros((phi.shape[0], 1)"),
    Mutant(CHECKS, "return dense(rows, phi.dtype)", "return abs(dense(rows, phi.dtype))"),
    # What each method keeps by itself.
    Mutant(KEPT, "whole = len(batch) // BLOCK * BLOCK", "whole = len(batch)", "tests/solvers/test_rows.py"),
    Mutant(KEPT, "self.rows = [_joined(self.rows)]", "self.rows = [_joined(self.rows[::-1])]"),
    Mutant(MEAN, "scaled(self.batch.discount[some][kept], self", "(self", "tests/solvers/test_rows.py"),
    Mutant(MEAN, "scaled(fresh[kept], phi[kept]))", "phi[kept])", "tests/solvers/test_rows.py"),
    Mutant(
        MEAN,
        "scaled(weight, rows[left]).T @ mixed(right, rows)",
        "mixed(right, rows).T @ scaled(weight, rows[left])",
        "tests/solvers/test_rows.py",
    ),
    Mutant(
        MEAN, "np.outer(self.weight * self.batch.reward,", "np.outer(self.batch.reward,", "tests/solvers/test_rows.py"
    ),
    Mutant(
        "solvers/path_following.py",
        "np.max(np.abs(c[penalised]) / factor[penalised]",
        "np.max(c[penalised] / factor[penalised]",
    ),
    Mutant(PATHS, "c = np.abs(b - active.columns @ theta)", "c = b - active.columns @ theta"),
    Mutant(
        PATHS,
        "walk.indices.append(np.array(active.indices, dtype=np.intp))",
        "walk.indices.append(np.sort(np.array(active.indices, dtype=np.intp)))",
        "tests/solvers/test_omp.py",
    ),
    Mutant(
        "solvers/linear_program.py",
        "used = np.flatnonzero(weight)",
        "used = np.arange(len(weight))",
        PROGRAM,
    ),
    Mutant("solvers/saddle/solver.py", "units.back(values).astype(state.dtype)", "values.astype(state.dtype)"),
    Mutant("system.py", "into[0] = carry.discount", "into[0] = 1.0"),
    Mutant("system.py", "into[batch.start] = 0.0", "into[batch.start] = 0.5", LITERAL),
    Mutant("system.py", "fresh = batch.ratio * batch.interest", "fresh = batch.interest * 1.0"),
    Mutant("system.py", "carry.follow_on = float(follow_on)", "carry.follow_on = 0.0"),
    Mutant(MEAN, "phi_next_t[some] @ (self.batch.discount[:, None] * u[1])", "phi_next_t[some] @ u[1]"),
    # What is compiled: every kernel is compiled anew for these, so they take minutes.
    Mutant(
        "solvers/compiled/law.py", "np.minimum(np.maximum(v, -drop), drop)", "np.minimum(np.maximum(v, -drop), v)", LAZY
    ),
    Mutant("solvers/compiled/dense.py", "e_next[j] = c * phi[j] + d * e[j]", "e_next[j] = c * phi[j] + e[j]", LITERAL),
    Mutant("solvers/compiled/dense.py", "fixed.ball / np.sqrt(size_y)", "2.0 * fixed.ball / np.sqrt(size_y)", LITERAL),
    Mutant("solvers/compiled/dense.py", "(2.0 - power) / power", "(2.0 - power) / 2.0", LITERAL),
    Mutant("solvers/compiled/dense.py", "outer[j] - pull * counted", "outer[j] + pull * counted", LITERAL),
    Mutant("solvers/compiled/dense.py", "(total - 1.0) / active", "total / active", LITERAL),
    Mutant(
        "solvers/compiled/dense.py",
        "point += pull * counted",
        "point += 0.0 * counted",
        "tests/solvers/test_adaptive.py",
    ),
    Mutant(
        "solvers/compiled/dense.py",
        "scale * _linked(counted, exponent, kinds)",
        "_linked(counted, exponent, kinds)",
        LITERAL,
    ),
    Mutant("solvers/compiled/dense.py", "record[GX] += nx", "record[GX] += 2.0 * nx", "tests/solvers/test_adaptive.py"),
    # The axes: which system, which penalty.
    Mutant(
        "operators.py",
        '"tw": (1.0 - lam) * np.outer(PSI, E)',
        '"tw": np.outer(PSI, E)',
        LITERAL,
    ),
    Mutant(
        "operators.py",
        '"tw": np.outer(change, E - PHI)',
        '"tw": np.outer(change, PHI - E)',
        "tests/operators tests/reference",
    ),
    Mutant(
        "penalties.py",
        "np.maximum(v - threshold, 0.0) - np.maximum(-v - threshold, 0.0)",
        "np.maximum(v - threshold, 0.0) + np.maximum(-v - threshold, 0.0)",
        PENALTY,
    ),
    Mutant("penalties.py", "1.0 + step * np.outer(l2, weight)", "1.0 + np.outer(l2, weight)", PENALTY),
    Mutant(
        "penalties.py",
        "return self.l1_ratio * rho, (1.0 - self.l1_ratio) * rho",
        "return self.l1_ratio * rho, self.l1_ratio * rho",
        PENALTY,
    ),
    Mutant("penalties.py", "return np.asarray(np.sqrt(size) * mean)", "return np.asarray(size * mean)", PENALTY),
    # How good an answer is.
    Mutant(
        "metrics/errors.py",
        "return float(fitted @ fitted) / len(batch)",
        "return float(fitted @ fitted) / (len(batch) - 1)",
        METRIC,
    ),
    Mutant(GAP, "magnitude(z)[hard] / self.terms.l1[hard]", "magnitude(z)[hard] * 0.5", METRIC),
    Mutant(GAP, "{1.0: np.inf, 2.0: 2, np.inf: 1}[self.m]", "self.m", METRIC),
    # Selection.
    Mutant(
        "selection/intervals.py",
        "reach = stdtrit(freedom, 0.5 + level / 2)",
        "reach = stdtrit(freedom, level)",
        STABLE,
    ),
    Mutant(
        "solvers/saddle/solver.py",
        "if np.count_nonzero(support & ~self.free) > limit:",
        "if np.count_nonzero(support) > limit:",
        "tests/solvers/test_saddle.py",
    ),
    Mutant("selection/stability.py", "q**2 / ((2 * threshold - 1) * d)", "q / ((2 * threshold - 1) * d)", STABLE),
    Mutant("selection/stability.py", "for side in (half, ~half)]", "for side in (half, half)]", STABLE),
    # Logs and what is kept.
    Mutant("logs/rules.py", "taken = np.minimum(probability, left) * holds", "taken = probability * holds", RULE),
    Mutant("logs/rules.py", "return given, left + kept", "return given, left", RULE),
    Mutant("logs/rules.py", " & (number == 1 or ~self.missing(name))", "", RULE),
    Mutant(
        "storage/cache.py", 'digest.update(f"{array.dtype.str}{array.shape}".encode())', 'digest.update(b"")', KEPT_WORK
    ),
    Mutant("storage/cache.py", 'if meta.get("key") != key:', "if False:", KEPT_WORK),
    Mutant("storage/container.py", 'if not offset == header["size"] == len(body):', "if offset > len(body):", STORED),
    Mutant("storage/container.py", "if len(found) < len(pairs):", "if len(found) > len(pairs):", STORED),
    Mutant(
        "storage/container.py",
        '"F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"',
        '"C"',
        STORED,
    ),
    # Answers to questions about a log.
    Mutant(
        "evaluation/linear.py",
        "return (self.n_clusters - 1) * (self.value",
        "return self.n_clusters * (self.value",
        LINEAR,
    ),
    Mutant(
        "evaluation/linear.py",
        "self.start @ self.inverse / self.n_episodes",
        "self.inverse @ self.start / self.n_episodes",
        LINEAR,
    ),
    Mutant("evaluation/support.py", "np.where(alive | episodes.complete,", "np.where(alive,", WEIGHED),
    Mutant(
        "evaluation/support.py",
        "rest = sums.total[t] - episodes.by_cluster(w)",
        "rest = sums.total[t] + 0 * episodes.by_cluster(w)",
        WEIGHED,
    ),
    Mutant(
        "logs/transitions.py", "self.target_prob / self.behavior_prob", "self.behavior_prob / self.target_prob", META
    ),
    Mutant(
        "logs/transitions.py",
        "np.add.reduceat(gamma**age * self.reward, bounds[:-1])",
        "np.add.reduceat(self.reward, bounds[:-1])",
        "tests/logs/test_transitions.py",
    ),
    Mutant(
        "logs/partition.py",
        'return np.searchsorted(cuts, hashes, side="right")',
        'return np.searchsorted(cuts, hashes, side="left")',
        "tests/logs/test_partition.py",
    ),
    Mutant(
        "control/learners.py",
        "np.asarray(np.sum(weights * phi, axis=1))",
        "np.asarray(weights @ phi)",
        "tests/reproduction/test_online_learners.py",
    ),
    Mutant(
        "features/featurize.py",
        "np.where(ended, 0.0,",
        "np.where(ended | transitions.truncated, 0.0,",
        "tests/features/test_featurize.py",
    ),
)


def main() -> int:
    """Print a line for every mutant; return 1 if one survived."""
    options = _options()
    chosen = [m for m in MUTANTS if not options.words or any(w in m.file or w in m.tests for w in options.words)]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in COPIED:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tree / name)
        for tests in sorted({options.tests or m.tests for m in chosen}):
            if not _pass(tree, tests):
                print(f"{tests} fail without any mutant: repair them first")
                return 1
        survivors = sum(not _is_killed(tree, mutant, options.tests or mutant.tests) for mutant in chosen)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants were noticed")
    return int(survivors > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only mutants whose file or tests contain one of these")
    parser.add_argument("--tests", help="run these tests instead of the mutants' own")
    return parser.parse_args()


def _is_killed(tree: Path, mutant: Mutant, tests: str) -> bool:
    path = tree / "src" / "sparsetd" / mutant.file
    times = path.stat().st_atime, path.stat().st_mtime
    before = mutant.applied(tree)
    killed = not _pass(tree, tests)
    path.write_text(before, encoding="utf-8")
    os.utime(path, times)  # compiled code of this file is valid again
    old, new = (text.partition("\n")[0] for text in (mutant.old, mutant.new))
    print(f"{'killed  ' if killed else 'SURVIVED'}  {mutant.file}: {old}  →  {new}", flush=True)
    return killed


def _pass(tree: Path, tests: str) -> bool:
    """Whether the tests pass in the copy."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    return subprocess.run(words, cwd=tree, env=environment, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
