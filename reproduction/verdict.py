"""A claim of the paper and the verdict on it: what kind of claim it is, what the paper says, what our rows say."""

from __future__ import annotations

from dataclasses import dataclass

# What a claim is about. A trivial one would be true of any method, so it is not counted.
THEORY, ALGORITHM, TUNING, TRIVIAL = "theory", "algorithm", "depends on tuning", "trivially true"
KINDS = {
    THEORY: "what is proved, or follows from the equations",
    ALGORITHM: "what the methods do, whatever their parameters within reason",
    TUNING: "which method wins on one problem, with parameters that are mostly not printed",
    TRIVIAL: "true of any method; not counted",
}
REPRODUCED = "reproduced"
UNDER_READING = "reproduced under this reading"
IN_PART = "reproduced in part"
NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, its number, ours, and the verdict that `rule` gives; `kind` is one of `KINDS`.

    `reading` names what had to be chosen where the paper is silent, or why the claim did not come out.
    """

    kind: str
    label: str
    paper: str
    ours: str
    verdict: str
    rule: str
    reading: str = ""

    @property
    def sentence(self) -> str:
        """The verdict with its reason."""
        if self.kind == TRIVIAL:
            return TRIVIAL
        if not self.reading:
            return self.verdict
        join = {NOT_REPRODUCED: "not reproduced, because", IN_PART: "reproduced"}
        return f"{join.get(self.verdict, f'{self.verdict}:')} {self.reading}"


def judge(
    kind: str,
    label: str,
    printed: str,
    ours: str,
    rule: str,
    *,
    literal: bool,
    reading: bool = False,
    part: str = "",
    because: str = "",
    otherwise: str = "",
) -> Claim:
    """The claim with its verdict: it holds with the printed settings, only under a stated reading, in part, or not.

    `because` states the reading; `part`, where it is not empty, says which part holds ("in the median, …"); `otherwise`
    says why no part holds, in place of `because`.
    """
    if literal:
        return Claim(kind, label, printed, ours, REPRODUCED, rule)
    if reading:
        return Claim(kind, label, printed, ours, UNDER_READING, rule, because)
    if part:
        return Claim(kind, label, printed, ours, IN_PART, rule, part)
    return Claim(kind, label, printed, ours, NOT_REPRODUCED, rule, otherwise or because)
