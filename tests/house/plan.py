"""The plan: who stands above whom, what each may use; exceptions stand here with their reason."""

from __future__ import annotations

NAME = "fencepost"

# Imports point down: a module may import from lower floors and from its own room, nothing else.
FLOORS = [
    "log record version",
    "issues clock",
    "outward lineage",
    "canonical model tokens alone",
    "fields",
    "parts destinations",
    "commands",
    "rules journal",
    "machine",
    "storage",
    "engine",
    "handle",
    "remote",
    "opening",
    "worker deliveries receiver offline server operate",
    "cli conformance testing",
    "__init__ __main__",
]
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms.split()}
# (importing room, imported room): why this one may look sideways.
SIDEWAYS: dict[tuple[str, str], str] = {
    ("journal", "rules"): "verify judges moves and fences by the one table of the rules",
    ("cli", "conformance"): "conform hands its arguments on to the kit, which knows nothing of it",
    ("operate", "worker"): "doctor asks what of a task's processes is not covered here; the "
    "benchmark measures workers too",
    ("worker", "offline"): "a worker without a network takes its tasks from an outbox",
    ("deliveries", "worker"): "whoever delivers is a worker on the destinations' queues",
    ("deliveries", "receiver"): "both sides sign, and chain an ordered stream, by one rule",
    ("operate", "deliveries"): "a restored store tells each receiver who writes now",
    ("operate", "receiver"): "and names its streams as both sides do",
    ("operate", "cli"): "long runs show tables and progress with cli/terminal.py, as the verbs do",
}
# The same for an import under `if TYPE_CHECKING`, which nothing runs.
FOR_TYPES = {("issues", "model"): "a refusal carries its Outcome"}
ROOT_MAY_IMPORT = {
    "handle", "model", "commands", "issues", "opening", "outward", "parts", "remote",
    "version", "worker",
}  # fmt: skip

PURE_ROOMS = ("rules", "machine", "journal")
IMPURE = frozenset(
    [
        "time", "random", "os", "socket", "sqlite3", "secrets", "uuid", "threading", "asyncio",
        "subprocess", "multiprocessing", "signal", "select", "http", "urllib", "ssl",
        "tempfile", "shutil", "fcntl",
    ]
)

CLOCKS = frozenset(
    [
        "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
        "time.clock_gettime", "time.perf_counter_ns", "time.clock_gettime_ns",
        "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
        "datetime.date.today",
    ]
)
MEASURING = frozenset(name for name in CLOCKS if "monotonic" in name or "perf_counter" in name)
# path prefix: what it may ask. A prefix "operate/bench" covers bench.py and bench/.
CLOCK_USERS = {
    "clock.py": CLOCKS,  # the one place that asks
    "operate/bench": MEASURING,  # measures how long things took
    "operate/demo": MEASURING,  # the same
    # a program of its own that can load nothing of ours; held to the clock by a test
    "worker/shim.py": frozenset(["time.clock_gettime_ns"]),
    # the kit for the other side stands alone, and so has a clock of its own
    "receiver/clock.py": frozenset(["time.time_ns", "time.monotonic"]),
    # the conformance kit stands alone too: a signature says when it was made
    "conformance/receiver_run.py": frozenset(["time.time"]),
    "conformance/receiver_reference.py": frozenset(["time.time"]),
}

SQLITE_USERS = {
    "storage/": "the store itself",
    "engine/": "the caller's transaction takes a connection of the caller's",
    "receiver/": "the kit for the other side stands alone, with tables in its user's database",
    "offline/file.py": "the outbox is a file of its own, on a machine that may have no store",
    "conformance/sqlite_reference.py": "a kit of its own, written independently of storage/",
    "conformance/reference_stores.py": "a kit of its own, written independently of storage/",
    "conformance/verification.py": "asks for SQLite's version, which the verification names",
}
SQL_IN_PYTHON = {
    "conformance/sqlite_reference.py": "a kit of its own, made to be carried off",
    "conformance/reference_stores.py": "a kit of its own, made to be carried off",
}
# They may import one another, and nothing else of ours.
STAND_ALONE = {
    "conformance/sqlite_reference.py": "the oracle: what it shared, it could not check",
    "conformance/reference_bytes.py": "what the oracle reads",
    "conformance/receiver_reference.py": "a receiver written from its page alone, to copy from",
    "conformance/reference_parts.py": "what the oracle is made of beside the rules",
    "conformance/reference_stores.py": "what holds the oracle's rows",
}
# Their modules import one another, and nothing else of ours.
STAND_ALONE_ROOMS = {"receiver": "whoever receives copies the folder, and has nothing else of ours"}
# SQL's own clock: one call on PostgreSQL asks the store's time after the locks are held.
CLOCK_TIMESTAMP_LIMIT = 1

# third-party module: (extra in pyproject.toml, path prefixes that may import it)
SERVER = ("server/",)
# the store itself, and the kit's adapter, which makes databases for it: nobody else speaks to it;
# and the receivers' kit, whose tables stand in its user's database
DRIVER = ("storage/postgres", "conformance/product_postgres.py", "receiver/postgres.py")
EXTRAS = {
    "starlette": ("server", SERVER),
    "uvicorn": ("server", SERVER),
    "httptools": ("server", SERVER),
    "psycopg": ("postgres", DRIVER),
    "psycopg_pool": ("postgres", DRIVER),
    "opentelemetry": ("otel", ("engine/", "worker", "deliveries", "server/")),
    "boto3": ("s3", ("deliveries/s3.py",)),
    "botocore": ("s3", ("deliveries/s3.py",)),  # boto3's own lower half
    "cryptography": ("sign", ("journal/", "operate/", "cli/")),
    "apsw": ("sqlite", ("storage/sqlite",)),
}
# may import their extra at module level
NEEDS_EXTRA = (
    "server/", "storage/postgres",
    "conformance/product_http.py", "conformance/product_postgres.py", "receiver/postgres.py",
)  # fmt: skip

MAX_FILE, MEDIAN_FILE, MAX_FUNCTION, MAX_SQL_FILE = 400, 150, 60, 250
# path: (its own limit, why it cannot be divided)
LONGER_FILES: dict[str, tuple[int, str]] = {
    "commands.py": (440, "every verb and its members, once, and the bytes that are hashed"),
    "issues.py": (460, "every code and its exception, once, in the order in which they lead"),
    "conformance/sqlite_reference.py": (600, "all rules in one file, read from top to bottom"),
}
