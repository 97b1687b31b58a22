"""A run folder open for reading: its records, findings and baseline, streamed from the journal."""

from __future__ import annotations

import heapq
import itertools
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from swerve.config.toml import Builder
from swerve.config.trust import Trust, commands_of, files_of_programs, required_trust
from swerve.core.asset import AssetFiles
from swerve.core.campaign import Gain, Observation
from swerve.core.encode import JSON
from swerve.core.errors import StoreError, did_you_mean, printable
from swerve.core.relation import Status
from swerve.core.seeding import digest_of
from swerve.store.consents import load_consent, save_consent
from swerve.store.files import read_hashed_json, read_json, refuse_links
from swerve.store.fingerprint import ASSETS, FORMAT
from swerve.store.journal import Journal, Row
from swerve.store.record_json import BASELINE, TRIAL, Finding, finding_of, is_finding, observation_of, read_row

CAMPAIGN, JOURNAL, ORIGIN, LOCK = "campaign.json", "journal.jsonl", "origin.json", ".lock"
LISTED_PER_RULE = 200  # findings of which the page has cards, those with the largest margins
PICTURED_PER_RULE = 20  # of which pictures are kept, unless --keep says otherwise; those of the others are rebuilt
T = TypeVar("T")
CANDIDATES = 8  # that are listed where the start of an id is ambiguous
LARGEST_SEED = 1 << 128
_GAIN = b'{"kind":"gain",'  # the start of the line of a gain that many trials have together
_REPEAT = b'{"kind":"repeat",'  # the start of the line of a repeated finding


class Run:
    """A run folder open for reading: its records, findings and baseline, streamed from the journal."""

    def __init__(self, folder: Path, journal: Journal | None = None) -> None:
        self.folder = folder
        self._journal = journal or Journal(folder / JOURNAL)  # of the store that has written it, or one that holds nothing
        self.identity, self._campaign_sha = _read_identity(folder)
        self.derived: dict[object, Any] = {}  # results that readers have computed from the journal, cached

    @cached_property
    def base(self) -> Path:  # read once: consent is given for it
        """The folder that the campaign's paths are relative to."""
        base = read_json(self.folder / ORIGIN).get("base")
        if not isinstance(base, str):
            raise StoreError(f"{self.folder / ORIGIN}: is damaged: base cannot be read")
        return Path(base)

    @cached_property
    def assets(self) -> AssetFiles:
        """The files that parts of the campaign read, where they were when the run was last begun."""
        paths = read_json(self.folder / ORIGIN).get("assets", {})
        if not isinstance(paths, dict) or not all(isinstance(path, str) for path in paths.values()):
            raise StoreError(f"{self.folder / ORIGIN}: is damaged: assets cannot be read")
        return AssetFiles(paths, self.base)

    def builder(self, where: str = "change", trusted: Collection[str | Path] | Trust = ()) -> Builder:
        """What builds the campaign's parts from JSON; its messages start with `where`."""
        return Builder(where, self.base, self.trust(trusted), self.assets)

    def trust(self, given: Collection[str | Path] | Trust = ()) -> Trust:
        """The code that this folder may run: what the user has allowed before, and what is `given` now and saved."""
        if isinstance(given, Trust):
            self._refuse_other_folder(given)
            return given
        allowed = Trust.of(given)
        if given:
            files = files_of_programs(self.identity["campaign"], self.base, allowed)
            allowed = allowed.union(Trust(files=files))
            save_consent(self._campaign_sha, str(self.base), allowed)
        known = load_consent(self._campaign_sha, str(self.base))
        commands = commands_of(self.identity["campaign"], self.base)
        return replace(known.union(allowed), foreign=True, commands=commands, given_for=self._consent_key)

    def trust_own(self, given: Collection[str | Path] | Trust = ()) -> Trust:
        """Like `trust`, for a run started by this user: all code that its campaign names is allowed from now on."""
        save_consent(self._campaign_sha, str(self.base), self._named().union(Trust.of(given)))
        return self.trust()

    def _named(self) -> Trust:
        return required_trust(self.identity["campaign"], self.base, self.identity["factory"])

    @cached_property
    def _consent_key(self) -> str:
        """What a consent is given for: the bytes that `identity` was read from, and the base folder."""
        return digest_of(self._campaign_sha, str(self.base))

    def _refuse_other_folder(self, trust: Trust) -> None:
        """Refuse the trust of another process if the folder is not what it was when that was given."""
        if trust.given_for not in ("", self._consent_key):
            raise StoreError(f"{self.folder}: {CAMPAIGN} or {ORIGIN} has changed since this command began; start it again")

    @property
    def sampled(self) -> bool:
        """Whether its trials are a sample, the same for any system: not those of a search that learns."""
        return not self.identity.get("learns", False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every committed row of an unchanged case or a trial, in order."""
        for lines in self._batches():
            yield from (self._row(line) for line in lines if not line.startswith((_REPEAT, _GAIN)))

    def _row(self, line: bytes) -> dict[str, Any]:
        try:
            return read_row(line)
        except StoreError as error:
            raise StoreError(f"{self._journal.path}: {error}") from error

    def _batches(self) -> Iterator[list[bytes]]:
        known = self._journal if self._journal.is_current else Journal(self._journal.path)
        return known.again()

    def gains(self) -> Iterator[Gain]:
        """What the unchanged cases cover, and what each ask covered beyond all before; none if every trial has its gain."""
        lines = (line for batch in self._batches() for line in batch if line.startswith(_GAIN))
        return (self._row(line)["gain"] for line in lines)

    @cached_property
    def repeats(self) -> dict[str, bool]:
        """Whether each repeated finding failed again, by id."""
        return {row["id"]: row["status"] == Status.VIOLATED.value for row in self._repeated}

    @cached_property
    def answered_again(self) -> dict[str, list[JSON]]:
        """The answers to the unchanged cases of repeated findings, given once more at the end of the run, by case."""
        return {row["case"]: row["before"] for row in self._repeated if row["before"]}

    @cached_property
    def _repeated(self) -> list[Row]:
        return [*map(self._row, self._journal.last_lines(_REPEAT))]  # they follow all trials

    def baseline(self) -> list[Observation]:
        """The observations of all unchanged cases."""
        return list(self.untouched())

    def untouched(self) -> Iterator[Observation]:
        """The observations of all unchanged cases, one by one."""
        return map(observation_of, itertools.takewhile(lambda row: row["kind"] == BASELINE, self.rows()))

    def trials(self) -> Iterator[dict[str, Any]]:
        """Every trial's row, in order."""
        return (row for row in self.rows() if row["kind"] == TRIAL)

    def findings(self) -> Iterator[Finding]:
        """Every finding, in the order of the journal."""
        return map(finding_of, self._finding_rows())

    def best(self, count: int = LISTED_PER_RULE) -> list[Finding]:
        """The `count` findings of each rule with the largest margins, largest first."""
        return [finding_of(row) for row in best_of(self._finding_rows(), count)]

    def row(self, prefix: str) -> dict[str, Any]:
        """The one finding whose id starts with `prefix`."""
        rows = {row["id"]: row for row in self._finding_rows() if prefix and row["id"].startswith(prefix)}
        if not rows:
            known = [finding.id for finding in self.best(5)]
            raise UnknownFinding(f"{self.folder}: no finding '{prefix}'; {did_you_mean(prefix, known)}")
        return one_of(rows, prefix, self.folder)

    def _finding_rows(self) -> Iterator[dict[str, Any]]:
        repeats = self.repeats
        return ({**row, "repeated": repeats.get(row["id"])} for row in self.trials() if is_finding(row))


class UnknownFinding(StoreError):
    """An id that no finding of a run starts with."""


class AmbiguousId(StoreError):
    """The start of several ids; `details` lists them."""

    def __init__(self, folder: Path, prefix: str, rows: Collection[Row]) -> None:
        more = [f"and {len(rows) - CANDIDATES:,} more"] if len(rows) > CANDIDATES else []
        listed = [f"{row['id']}  {row['rule']}: {row['words']}  {row['case']}" for row in itertools.islice(rows, CANDIDATES)]
        self.details = (*listed, *more)
        super().__init__(f"{folder}: {len(rows):,} ids start with '{prefix}'; give more characters of one of them:")


def one_of(rows: Mapping[str, dict[str, Any]], prefix: str, folder: Path) -> dict[str, Any]:
    """The one of `rows`, by id, all of which start with `prefix`; raises `AmbiguousId` if there are several."""
    if len(rows) > 1:
        raise AmbiguousId(folder, prefix, rows.values())
    return next(iter(rows.values()))


class Best(Generic[T]):
    """The `count` findings of each rule with the largest margins, taken in one by one, in constant memory."""

    def __init__(self, count: int = LISTED_PER_RULE) -> None:
        self._count = count
        self._heaps: dict[str, list[tuple[float, str, int, T]]] = {}
        self._numbers = itertools.count()  # unique, so that findings are never compared

    def add(self, rule: str, margin: float, identity: str, finding: T) -> None:
        """Take in a finding, in any form."""
        heap = self._heaps.setdefault(rule, [])
        item = (margin, identity, next(self._numbers), finding)
        if len(heap) < self._count:
            heapq.heappush(heap, item)
        elif heap and item[:2] > heap[0][:2]:
            heapq.heapreplace(heap, item)

    def sorted(self) -> list[T]:
        """All that are kept, the largest margins first."""
        kept = (item for heap in self._heaps.values() for item in heap)
        return [finding for *_, finding in sorted(kept, key=lambda item: (-item[0], item[1]))]


def best_of(rows: Iterable[Row], count: int) -> list[Row]:
    """The rows of the `count` findings of each rule with the largest margins, largest first."""
    best = Best[Row](count)
    for row in rows:
        best.add(row["rule"], row["margin"], row["id"], row)
    return best.sorted()


def read_identity(folder: Path) -> dict[str, Any]:
    """The content of `campaign.json`; raises `StoreError` if it has another format."""
    return _read_identity(folder)[0]


def _read_identity(folder: Path) -> tuple[dict[str, Any], str]:
    """The content of `campaign.json` and the sha256 of its bytes, read once: another process may replace the file."""
    if not (folder / CAMPAIGN).is_file():
        raise StoreError(f"{folder}: is not a run folder (no {CAMPAIGN}); create one with 'swerve run FILE --into {folder}'")
    refuse_links(folder)
    identity, sha = read_hashed_json(folder / CAMPAIGN)
    if identity.get("format") != FORMAT:
        raise StoreError(
            f"{folder}: written in format {identity.get('format')}, this version reads format {FORMAT}; "
            "run the campaign again"
        )
    _check_complete(identity, folder / CAMPAIGN)
    return identity, sha


def _check_complete(identity: Mapping[str, Any], path: Path) -> None:
    missing = [key for key in ("factory", "rebuildable", "fingerprints", "campaign") if key not in identity]
    wrong = [key for key in ("fingerprints", "campaign") if not isinstance(identity.get(key), dict)]
    if not isinstance(identity.get("factory"), str | None):
        wrong.append("factory")
    optional = ("libraries", "parameters", ASSETS)
    wrong += [key for key in optional if not isinstance(identity.get(key, {}), dict)]
    if not wrong and not all(isinstance(text, str) for text in identity["fingerprints"].values()):
        wrong.append("fingerprints")
    if not wrong:
        wrong = [*_wrong_campaign(identity["campaign"]), *_wrong_parameters(identity.get("parameters", {}))]
    if missing or wrong:
        raise StoreError(f"{path}: is damaged: {', '.join(missing or wrong)} cannot be read")


def _wrong_campaign(campaign: Mapping[str, Any]) -> list[str]:
    """The parts of a campaign that readers rely on and that have the wrong type."""
    rules, seed = campaign.get("rule", []), campaign.get("seed", 0)
    named = isinstance(rules, list) and all(isinstance(rule, dict) and isinstance(rule.get("name"), str) for rule in rules)
    intact = {
        "rule": named,
        "search": isinstance(campaign.get("search", {}), dict),
        "seed": isinstance(seed, int) and abs(seed) <= LARGEST_SEED,
    }
    return [f"campaign.{name}" for name, good in intact.items() if not good]


def _wrong_parameters(kinds: Mapping[str, Any]) -> list[str]:
    """The recorded classes whose parameters lack a neutral value or a unit."""
    return [f"parameters.{printable(name, 40)}" for name, known in kinds.items() if not _are_parameters(known)]


def _are_parameters(known: object) -> bool:
    each = known.values() if isinstance(known, dict) else [None]
    return all(
        isinstance(facts, dict)
        and isinstance(facts.get("neutral"), int | float)
        and abs(facts["neutral"]) <= sys.float_info.max  # whole numbers of JSON may be larger
        and isinstance(facts.get("unit"), str)
        for facts in each
    )
