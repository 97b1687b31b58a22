"""What the readers of plain data share: one way to say where a text went wrong, and how much one may hold."""

from __future__ import annotations

from swerve.config import limits
from swerve.core.errors import UnreadableCase

PARTS = 5 * limits.ROWS  # lists, tables or elements of one file: a COCO annotation is made of four


class Misread(Exception):
    """Why a text cannot be read, and where; lines and columns count from 1."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason)
        self.reason, self.line, self.column = reason, line, column

    @classmethod
    def at(cls, text: str, place: int, reason: str) -> Misread:
        """A fault at a character of `text`."""
        return cls(reason, text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place))

    def of(self, name: str) -> UnreadableCase:
        """The error for the user, of the file called `name`."""
        return UnreadableCase(f"{name}, line {self.line}, column {self.column}: {self.reason}")


def too_deep() -> str:
    """The reason for refusing endless nesting."""
    return f"nested more than {limits.DEPTH} levels deep (swerve list limits)"
