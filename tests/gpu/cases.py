"""Methods that the kernel must agree on with the library's solvers: every operator, penalty, ball, rule and average."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetd.problems import random_mdp

AVERAGES = ("none", "all", "suffix")
N_FEATURES = 7


def rows() -> Any:
    """Off-policy rows with starts in between, far from a fixed point."""
    mdp = random_mdp(np.random.default_rng(1), n_states=30, n_features=N_FEATURES, n_relevant=3)
    return mdp.trajectory(150, np.random.default_rng(2), horizon=11)


def estimators() -> list[Any]:
    from sparsetd import ETD, GQ, GTD2, GTD2MP, ROGQ, ROTD, TD, TDC, TDRC, LinearTD
    from sparsetd.estimators import GTD, HTD, L1TD, TDCMP
    from sparsetd import penalties, solvers  # isort: skip

    decay = solvers.PowerDecay(0.1, 20.0, 0.6)
    start = np.random.default_rng(5).normal(size=N_FEATURES)
    steps = (0.02, decay, "auto")
    single = [
        kind(step_size=step, average=average, **({} if kind is HTD else {"lam": lam}))
        for kind in (TD, ETD, TDC, TDRC, GTD, GTD2, HTD, GQ)
        for lam in ((0.0,) if kind is HTD else (0.0, 0.7))
        for step, average in zip(steps, AVERAGES, strict=True)
    ]
    saddle = [
        ROTD(
            step_size=step,
            average=average,
            rho_theta=rho,
            rho_w=rho / 2,
            lam=lam,
            fit_norm=norm,
            extragradient=trial,
            eta=2.0,
        )
        for lam in (0.0, 0.7)
        for norm in (1, 2)
        for step, average in zip(steps, AVERAGES, strict=True)
        for rho in (0.0, 0.02)
        for trial in ((False,) if step == "auto" else (False, True))
    ]
    trials = [kind(step_size=step, average="suffix") for kind in (GTD2MP, TDCMP) for step in (0.05, "auto")]
    others = [
        TDC(step_size=0.1, radius=0.4), ROTD(step_size=0.1, radius=0.4), L1TD(step_size=0.05, rho_theta=0.05),
        TDC(step_size=0.05, n_passes=3, lam=0.5, average="suffix"), ROGQ(lam=0.5), ROTD(n_passes=2, rho_theta=0.01),
        TDC(coef_init=start), ROTD(coef_init=start), ROTD(coef_init=start, rho_theta=0.01),
        TDC(coef_init=start, step_size=0.01), TD(step_size=3.0), TD(step_size=3.0, average="all"),
        LinearTD(operator="tdc", penalty=penalties.ElasticNet(0.05, 0.02), solver=solvers.Stochastic(step_size=0.05)),
        LinearTD(operator="tdc", penalty=penalties.Ridge(0.05, 0.02), solver=solvers.PrimalDual(step_size=0.05)),
    ]  # fmt: skip
    return [*single, *saddle, *trials, *others]
