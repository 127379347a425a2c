"""`--target`: a policy named on the command line, in the forms that `evaluation.target` knows."""

from __future__ import annotations

from typing import Any

TARGET_HELP = (
    "a rule in words, 'B if lactate > 2' (elsewhere as was done) or 'B' (always); 'behavior' for the logged policy "
    "itself; a column with the target's probability of the logged action (target_prob); module:function, called with "
    "the observations (n, p) and returning probabilities (n, n_actions) or actions: the code of that module is run, "
    "found in the current folder first; greedy:MODEL for the best action in a fitted model of action values; or a file "
    "that 'sparsetd improve' wrote"
)


def model_in(text: str | None) -> str | None:
    """The file that a target names, if it names one."""
    named = text is not None and (text.startswith("greedy:") or text.endswith(".sparsetd"))
    return str(text).removeprefix("greedy:") if named else None


def target_of(text: str | None, source: Any = None) -> tuple[Any, dict[str, Any]]:
    """The target for `evaluate`, and how the columns of the log must be read for it."""
    from sparsetd.evaluation.named import is_named, named_policy
    from sparsetd.evaluation.target import reading

    form, columns = reading(text, source)
    return (named_policy(form) if isinstance(form, str) and is_named(form) else form), columns


def function_of(text: str) -> Any:
    """The policy that is named: a function, or a rule that says what is done in every state."""
    from sparsetd.evaluation.named import is_named, named_policy
    from sparsetd.logs.rules import policy

    return named_policy(text) if is_named(text) else policy(text)
