-- Fences that nobody has used for long are forgotten, and none goes back for it.
-- Whose use was posted last is known by the watermark.

-- The day on which it was handed out last, in days since 1970; 0 = an earlier program did, and
-- it counts from when that is seen. Of a day, so that what is handed out again and again moves in no index.
ALTER TABLE bunkroom_fences ADD COLUMN used_on bigint NOT NULL DEFAULT 0;

--bun:split

CREATE INDEX bunkroom_fences_used ON bunkroom_fences (used_on, kind, name);

--bun:split

-- The greatest fence of each kind that was forgotten. Whatever has none begins above it.
CREATE TABLE bunkroom_forgotten (
    kind  bigint NOT NULL PRIMARY KEY,
    fence bigint NOT NULL
);

--bun:split

-- '' = an earlier program has posted last.
ALTER TABLE bunkroom_marks ADD COLUMN payer text COLLATE "C" NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_marks ADD COLUMN class text COLLATE "C" NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_marks ADD COLUMN session_id text COLLATE "C" NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_marks ADD COLUMN project text COLLATE "C" NOT NULL DEFAULT '';

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 8 AS version;
