-- Fences that nobody has used for long are forgotten, and none goes back for it.
-- Whose use was posted last is known by the watermark.

-- The day on which it was handed out last, in days since 1970; 0 = an earlier program did, and
-- it counts from when that is seen. Of a day, so that what is handed out again and again moves in no index.
ALTER TABLE bunkroom_fences ADD COLUMN used_on INTEGER NOT NULL DEFAULT 0;

--bun:split

CREATE INDEX bunkroom_fences_used ON bunkroom_fences (used_on, kind, name);

--bun:split

-- The greatest fence of each kind that was forgotten. Whatever has none begins above it.
CREATE TABLE bunkroom_forgotten (
    kind  INTEGER NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

--bun:split

-- '' = an earlier program has posted last.
ALTER TABLE bunkroom_marks ADD COLUMN payer TEXT NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_marks ADD COLUMN class TEXT NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_marks ADD COLUMN session_id TEXT NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_marks ADD COLUMN project TEXT NOT NULL DEFAULT '';

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 8 AS version;
