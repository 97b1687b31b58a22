"""A questionnaire of pictures as one HTML page, and the answers that come back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swerve.core.errors import InputError, printable
from swerve.core.seeding import digest_of
from swerve.core.values import Array
from swerve.report.templating import render_page
from swerve.review.pictures import data_address
from swerve.store.files import png_bytes, read_json

DIGITS = 16  # of an id
LARGEST = 1_000_000  # bytes of a file with answers


@dataclass(frozen=True, eq=False)
class QuestionPart:
    """Items of one or two pictures, about each of which one thing is asked."""

    name: str
    title: str
    ask: str
    answers: tuple[str, ...]
    items: Sequence[Sequence[Array]]

    def key(self, number: int) -> str:
        """What an item is called in a file of answers."""
        return f"{self.name} {number + 1}"


@dataclass(frozen=True, eq=False)
class Questionnaire:
    """Parts in order."""

    title: str
    parts: tuple[QuestionPart, ...]

    @property
    def id(self) -> str:
        """A hash of all that is asked."""
        asked = [
            (part.name, part.answers, [[digest_of(png_bytes(shot).hex()) for shot in item] for item in part.items])
            for part in self.parts
        ]
        return digest_of(self.title, asked)[:DIGITS]

    def page(self) -> str:
        """The page, which contains its pictures."""
        parts = [
            {"part": part, "shots": [[data_address(png_bytes(shot)) for shot in item] for item in part.items]}
            for part in self.parts
        ]
        styles, scripts = ("style.css", "questionnaire.css"), ("questionnaire.js",)
        return render_page("questionnaire.html", styles=styles, scripts=scripts, id=self.id, title=self.title, parts=parts)

    def read(self, folder: Path) -> Iterator[Mapping[str, str]]:
        """The answers of everyone whose file is in `folder`, by item; what is not answered is missing."""
        allowed = {part.key(number): part.answers for part in self.parts for number in range(len(part.items))}
        for file in sorted(folder.glob("*.json")):
            yield dict(self._checked(file, allowed))

    def _checked(self, file: Path, allowed: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
        if file.stat().st_size > LARGEST:
            raise InputError(f"{file}: larger than {LARGEST:,} bytes, so it is no file of answers; remove it")
        content = read_json(file)
        if content.get("questionnaire") != self.id:
            raise InputError(f"{file}: answers another questionnaire than this one ({self.id}); remove it")
        answers = content.get("answers")
        if not isinstance(answers, dict):
            raise InputError(f"{file}: has no answers; remove it, or download them again")
        for key, answer in answers.items():
            if answer not in allowed.get(key, ()):
                what = f"'{printable(str(answer), 40)}' for '{printable(str(key), 40)}'"
                raise InputError(f"{file}: {what} is no answer of this questionnaire; remove it")
            yield key, answer
