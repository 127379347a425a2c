"""A policy that is named by a text: a function in a module of the user's, or a file."""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import Any

from sparsetd.estimators import model_file
from sparsetd.logs.checks import reason

FUNCTION = re.compile(r"[\w.]*:\w+")


def is_named(text: str) -> bool:
    """Return whether a text looks like module:function or names a file."""
    return text.startswith("greedy:") or text.endswith(".sparsetd") or FUNCTION.fullmatch(text) is not None


def named_policy(text: str) -> Any:
    """Return what a file or module:function holds."""
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
    """The function that module:function names, looked up as Python would from the folder; its failures are named.

    It travels to other processes by its name: only such a name may make them look for code in the folder.
    """

    def __init__(self, text: str, folder: str) -> None:
        self.text, self.folder = text, folder
        module, _, self.__name__ = text.replace(".py:", ":").partition(":")
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            self.function = getattr(importlib.import_module(module), self.__name__, None)
        except Exception as error:  # a module of the user's: anything may go wrong in it
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
