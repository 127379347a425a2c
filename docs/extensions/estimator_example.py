"""Every estimator's page ends in the same small example, run while the page is made: its output is always true."""

from __future__ import annotations

import contextlib
import inspect
import io
import warnings
from typing import Any

PARAMETERS = {  # what a method cannot do without on this log
    "RALP": "budget=50.0",
    "SparseTD": "rho_theta=0.5",
    "LARSTD": "rho_theta=0.25",
    "LCPTD": "rho_theta=0.25",
    "LSTDL1": "rho_theta=0.25",
    "DantzigLSTD": "rho_theta=0.25",
    "OMPTD": "rho_theta=0.25",
    "ROTD": "rho_theta=0.2, rho_w=2.0",
    "ROGQ": "rho_theta=0.2, rho_w=2.0",
    "ROTDLasso": "rho_theta=0.2",
    "RDATD": "rho_theta=0.2",
    "L1TD": "rho_theta=0.2",
    "MirrorDescentTD": "step_size=0.01",
}
EXAMPLE = """\
import numpy as np
from sparsetd import {name}
from sparsetd.problems import random_mdp

rng = np.random.default_rng(0)
mdp = random_mdp(rng, n_states=200, n_features=100, n_relevant=5, reward_noise=0.3)
log = mdp.trajectory(2000, rng)  # logged by another policy: `ratio` corrects for that
model = {name}({parameters}).fit(log.phi, log.reward, log.phi_next, ratio=log.ratio)
print(model.status_, model.support_.sum(), "of", log.n_features, "features")
"""


def source(name: str) -> str:
    """The example of one estimator as a script."""
    parameters = ", ".join(filter(None, ["gamma=mdp.gamma", PARAMETERS.get(name, "")]))
    return EXAMPLE.format(name=name, parameters=parameters)


def output(script: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(script, "<example>", "exec"), {"__name__": "__main__"})  # noqa: S102 (our own text, above)
    return printed.getvalue()


def section(name: str) -> list[str]:
    """numpydoc's Examples section with the script and what it printed."""
    script = source(name)
    prompted = [f">>> {line}" if line else "" for line in script.splitlines()]
    return ["", "Examples", "--------", *prompted, *output(script).splitlines()]


def estimators() -> dict[str, type]:
    """The estimators that fit rows of features, by name."""
    from sparsetd import estimators as package
    from sparsetd.estimators import BaseTD
    from sparsetd.selection import SparseTDSelect

    found = {name: getattr(package, name) for name in package.__all__} | {"SparseTDSelect": SparseTDSelect}
    return {n: v for n, v in found.items() if inspect.isclass(v) and issubclass(v, BaseTD) and n != "LinearTD"}


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    if what == "class" and obj in estimators().values() and "Examples" not in lines:
        lines += section(obj.__name__)


def setup(app: Any) -> dict[str, bool]:
    # Before inherited_parameters (300), which rearranges the sections.
    app.connect("autodoc-process-docstring", process, priority=200)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
