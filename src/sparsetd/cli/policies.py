"""`--target` and `--policy`: a policy named on the command line."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from sparsetd import model_file
from sparsetd.cli.command import WrongInput
from sparsetd.logs.checks import reason

TARGET_HELP = (
    "a column of the log with the target's probability of the logged action (target_prob); 'behavior' for the logged "
    "policy itself; module:function, called with the observations (n, p) and returning probabilities (n, n_actions): "
    "the code of that module is run, found in the current folder first; "
    "greedy:MODEL for the best action in a fitted model of action values; or a file that 'sparsetd improve' wrote"
)


def model_in(text: str | None) -> str | None:
    """The file that a target names, if it names one."""
    named = text is not None and (text.startswith("greedy:") or text.endswith(".sparsetd"))
    return str(text).removeprefix("greedy:") if named else None


def target_of(text: str | None) -> tuple[Any, dict[str, Any]]:
    """The target for `evaluate`, and how the columns of the log must be read for it."""
    if text is None:
        return None, {}
    if text in ("behavior", "behaviour"):
        return "behavior", {}
    if text.startswith("greedy:"):
        path = text.removeprefix("greedy:")
        model = model_file.load(path)
        if getattr(model, "n_actions_", None) is None:
            raise WrongInput(f"{path} holds no action values: fit it with --policy")
        return model, {"ratio": None, "target_prob": None}
    if text.endswith(".sparsetd"):
        return policy_of(text), {"ratio": None, "target_prob": None}
    if ":" in text:
        return function_of(text), {"ratio": None, "target_prob": None}
    return None, {"target_prob": text, "ratio": None}


def policy_of(path: str) -> Any:
    """The policy in a file of `sparsetd improve`."""
    policy = model_file.load(path)
    if not callable(policy):
        raise WrongInput(f"{path} holds a {type(policy).__name__}, not a policy: write greedy:{path} for its actions")
    return policy


def function_of(text: str) -> Any:
    """The function that module:function names, looked up as Python would from the current folder."""
    module, _, name = text.replace(".py:", ":").partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # a module of the user's: anything may go wrong in it
        raise WrongInput(f"the policy '{text}' cannot be imported ({_what(error)})") from error
    if found is None:
        raise WrongInput(f"the policy '{text}' names no function '{name}' in module '{module}'")
    if not callable(found):
        raise WrongInput(f"the policy '{text}' is not a function")
    return _answering(found, text)


def _answering(policy: Any, text: str) -> Any:
    """The policy, with whatever it raises named as its own failure."""

    def answer(observation: Any) -> Any:
        try:
            return policy(observation)
        except Exception as error:
            raise WrongInput(
                f"the policy '{text}' failed ({_what(error)}): it is called once with all observations, an array of "
                f"shape {observation.shape}; run again with --debug to see where"
            ) from error

    answer.__name__ = text.rpartition(":")[2]
    return answer


def _what(error: Exception) -> str:
    return f"{type(error).__name__}: {reason(error)}"
