"""The limits on what Swerve reads; `swerve list limits` shows them."""  # R64

from __future__ import annotations

from types import MappingProxyType

MEGA = 1_000_000
GIGA = 1_000_000_000

PIXELS = 50 * MEGA  # of one image
FILE = 1 * GIGA  # bytes of one image or point cloud
POINTS = 20 * MEGA  # of one point cloud
CONFIG = 10 * MEGA  # bytes of a campaign file
MANIFEST = 1 * GIGA  # bytes of one file of labels; COCO's training labels have half of this
ROWS = 1 * MEGA  # labels of one manifest
DEPTH = 100  # levels of nesting in JSON, YAML or XML
RUN_JSON = 100 * MEGA  # bytes of campaign.json and of any other JSON file of a run folder
JOURNAL_LINE = 64 * MEGA  # bytes of one line of a journal
MODEL = 4 * GIGA  # bytes of one model file
ARCHIVE = 50 * GIGA  # bytes that one archive may unpack to
SECONDS = 60.0  # that a program may take for one batch, or a worker for one case
START = 300.0  # seconds that a worker may take to load its model
HEADER = 16 * MEGA  # bytes of the header of a message to or from a program
STDERR = 1 * MEGA  # bytes of a program's stderr that are kept
MEMORY = 4 * GIGA  # bytes that a program may allocate

LIMITS = MappingProxyType(
    {
        "picture, pixels": PIXELS,
        "picture or point cloud, bytes": FILE,
        "point cloud, points": POINTS,
        "campaign file, bytes": CONFIG,
        "labels, bytes": MANIFEST,
        "labels, rows": ROWS,
        "labels, levels of nesting": DEPTH,
        "run folder, bytes of a JSON file": RUN_JSON,
        "run folder, bytes of a journal line": JOURNAL_LINE,
        "model, bytes": MODEL,
        "archive, bytes unpacked": ARCHIVE,
        "program, seconds a batch": SECONDS,
        "worker, seconds to start": START,
        "program, bytes of memory": MEMORY,
        "program, bytes of a message's header": HEADER,
        "program, bytes of a message's body": FILE,
        "program, bytes of stderr that are kept": STDERR,
    }
)
