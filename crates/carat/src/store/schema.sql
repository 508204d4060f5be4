-- One experiment. Values are in the units of the metric registry: bytes, seconds, per second, fractions, multiples.
-- Documented in docs/reference/schema.md.

CREATE TABLE experiment (
    only         INTEGER PRIMARY KEY CHECK (only = 1),
    name         TEXT NOT NULL,
    about        TEXT,
    plan_hash    TEXT NOT NULL,
    plan_text    TEXT NOT NULL,
    seed         TEXT NOT NULL,
    max_blocks   INTEGER NOT NULL,
    primary_metric TEXT NOT NULL,
    margin       REAL NOT NULL,
    carat_version TEXT NOT NULL
) STRICT;

CREATE TABLE guard (
    metric TEXT PRIMARY KEY,
    worse_by REAL NOT NULL
) STRICT;

CREATE TABLE variant (
    place    INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL
) STRICT;

CREATE TABLE trial (
    id         TEXT PRIMARY KEY,
    block      INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    variant    TEXT NOT NULL REFERENCES variant (name),
    outcome    TEXT NOT NULL,
    detail     TEXT,
    started_ms INTEGER NOT NULL,
    seconds    REAL NOT NULL,
    machine    TEXT NOT NULL,
    load_from_ms INTEGER,
    load_to_ms   INTEGER,
    load       TEXT,
    notes      TEXT NOT NULL,
    log_tail   TEXT NOT NULL,
    UNIQUE (block, variant)
) STRICT;

CREATE TABLE metric (
    trial TEXT NOT NULL REFERENCES trial (id),
    name  TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (trial, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (
    trial TEXT NOT NULL REFERENCES trial (id),
    at_ms INTEGER NOT NULL,
    processes INTEGER NOT NULL,
    rss   INTEGER,
    pss   INTEGER,
    uss   INTEGER,
    swap  INTEGER,
    detail TEXT NOT NULL,
    PRIMARY KEY (trial, at_ms)
) STRICT, WITHOUT ROWID;

-- The process that runs the experiment now. A second carat refuses the file; a resumed run cleans up after a killed one.
CREATE TABLE runner (
    only        INTEGER PRIMARY KEY CHECK (only = 1),
    pid         INTEGER NOT NULL,
    start_ticks INTEGER NOT NULL,
    token       TEXT NOT NULL,
    directory   TEXT NOT NULL
) STRICT;
