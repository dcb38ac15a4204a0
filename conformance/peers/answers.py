"""What a comparison found."""

from typing import Literal, NamedTuple, TypeAlias

Question: TypeAlias = Literal["formula", "float32", "as installed"]


class Answer(NamedTuple):
    """What one comparison found.

    Attributes
    ----------
    question
        Which comparison.
    ours
        Who was compared: ``"core"`` or the name of a backend.
    case
        The kind of parameter.
    difference
        Norm of the difference over the norm of the peer's movement.
    bound
        What it may be.
    """

    question: Question
    ours: str
    case: str
    difference: float
    bound: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is within its bound; a NaN is not."""
        return self.difference <= self.bound
