-- When it happened, by which it is forgotten some day; what was written before this step is as old as can be.
ALTER TABLE bunkroom_transcript_facts ADD COLUMN created_at INTEGER NOT NULL DEFAULT 0;

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 12 AS version;
