"""Follows all ways through an expression at once; what has been worked out for one character is kept for the next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from muster.engine.pattern.characters import Characters, is_word
from muster.engine.pattern.syntax import Choice, Node, PatternError, Place, Repeat, Sequence, read

LONGEST = 2000  # characters of an expression
LARGEST = 2000  # steps that an expression may come to, its repetitions written out
_KEPT = 100_000


class Side(IntEnum):
    """What is on one side of a place between characters."""

    NOTHING = 0
    WORD = 1
    OTHER = 2


@dataclass(slots=True)
class _Step:
    """One step of the expression; a step without a test leads on to several others."""

    test: Characters | Place | None
    to: tuple[int, ...]


_State = tuple[frozenset[int], Side]
_END = 0  # the step that is reached by what matches


class Pattern:
    """Does an expression match somewhere in a name? (Go: MatchString)"""

    def __init__(self, text: str) -> None:
        """PatternError: it is none, or too large."""
        if len(text) > LONGEST:
            raise PatternError(f"is longer than {LONGEST} characters")
        self._steps = [_Step(None, ())]
        self._first = self._written(read(text), _END)
        self._begin: _State = (frozenset({self._first}), Side.NOTHING)
        self._known: dict[tuple[_State, str], _State | None] = {}

    def search(self, name: str) -> bool:
        state = self._begin
        for character in (*name, ""):
            key = (state, character)
            if key in self._known:
                after = self._known[key]
            else:
                if len(self._known) > _KEPT:
                    self._known.clear()
                after = self._known[key] = self._step(state, character)
            if after is None:
                return True
            state = after
        return False

    def _step(self, state: _State, character: str) -> _State | None:
        """The state after a character ("": the end of the name); None: the expression has matched."""
        steps, before = state
        after = Side.NOTHING if not character else Side.WORD if is_word(character) else Side.OTHER
        left, seen, reached = list(steps), set(steps), {self._first}
        while left:
            at = left.pop()
            if at == _END:
                return None
            step = self._steps[at]
            if isinstance(step.test, Characters):
                if character and character in step.test:
                    reached.update(step.to)
            elif step.test is None or _holds(step.test, before, after):
                left += [to for to in step.to if to not in seen]
                seen.update(step.to)
        return frozenset(reached), after

    # --- writing out

    def _add(self, test: Characters | Place | None, *to: int) -> int:
        if len(self._steps) >= LARGEST:
            raise PatternError("is too large with its repetitions written out")
        self._steps.append(_Step(test, to))
        return len(self._steps) - 1

    def _written(self, node: Node, then: int) -> int:
        """Write the node's steps; where they begin."""
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                then = self._written(part, then)
            return then
        if isinstance(node, Choice):
            return self._add(None, *[self._written(part, then) for part in node.parts])
        if not isinstance(node, Repeat):
            return self._add(node, then)
        if node.most is None:
            loop = self._add(None)
            self._steps[loop].to = (self._written(node.part, loop), then)
            then = loop
        else:
            after = then
            for _ in range(node.most - node.least):
                then = self._add(None, self._written(node.part, then), after)
        for _ in range(node.least):
            then = self._written(node.part, then)
        return then


def _holds(place: Place, before: Side, after: Side) -> bool:
    if place is Place.BEGIN:
        return before == Side.NOTHING
    if place is Place.END:
        return after == Side.NOTHING
    edge = (before == Side.WORD) != (after == Side.WORD)
    return edge == (place is Place.EDGE)
