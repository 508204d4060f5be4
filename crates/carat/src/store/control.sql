-- The controls of variants, in a file whose experiment has any. Documented in docs/reference/schema.md.

CREATE TABLE control (
    variant TEXT NOT NULL REFERENCES variant (name),
    place   INTEGER NOT NULL,
    control TEXT NOT NULL REFERENCES variant (name),
    PRIMARY KEY (variant, place)
) STRICT, WITHOUT ROWID;
