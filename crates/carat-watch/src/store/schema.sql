-- The store of carat watch. Times are Unix milliseconds, sizes are bytes, unknown is NULL.

-- Row 1: the last moment at which the watch was known to run.
CREATE TABLE watch (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  alive_ms INTEGER NOT NULL,
  boot TEXT
) STRICT;

CREATE TABLE process (
  number INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL,
  start_ticks INTEGER NOT NULL,
  boot TEXT,              -- the boot in which pid and start_ticks mean something
  tree INTEGER NOT NULL,
  server TEXT NOT NULL,   -- JSON: program, version, app
  role TEXT NOT NULL,
  worker INTEGER,
  title TEXT NOT NULL,
  ruby TEXT,
  allocator TEXT,
  grp TEXT,
  first_ms INTEGER NOT NULL,
  end_ms INTEGER,
  ending TEXT             -- JSON: cause and evidence
) STRICT;

CREATE TABLE sample (
  process INTEGER NOT NULL REFERENCES process (number),
  at_ms INTEGER NOT NULL,
  rss INTEGER,
  anonymous INTEGER,
  pss INTEGER,
  private INTEGER,
  swap INTEGER,
  threads INTEGER,
  PRIMARY KEY (process, at_ms)
) STRICT, WITHOUT ROWID;

CREATE TABLE group_sample (
  grp TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  used INTEGER,
  max INTEGER,
  oom_kills INTEGER,
  PRIMARY KEY (grp, at_ms)
) STRICT, WITHOUT ROWID;

CREATE TABLE census (
  process INTEGER NOT NULL REFERENCES process (number),
  at_ms INTEGER NOT NULL,
  body TEXT NOT NULL,     -- JSON
  PRIMARY KEY (process, at_ms)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
  number INTEGER PRIMARY KEY,
  at_ms INTEGER NOT NULL,
  process INTEGER,
  body TEXT NOT NULL
) STRICT;
