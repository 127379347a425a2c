"""The policy whose value is asked for: the one place that turns any form of it into ratios and probabilities.

    None                   what the log says: its ratios, or target_prob / behavior_prob
    "behavior"             the policy that was logged: every ratio is 1
    "B if lactate > 2"     a rule in words; other decisions stay as they were (see `logs.rules`); "B" alone is always B
    "target_prob"          a column of the log with the target's probability of the logged action
    "module:function", "policy.sparsetd", "greedy:model.sparsetd"
                           code or a file, as on the command line
    a callable             from observations (n, p) to probabilities (n, n_actions), or to one action per row
    a classifier           of scikit-learn, fitted to the actions (codes, or names as text)
    an array               of probabilities (n, n_actions), or of actions (n,) by code or name; floats (n,) between 0
                           and 1 are the probabilities of the logged actions
    a fitted model         of action values (`ValueFunction` fitted for a policy): greedy with respect to it

Whatever the form, π(·|s) = table(s) + rest(s) μ(·|s): a share rest(s) of the decisions stays as it was. Therefore

    π(a|s) / μ(a|s) = table(s, a) / μ(a|s) + rest(s),

which is exactly 1 where rest(s) is 1. Where the log has no behaviour probabilities they are estimated (`behavior`).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetd.control import greedy
from sparsetd.estimators import model_file
from sparsetd.evaluation.behavior import BehaviorPolicy, estimate_behavior
from sparsetd.features.featurize import successors
from sparsetd.logs import Transitions, checks
from sparsetd.logs.checks import reason, show
from sparsetd.logs.door import files_of, manifest_of
from sparsetd.logs.files import notes_of
from sparsetd.logs.policy import chosen, discrete, is_whole, shares
from sparsetd.logs.rules import AS_WAS_DONE, Clause, Family, Rule, is_rule, policy
from sparsetd.logs.schema import folded, listed, nearest
from sparsetd.system import Array

BEHAVIOR = "the logged behaviour itself"
FUNCTION = re.compile(r"[\w.]*:\w+")  # a function in a module that the user wrote
OTHERS_NONE: dict[str, Any] = {"ratio": None, "target_prob": None}  # these columns belong to another target


@dataclass(frozen=True, eq=False)
class Target:
    """A policy that is asked about: its form and its name in words.

    `form` is None for the logged behaviour, a policy (function, classifier or rule) or an array for the rows of a log.
    `of_logged` says that only the probability of the logged action is known: from the array, or from the log itself.
    """

    form: Any
    words: str
    of_logged: bool = False

    @classmethod
    def of(cls, form: Any, log: Transitions) -> Target:
        """The target in any form that the module names, for the columns and actions of this log."""
        if isinstance(form, Target):
            return form
        if form is None and log.ratio is None and log.target_prob is None:
            return cls(None, BEHAVIOR)
        if form is None:
            words = "target_prob" if log.ratio is None else "the target of the logged ratios"
            return cls(None, words, of_logged=True)
        if isinstance(form, str):
            return _in_words(form, log)
        if isinstance(form, Family):
            said = f"{show(form.text)} is a family of {len(form)} policies"
            raise ValueError(
                f"{said}: ask about all of them with `compare` (`sparsetd compare`), or name one threshold."
            )
        if isinstance(form, Rule):
            return cls(form, form.text)
        if hasattr(form, "fit") and not any(name.endswith("_") and name[0] != "_" for name in vars(form)):
            raise ValueError(f"`target` is a {type(form).__name__} that was not fitted: fit it first.")
        if hasattr(form, "q") and hasattr(form, "act"):
            return cls(greedy(form.q), "greedy in the given model")
        if callable(form) or hasattr(form, "predict_proba"):
            return cls(form, getattr(form, "__name__", type(form).__name__))
        if hasattr(form, "predict"):
            raise TypeError(
                f"`target` is a {type(form).__name__}, which predicts numbers but chooses no action: pass a function "
                "of the observations, a classifier of actions, or a `ValueFunction` that was fitted for a policy."
            )
        return _of_rows(np.asarray(_by_name(form, log)), len(log))

    def __getitem__(self, rows: Any) -> Target:
        """This target for some rows of the log: an array is cut to them."""
        return replace(self, form=self.form[rows]) if isinstance(self.form, np.ndarray) else self

    def shares(self, log: Transitions, observation: Array | None = None) -> tuple[Array, Array] | None:
        """The table (n, n_actions) and the rest (n,) of π(·|s); None if only π of the logged actions is known.

        A target that is a function also has those of other observations, such as the successors s'.
        """
        if self.of_logged:
            return None
        n_actions = log.n_actions
        if self.form is None:
            return np.zeros((len(log), n_actions)), np.ones(len(log))
        rows = log.observation if observation is None else observation
        return shares(self.form, rows, "target", log.names, log.action_names, n_actions)

    def target_prob(self, log: Transitions) -> Array:
        """π(a|s) of the logged actions of a log that has `behavior_prob`."""
        if self.of_logged:
            return np.asarray(log.target_prob if self.form is None else self.form)
        found = self.shares(log)
        assert found is not None
        table, rest = found
        given = chosen(table, discrete(log.action, table.shape[1], "target"))
        return given if log.behavior_prob is None else np.asarray(given + rest * log.behavior_prob)

    def acts(self, log: Transitions) -> Array:
        """The counts of every action, as logged and as the policy takes it in the states of the log: (2, n_actions).

        Sums over rows, so parts of a log are added up. Where only the logged actions' probabilities are known, ratios
        weigh the logged actions instead.
        """
        found = self.shares(log)
        action = discrete(log.action, log.n_actions, "target")
        if found is None:
            ratio = log.importance_ratio() if self.form is None else np.asarray(self.form / log.behavior_prob)
            return np.stack([np.bincount(action, weights, log.n_actions) for weights in (np.ones(len(log)), ratio)])
        table, rest = found
        width = table.shape[1]
        return np.stack([np.bincount(action, minlength=width), table.sum(axis=0) + np.bincount(action, rest, width)])


@dataclass(frozen=True, eq=False)
class Question:
    """A log with the ratios of the target policy, the target, and the behaviour if it had to be estimated."""

    log: Transitions
    asked: Target
    behavior: BehaviorPolicy | None = None


def pose(log: Transitions, target: Any = None, *, classifier: Any = None) -> Question:
    """Bring a log and a target policy together."""
    asked = Target.of(target, log)
    if asked.form is None and not asked.of_logged:
        return Question(replace(log, ratio=np.ones(len(log))), asked)
    if asked.form is None and log.ratio is not None and classifier is None:
        return Question(log, asked)
    if asked.form is None and log.target_prob is None:
        raise ValueError(
            "`classifier` estimates the behaviour policy, but the log has `ratio` without `target_prob`: leave the "
            "classifier out, or log the target's probabilities."
        )
    found = None
    if log.behavior_prob is None or classifier is not None:
        asked.shares(log)  # a policy that cannot be asked is refused before anything is estimated
        found = estimate_behavior(log, classifier)
    known = log if found is None else found.apply(log)
    return Question(replace(known, target_prob=asked.target_prob(known), ratio=None), asked, found)


def probabilities(asked: Target, log: Transitions, behavior: BehaviorPolicy | None) -> tuple[Array, Array]:
    """π(·|s) and π(·|s') of every row, of a target that is a function; the rest follows the behaviour."""
    both = []
    for rows in (log.observation, successors(log)):
        found = asked.shares(log, rows)
        assert found is not None
        table, rest = found
        if rest.any():
            assert behavior is not None
            table = table + rest[:, None] * behavior.model.table(log, rows, table.shape[1])
            table = table / table.sum(axis=1, keepdims=True)
        both.append(table)
    return both[0], both[1]


def reading(form: Any, source: Any) -> tuple[Any, dict[str, Any]]:
    """The target of a source that is not read yet, and the roles in which `read` must take its columns.

    A text that is no rule and names no action, file or function names a column.
    """
    if isinstance(source, (Transitions, Sequence)) and not isinstance(source, str):  # it is read already
        return form, {}
    if form is None or (isinstance(form, str) and folded(form) in AS_WAS_DONE):
        return form, {}
    files = files_of(source)
    actions = notes_of(files[0]).get("action_names") if files else None
    if not isinstance(form, str) or is_named(form) or is_rule(form) or _is_action(form, actions):
        return form, dict(OTHERS_NONE)
    if form == "target_prob":  # the role, whatever the shards of a log call its column
        form = manifest_of(source)["columns"].get("target_prob") or form
    return Target(None, form, of_logged=True), {"target_prob": form, "ratio": None}


def _is_action(text: str, actions: tuple[str, ...] | None) -> bool:
    if actions is None:
        return text.strip().isdecimal()
    return folded(text) in map(folded, actions)


def _in_words(text: str, log: Transitions) -> Target:
    if folded(text) in AS_WAS_DONE:
        return Target(None, BEHAVIOR)
    if _is_action(text, log.action_names):
        return Target(Rule(text, (Clause(((text.strip(), 1.0),)),)), f"always {text}")
    if is_rule(text):
        return Target.of(policy(text), log)
    if text == "target_prob" and log.target_prob is not None:
        return taken(log.target_prob, text)
    if is_named(text):
        return Target.of(named_policy(text), log)
    known = [*(log.action_names or ()), "behavior", "target_prob"]
    raise ValueError(
        f"`target` is {show(text)}, which names no action{nearest(text, known)} A rule looks like 'B if lactate > 2'; "
        "a column of probabilities must be read as `target_prob`; code and files are named 'module:function' and "
        "'policy.sparsetd'."
    )


def _by_name(form: Any, log: Transitions) -> Any:
    """Put the columns of a frame of probabilities in the order of the actions; return anything else unchanged."""
    columns = getattr(form, "columns", None)
    if columns is None:
        return form
    names, actions = list(map(str, columns)), log.action_names
    codes = list(map(str, range(log.n_actions)))
    if actions is None and sorted(names) != sorted(codes):
        return form  # its columns are not named after the actions
    known = codes if actions is None else actions
    if sorted(names) != sorted(known):
        raise ValueError(f"`target` has the columns {listed(names)}; the actions are {listed(known)}: name them alike.")
    return np.column_stack([np.asarray(form[columns[names.index(action)]]) for action in known])


def _of_rows(array: Array, n: int) -> Target:
    """An array for the rows of one log."""
    if array.ndim == 2 or array.dtype.kind in "iubUOT":
        return Target(array, "the given probabilities" if array.ndim == 2 else "the given actions")
    if array.shape == (n,) and is_whole(array):
        if array.max(initial=0.0) > 1:
            return Target(array, "the given actions")
        raise ValueError(
            "`target` is an array of 0.0 and 1.0, which may be actions or probabilities: pass integers for actions, or "
            "probabilities of all actions (n, n_actions)."
        )
    return taken(checks.probabilities("target", array, n, density=False, positive=False))


def taken(probability: Array, words: str = "the given probabilities") -> Target:
    """The target whose probability of the logged action is known in every row."""
    return Target(np.asarray(probability, dtype=np.float64), words, of_logged=True)


def is_named(text: str) -> bool:
    """Return whether a text looks like module:function or names a file."""
    return text.startswith("greedy:") or text.endswith(".sparsetd") or FUNCTION.fullmatch(text) is not None


def named_policy(text: str) -> Any:
    """The policy that a file holds, or that module:function names."""
    if FUNCTION.fullmatch(text) and not text.startswith("greedy:"):
        return Imported(text, os.getcwd())
    path = text.removeprefix("greedy:")
    model = model_file.load(path)
    if text.startswith("greedy:") and getattr(model, "n_actions_", None) is None:
        raise ValueError(f"{path} holds no action values: fit it with --target.")
    if not text.startswith("greedy:") and not callable(model):
        raise ValueError(f"{path} holds a {type(model).__name__}, not a policy: write greedy:{path} for its actions.")
    return model


class Imported:
    """The function that module:function names, imported as Python would from the folder; errors name the policy.

    Other processes get it by its name: only a name of this form may make them look for code in the folder.
    """

    def __init__(self, text: str, folder: str) -> None:
        self.text, self.folder = text, folder
        module, _, self.__name__ = text.replace(".py:", ":").partition(":")
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            self.function = getattr(importlib.import_module(module), self.__name__, None)
        except Exception as error:  # the user wrote the module: anything may go wrong in it
            raise ValueError(f"the policy '{text}' cannot be imported ({_what(error)})") from error
        if self.function is None:
            raise ValueError(f"the policy '{text}' names no function '{self.__name__}' in module '{module}'")
        if not callable(self.function):
            raise ValueError(f"the policy '{text}' is not a function")

    def __reduce__(self) -> tuple[Any, ...]:
        return Imported, (self.text, self.folder)

    def __call__(self, observation: Any) -> Any:
        assert self.function is not None
        try:
            return self.function(observation)
        except Exception as error:
            raise ValueError(
                f"the policy '{self.text}' failed ({_what(error)}): it is called once with all observations, an array "
                f"of shape {observation.shape}; run again with --debug to see where"
            ) from error


def _what(error: Exception) -> str:
    return f"{type(error).__name__}: {reason(error)}"
