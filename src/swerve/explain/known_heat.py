"""Heat maps found once: selections of one campaign share those of a case."""

from __future__ import annotations

from collections.abc import Sequence

from swerve.core.case import Case
from swerve.core.lru import SizedLRU
from swerve.core.system import System
from swerve.explain.heat import Explanation, HeatMap

_KNOWN = SizedLRU(4096)  # a map has few cells: those of a layer, not those of a picture


def heat_maps(explanation: Explanation, cases: Sequence[Case], system: System) -> list[HeatMap]:
    """The heat map of every case; those that are not known yet are found in one pass."""
    try:
        hash(explanation)
    except TypeError:  # an explanation that cannot be hashed cannot be told from another
        return list(explanation.explain(cases, system))
    about = type(explanation), explanation, system.fingerprint()
    keys = [(*about, case.input_sha) for case in cases]
    known = {key: heat for key in keys if isinstance(heat := _KNOWN.find(key), HeatMap)}
    missing = {key: case for key, case in zip(keys, cases, strict=True) if key not in known}
    found = explanation.explain(list(missing.values()), system) if missing else ()
    for key, heat in zip(missing, found, strict=True):
        known[key] = _KNOWN.get(key, lambda heat=heat: heat)  # type: ignore[misc]
    return [known[key] for key in keys]
