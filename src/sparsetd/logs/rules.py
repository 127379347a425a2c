"""Policies in words: "B if lactate > 2". A small grammar parses the text, which is never executed.

    rule       clause ; clause ; … ; else CHOICE
    clause     CHOICE if CONDITION
    CHOICE     ACTION, or ACTION with 0.8, or ACTION with 0.5, ACTION with 30 %, or "as was done"
    CONDITION  comparisons of columns, numbers, sums and products, joined by and, or, not; also NAME in (1, 2),
               NAME = category, NAME is missing, and the name of a column of yes and no by itself

Clauses are asked in their order, and each takes its share of what the clauses before it left. Where something is left
at the end, the policy does as was done: a rule says π(·|s) = table(s) + rest(s) μ(·|s), where μ is the logged
behaviour. Names with blanks or signs stand in double quotes or backquotes, except those of actions. Case and blanks do
not matter unless two names differ in nothing else. Numbers in braces, `{1..4}`, `{1..4 by 0.5}` or `{1, 2, 4}`, turn
one rule into a family of policies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from sparsetd.logs.checks import Array, show
from sparsetd.logs.schema import folded, label, nearest
from sparsetd.logs.words import FLAGS

LONGEST = 10_000  # characters of a rule
MOST_SIGNS = 200  # operators, brackets and signs of a rule, which bounds its depth
MOST_POLICIES = 200  # thresholds of one family
DUST = 1e-12  # a share smaller than this is rounding
AS_WAS_DONE = ("as was done", "as logged", "as before", "behavior", "behaviour")
ELSE = ("else", "otherwise")
CLOSING = ("if", "when", "with", ";", *ELSE)
NUMBER = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
TOKEN = re.compile(
    rf"\s*(?:`(?P<name>[^`]+)`|'(?P<text>[^']*)'|\"(?P<quoted>[^\"]*)\"|(?P<range>\{{[^{{}}]*\}})"
    rf"|(?P<number>{NUMBER})(?![\w.])|(?P<word>\w+)|(?P<sign><=|>=|<>|!=|==|\S))"
)
SPELLINGS = {"<>": "!=", "==": "=", "≤": "<=", "≥": ">=", "≠": "!=", "−": "-", "×": "*", "·": "*", "÷": "/"}
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide}
EQUAL = {"=": np.equal, "!=": np.not_equal}
COMPARISONS = {"<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, **EQUAL}
LOGIC = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}
CONDITIONS = {*COMPARISONS, *LOGIC, "in", "missing", "flag"}
POWER = {"or": 1, "and": 2} | dict.fromkeys((*COMPARISONS, "in", "not", "is"), 4) | {"+": 5, "-": 5, "*": 6, "/": 6}
NOT, SIGN = 3, 7  # how tightly "not" and a minus bind what follows them
Tree = tuple[Any, ...]  # an operator and its operands, as plain data that cannot be executed
T = TypeVar("T")


def policy(text: str) -> Rule | Family:
    """Make a policy, or a family of policies, from a rule in words.

    ``"B if lactate > 2"`` is a policy, and ``"B if lactate > {1..4}"`` a family, with one policy for each threshold.

    Where no clause holds, the policy does what was done, unless the rule ends with ``else ACTION``.

    Examples
    --------
    >>> from sparsetd import policy, prepare
    >>> raw = {"lactate": [1.5, 3.0], "treatment": ["B", "none"], "reward": [0, 1]}
    >>> log = prepare(raw, bandit=True).transitions
    >>> log.probabilities(policy("B if lactate > 2; else none"))
    array([[0., 1.],
           [1., 0.]])
    >>> policy("B if lactate > {1..4}").thresholds
    (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError('A rule is a sentence such as "B if lactate > 2": write one.')
    if len(text) > LONGEST:
        raise ValueError(f"The rule has {len(text):,} characters, more than {LONGEST:,}: write a function instead.")
    ranges = [token for token in _tokens(text) if token.kind == "range"]
    if not ranges:
        return Rule(text, _Parser(text).rule())
    if len(ranges) > 1:
        raise ValueError(f"The rule {show(text)} has two ranges in braces: keep one of them.")
    begin, end = ranges[0].begin, ranges[0].end
    if re.search(r"[\w.]$", text[:begin]) or re.match(r"[\w.]", text[end:]):
        raise ValueError(f"The range {show(text[begin:end])} touches another word or number: put a blank between them.")
    values = _range(text[begin:end])
    texts = [f"{text[:begin]}{value:.12g}{text[end:]}" for value in values]
    return Family(text, values, tuple(Rule(one, _Parser(one).rule()) for one in texts))


def is_rule(text: str) -> bool:
    """Return whether a text is a rule and not just a name: only a rule has these words and signs."""
    return any(token.word in (*CLOSING, "always") or token.kind == "range" for token in _tokens(text))


@dataclass(frozen=True)
class Clause:
    """Actions (None for "as was done") with their probabilities, for the rows where the condition holds."""

    choices: tuple[tuple[str | None, float], ...]
    condition: Tree | None = None


@dataclass(frozen=True)
class Rule:
    """A policy in words. `shares` says what it does in given states."""

    text: str
    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return self.text

    def shares(
        self, rows: Any, names: Sequence[str] | None, action_names: Sequence[str] | None, n_actions: int = 0
    ) -> tuple[Array, Array]:
        """The table (n, n_actions) and the rest (n,) of π(·|s) = table(s) + rest(s) μ(·|s)."""
        columns = _Columns(rows, names)
        named = {action for clause in self.clauses for action, _ in clause.choices if action is not None}
        codes: dict[str | None, int] = {action: _code(action, action_names, n_actions) for action in sorted(named)}
        width = max([n_actions, len(action_names or ()), *(code + 1 for code in codes.values())])
        given, left, kept = np.zeros((rows.shape[0], width)), np.ones(rows.shape[0]), np.zeros(rows.shape[0])
        for clause in self.clauses:
            holds = True if clause.condition is None else _value(clause.condition, columns)
            for action, probability in clause.choices:
                taken = np.minimum(probability, left) * holds  # earlier clauses may have left less than that
                into = kept if action is None else given[:, codes[action]]
                into += taken
                left = left - taken
        left[left < DUST] = 0.0
        return given, left + kept


@dataclass(frozen=True)
class Family:
    """The policies of a rule with a range in braces, one for every threshold."""

    text: str
    thresholds: tuple[float, ...]
    policies: tuple[Rule, ...]

    def __str__(self) -> str:
        return self.text

    def __len__(self) -> int:
        return len(self.policies)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.policies)


class Token(NamedTuple):
    kind: str
    text: str
    begin: int
    end: int

    @property
    def word(self) -> str:
        """A keyword or a sign, in its usual spelling; empty for quoted text."""
        return SPELLINGS.get(self.text, self.text).lower() if self.kind in ("word", "sign") else ""


def _tokens(text: str) -> list[Token]:
    tokens = []
    for match in TOKEN.finditer(text):
        kind = str(match.lastgroup)
        begin = match.end() - len(match[0].lstrip())
        tokens.append(Token("text" if kind == "quoted" else kind, match[kind], begin, match.end()))
    return [*tokens, Token("end", "", len(text), len(text))]


def _range(text: str) -> tuple[float, ...]:
    """The numbers in braces: a list, or from one number to another in equal steps."""
    inside = text[1:-1].strip()
    steps = re.fullmatch(rf"(-?{NUMBER})\s*\.\.\s*(-?{NUMBER})(?:\s+(?:by|step)\s+({NUMBER}))?", inside)
    if steps:
        low, high = float(steps[1]), float(steps[2])
        by = float(steps[3]) if steps[3] else _round_step(high - low)
        count = (high - low) / by if by > 0 else -1.0
        if 0 < count < MOST_POLICIES:
            # 1e-9, because 0.3/0.1 is a little less than 3.
            return tuple(float(v) for v in np.linspace(low, low + int(count + 1e-9) * by, int(count + 1e-9) + 1))
    elif re.fullmatch(rf"\s*-?{NUMBER}(?:\s*,\s*-?{NUMBER}){{0,{MOST_POLICIES - 1}}}", inside):
        values = [float(one) for one in inside.split(",")]
        if np.isfinite(values).all() and values == sorted(set(values)):
            return tuple(values)
    forms = "write {1..4}, {1..4 by 0.5} or {1, 2, 4}, numbers that rise"
    raise ValueError(f"The range {show(text)} cannot be read: {forms}, at most {MOST_POLICIES} of them.")


def _round_step(width: float) -> float:
    """The longest of 1, 2, 2.5 and 5 times a power of ten that divides a range into six parts or more."""
    if not 0 < width < np.inf:
        return 0.0
    power = 10.0 ** np.floor(np.log10(width / 6))
    return max(step * power for step in (1.0, 2.0, 2.5, 5.0) if step * power <= width / 6 * (1 + 1e-9))


class _Parser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.at, self.signs = text, _tokens(text), 0, 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def accept(self, *words: str) -> str:
        """Step over one of the words and return it, or the empty text where another token stands."""
        word = self.token.word
        if word not in words:
            return ""
        self.at += 1
        return word

    def expect(self, word: str, why: str) -> None:
        if not self.accept(word):
            self.fail(f"{word!r} must stand there {why}")

    def fail(self, what: str) -> Any:
        near = self.text[self.token.begin :]
        where = f"at {show(near)}" if near else "at its end"
        raise ValueError(f"The rule {show(self.text)} cannot be read {where}: {what}.")

    def rule(self) -> tuple[Clause, ...]:
        clauses: list[Clause] = []
        while self.token.kind != "end":
            if clauses and clauses[-1].condition is None and sum(p for _, p in clauses[-1].choices) >= 1 - DUST:
                self.fail("nothing is left for it, because the clause before it always holds")
            clauses.append(self.clause())
        return tuple(clauses) or self.fail('write an action, such as "B if lactate > 2"')

    def clause(self) -> Clause:
        last = bool(self.accept(*ELSE))
        choices = self.several(self.choice)
        if sum(p for _, p in choices) > 1 + DUST:
            self.fail("the probabilities of one clause must not add up to more than 1")
        asked = not last and self.accept("if", "when")
        condition = self.condition(self.expression()) if asked else None
        closed = self.accept(";") or (self.tokens[self.at : self.at + 2][-1].word in ELSE and self.accept(","))
        if last and self.token.kind != "end":
            self.fail("nothing may follow what 'else' says")
        if not closed and self.token.kind != "end" and self.token.word not in ELSE:
            written = 'write 2.5, not 2,5, and a name with blanks in double quotes: "heart rate" > 90'
            self.fail(f"after a clause comes ';', 'else' or the end ({written})")
        return Clause(choices, condition)

    def several(self, parse: Callable[[], T]) -> tuple[T, ...]:
        """One or more of the same, with commas between them."""
        found = [parse()]
        while self.accept(","):
            found.append(parse())
        return tuple(found)

    def choice(self) -> tuple[str | None, float]:
        begin = self.at + (self.token.word == "always" and self.tokens[self.at + 1].word not in CLOSING)
        while self.token.kind != "end" and self.token.word not in CLOSING:
            self.at += 1
        words = self.tokens[begin : self.at]
        if not words:
            self.fail("an action must stand there")
        single = len(words) == 1 and words[0].kind in ("name", "text")
        action = words[0].text if single else self.text[words[0].begin : words[-1].end].strip(" ,")
        probability = self.probability() if self.accept("with") else 1.0
        return (None if folded(action) in AS_WAS_DONE and not single else action), probability

    def probability(self) -> float:
        self.accept("probability")
        if self.token.kind != "number":
            self.fail("'with' needs a probability, such as 0.8 or 80 %")
        value = float(self.token.text)
        self.at += 1
        value = value / 100 if self.accept("%") else value
        if not 0 < value <= 1:
            self.fail("a probability lies above 0 and is at most 1")
        return value

    def expression(self, power: int = 0) -> Tree:
        """Parse an expression of all operators that bind more tightly than `power` (Pratt's way of parsing)."""
        left = self.operand()
        while (found := POWER.get(self.token.word, 0)) > power:
            left = self.extended(left, self.accept(self.token.word), found)
        return left

    def extended(self, left: Tree, sign: str, power: int) -> Tree:
        """Join the tree on the left, an operator, and the expression on its right."""
        self.count()
        if sign in ("is", "in", "not"):
            negated = sign == "not" or (sign == "is" and bool(self.accept("not")))
            tree = self.missing(left) if sign == "is" else self.member(left, negated)
            return ("not", tree) if negated else tree
        right = self.expression(power)
        if sign in ("and", "or"):
            return (sign, self.condition(left), self.condition(right))
        if left[0] in COMPARISONS and sign in COMPARISONS:  # 1 < x < 2
            return ("and", left, (sign, left[2], self.number(right)))
        return (sign, self.number(left), self.number(right))

    def missing(self, left: Tree) -> Tree:
        self.expect("missing", "after 'is'")
        return ("missing", left[1]) if left[0] == "name" else self.fail("the name of a column must stand before it")

    def member(self, left: Tree, negated: bool) -> Tree:
        if negated:
            self.expect("in", "after 'not'")
        self.expect("(", "after 'in'")
        items = self.several(lambda: self.number(self.expression()))
        self.expect(")", "at the end of the list")
        return ("in", self.number(left), items)

    def operand(self) -> Tree:
        if self.accept("not"):
            self.count()
            return ("not", self.condition(self.expression(NOT)))
        if self.accept("-"):
            self.count()
            return ("-", ("number", 0.0, "0"), self.number(self.expression(SIGN)))
        if self.accept("("):
            self.count()
            inside = self.expression()
            self.expect(")", "where the bracket ends")
            # Wrapped, so that (1 < x) < 2 is not taken for the chain 1 < x < 2.
            return inside if inside[0] not in COMPARISONS else ("and", inside, inside)
        kind, text, *_ = self.token
        if kind not in ("number", "name", "text", "word") or self.token.word in (*CLOSING, *POWER):
            self.fail("a column or a number must stand there (put a name with blanks or signs in double quotes)")
        self.at += 1
        if kind != "number":
            return ("text" if kind == "text" else "name", text)
        value = float(text)
        return ("number", value, text) if np.isfinite(value) else self.fail("the number before it is too large")

    def count(self) -> None:
        self.signs += 1
        if self.signs > MOST_SIGNS:
            self.fail(f"it has more than {MOST_SIGNS} operators; write a function instead")

    def condition(self, tree: Tree) -> Tree:
        if tree[0] not in CONDITIONS and tree[0] != "name":
            self.fail("a condition such as lactate > 2 must stand before it")
        return ("flag", tree[1]) if tree[0] == "name" else tree

    def number(self, tree: Tree) -> Tree:
        return tree if tree[0] not in CONDITIONS else self.fail("a number must stand before it, not a condition")


def _value(tree: Tree, columns: _Columns) -> Any:
    """Evaluate a tree, per row or once for all rows; a constant stays Python's and takes the column's precision."""
    kind, *parts = tree
    if kind == "number":
        return parts[0]
    if kind in ("name", "text"):
        return columns.number(parts[0])
    if kind in ("missing", "flag"):
        return columns.missing(parts[0]) if kind == "missing" else columns.flag(parts[0])
    if kind == "in":
        return reduce(np.logical_or, [_value(("=", parts[0], item), columns) for item in parts[1]])
    if kind in EQUAL and parts[0][0] == "name" and columns.is_category(parts[0][1]):
        (_, name), right = parts
        # A number is first looked for as it was written: ward 07 is not ward 7.
        wanted = (right[2], f"{right[1]:.15g}") if right[0] == "number" else (str(right[1]),)
        same = columns.category(name, wanted)
        return same if kind == "=" else ~same
    with np.errstate(all="ignore"):
        found = (ARITHMETIC | COMPARISONS | LOGIC)[kind](*(_value(part, columns) for part in parts))
    if not np.isfinite(found).all():
        row = int(np.argmax(~np.broadcast_to(np.isfinite(found), columns.n)))
        raise ValueError(f"A rule computes {kind!r} in row {row} and gets no finite number: it divides by 0 there.")
    return found


class _Columns:
    """The columns of the rows, by names that may differ in case and blanks from those of the log."""

    def __init__(self, rows: Any, names: Sequence[str] | None) -> None:
        self.rows, self.n = rows, rows.shape[0]
        self.unnamed = not names
        self.names = list(names or (f"x{j}" for j in range(rows.shape[1])))
        self.labels = list(map(label, self.names))

    def at(self, place: int) -> Array:
        return self.rows[:, [place]].toarray().ravel() if sp.issparse(self.rows) else np.asarray(self.rows[:, place])

    def place(self, name: str) -> int | None:
        """The number of the column with this name; None if there is none."""
        # The spelling of the log wins over another, and a full name over one without a prefix.
        found = [j for j, _ in _alike(name, self.names, self.labels)]
        if len(found) > 1:
            alike = " or ".join(repr(self.names[j]) for j in found[:2])
            raise ValueError(f"A rule names a column {show(name)}, which may be {alike}: write it as the log does.")
        return found[0] if found else None

    def number(self, name: str) -> Any:
        place, key = self.place(name), folded(name)
        if place is not None:
            return self.at(place)
        if key in FLAGS and len(key) > 1:  # yes and no; a single letter is more likely a mistyped name
            return FLAGS[key]
        if known := self.values(name):
            first = next(iter(known))
            raise ValueError(f"`{name}` is text: ask for one of its values, as in `{name}` = '{first}'.")
        if self.unnamed:
            but = f"the columns of this log have no names, only the numbers {self.names[0]} to {self.names[-1]}"
            raise ValueError(f"A rule names a column {show(name)}, but {but}: give a column target_prob instead.")
        plain = all(re.fullmatch(r"\w+", one) for one in self.names)
        hint = "" if plain else " (put a name with blanks or signs in double quotes)"
        raise ValueError(f"A rule names a column {show(name)} that is not observed{hint}{nearest(name, self.names)}")

    def flag(self, name: str) -> Array:
        values = np.broadcast_to(self.number(name), self.n)
        if not np.isin(values, (0, 1)).all():
            raise ValueError(f"`{name}` is a number: compare it with another, as in `{name}` > 2.")
        return np.asarray(values == 1)

    def missing(self, name: str) -> Array:
        marked = self.place(f"{name}: missing")
        if marked is None and not self.is_category(name):
            self.number(name)  # a column that is not there is refused
        return np.zeros(self.n, dtype=bool) if marked is None else self.at(marked) == 1

    def values(self, name: str) -> dict[str, tuple[int, int]]:
        """The categories of a column of text, each with a column of 0 and 1 that `prepare` made and the number in it.

        A column "m, not f" stands for two categories.
        """
        colons = name.count(": ") + 1
        found = _alike(name, self.names, self.labels, begins=True)
        values = {one.split(": ", colons)[-1]: (j, 1) for j, one in found}
        values.pop("missing", None)
        category, (place, _) = next(iter(values.items()), ("", (0, 0)))
        one, _, other = category.partition(", not ")
        return {one: (place, 1), other: (place, 0)} if len(values) == 1 and other else values

    def is_category(self, name: str) -> bool:
        return self.place(name) is None and bool(self.values(name))

    def category(self, name: str, wanted: Sequence[str]) -> Array:
        """A mask of the rows that have the first known one of the `wanted` values."""
        known = self.values(name)
        for value in wanted:
            if len(found := _alike(value, list(known))) == 1:
                place, number = known[found[0][1]]
                # A gap is neither of two values.
                return (self.at(place) == number) & (number == 1 or ~self.missing(name))
        raise ValueError(f"A rule asks for {show(wanted[0])} in `{name}`{nearest(wanted[0], list(known))}")


def _alike(wanted: str, *several: Sequence[str], begins: bool = False) -> list[tuple[int, str]]:
    """Find the places and spellings of a name: as written, in the first list that has it, else in another case.

    With `begins` the names of the categories of a column are found, which begin with its name.
    """
    for form in (str, folded):
        for names in several:
            known = enumerate(names)
            if begins:
                found = [(j, one) for j, one in known if form(one).startswith(form(wanted) + ": ")]
            else:
                found = [(j, one) for j, one in known if form(one) == form(wanted)]
            if found:
                return found
    return []


def _code(action: str, names: Sequence[str] | None, n_actions: int) -> int:
    """The number of an action, by its name, or by its code where the log has no names."""
    if names is None:
        code = re.fullmatch(r"(?:action )?([0-9]{1,9})", folded(action))
        if code is None or (n_actions and int(code[1]) >= n_actions):
            known = f"are 0 to {n_actions - 1}" if n_actions else "have no names"
            said = f"A rule names an action {show(action)}, but the actions of the log {known}"
            raise ValueError(f"{said}: write a number.")
        return int(code[1])
    found = _alike(action, names)
    if len(found) != 1:
        raise ValueError(f"A rule names an action {show(action)} that the log does not know{nearest(action, names)}")
    return found[0][0]
