-- Whether a session's working directory is a folder of its own that outlives its machines.

ALTER TABLE bunkroom_sessions ADD COLUMN durable_workdir INTEGER NOT NULL DEFAULT 0 CHECK (durable_workdir IN (0, 1));

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 7 AS version;
