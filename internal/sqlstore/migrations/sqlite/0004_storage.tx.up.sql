-- What a sandbox's disks have held over time, in KiB-seconds, up to a moment.

ALTER TABLE bunkroom_sandboxes ADD COLUMN stored_used INTEGER NOT NULL DEFAULT 0;

--bun:split

ALTER TABLE bunkroom_sandboxes ADD COLUMN stored_at INTEGER;

--bun:split

-- What is to be charged for.
CREATE INDEX bunkroom_sandboxes_stored ON bunkroom_sandboxes (id) WHERE measured_bytes > 0 OR stored_used > 0;

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 4 AS version;
