-- The fleet of a part, or of what was merged from parts. Documented in docs/reference/schema.md.

CREATE TABLE fleet (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    binary TEXT NOT NULL,
    types  TEXT NOT NULL
) STRICT;

-- One row per attempt at a block. The trials of the attempt that counts are in `trial`, and `trials` is NULL.
CREATE TABLE attempt (
    block   INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    token   TEXT NOT NULL,
    looked  INTEGER NOT NULL,
    trials  TEXT,
    PRIMARY KEY (block, attempt, token)
) STRICT, WITHOUT ROWID;
