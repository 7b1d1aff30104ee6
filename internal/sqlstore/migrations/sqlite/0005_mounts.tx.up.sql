-- Mounts of sessions and mounts made by hand, the archive, and what of deleted
-- ones is still to be removed.

ALTER TABLE bunkroom_mounts ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0);

--bun:split

ALTER TABLE bunkroom_mounts ADD COLUMN purpose TEXT NOT NULL DEFAULT ''; -- '' = the users' own

--bun:split

ALTER TABLE bunkroom_mounts ADD COLUMN session_id TEXT NOT NULL DEFAULT ''; -- refers to nothing: a mount outlives the row of its session until it is purged

--bun:split

ALTER TABLE bunkroom_mounts ADD COLUMN description TEXT NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_mounts ADD COLUMN meta TEXT NOT NULL DEFAULT ''; -- JSON of the host's own

--bun:split

ALTER TABLE bunkroom_mounts ADD COLUMN updated_by TEXT NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_mounts ADD COLUMN archived_by TEXT NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_mounts ADD COLUMN archived_at INTEGER;

--bun:split

-- Lists, without what is protected.
CREATE INDEX bunkroom_mounts_listed ON bunkroom_mounts (scope, created_at, id) WHERE purpose = '';

--bun:split

-- Those of a session: listed, or all to be deleted.
CREATE INDEX bunkroom_mounts_session ON bunkroom_mounts (session_id, scope, created_at, id) WHERE session_id <> '';

--bun:split

CREATE INDEX bunkroom_mounts_agent ON bunkroom_mounts (agent, scope, created_at, id) WHERE agent <> '';

--bun:split

CREATE INDEX bunkroom_mounts_archived ON bunkroom_mounts (archived_at, id) WHERE archived_at IS NOT NULL;

--bun:split

-- What deleted mounts have left: their files, until they are removed.
CREATE TABLE bunkroom_mount_tombstones (
    id         TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
    scope      TEXT NOT NULL,
    session_id TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

--bun:split

CREATE INDEX bunkroom_mount_tombstones_scope ON bunkroom_mount_tombstones (scope, id);

--bun:split

CREATE INDEX bunkroom_mount_tombstones_session ON bunkroom_mount_tombstones (session_id, id) WHERE session_id <> '';

--bun:split

-- Whoever deletes a mount, and however.
CREATE TRIGGER bunkroom_mounts_bury AFTER DELETE ON bunkroom_mounts FOR EACH ROW
BEGIN
    INSERT INTO bunkroom_mount_tombstones (id, scope, session_id) VALUES (OLD.id, OLD.scope, OLD.session_id) ON CONFLICT DO NOTHING;
END;

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 5 AS version;
