-- Mounts of sessions and mounts made by hand, the archive, and what of deleted
-- ones is still to be removed.

ALTER TABLE bunkroom_mounts
    ADD COLUMN version     bigint NOT NULL DEFAULT 1 CHECK (version > 0),
    ADD COLUMN purpose     text   COLLATE "C" NOT NULL DEFAULT '', -- '' = the users' own
    ADD COLUMN session_id  text   COLLATE "C" NOT NULL DEFAULT '', -- refers to nothing: a mount outlives the row of its session until it is purged
    ADD COLUMN description text   COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN meta        text   COLLATE "C" NOT NULL DEFAULT '', -- JSON of the host's own
    ADD COLUMN updated_by  text   COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN archived_by text   COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN archived_at bigint;

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
    id         text COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
    scope      text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL DEFAULT ''
);

--bun:split

CREATE INDEX bunkroom_mount_tombstones_scope ON bunkroom_mount_tombstones (scope, id);

--bun:split

CREATE INDEX bunkroom_mount_tombstones_session ON bunkroom_mount_tombstones (session_id, id) WHERE session_id <> '';

--bun:split

-- Whoever deletes a mount, and however, also one who may not write to the
-- tombstones; and nobody puts this on a table of their own.
CREATE FUNCTION bunkroom_bury_mount() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $bury$
BEGIN
    EXECUTE format('INSERT INTO %I.bunkroom_mount_tombstones (id, scope, session_id)
        SELECT $1.id, $1.scope, $1.session_id ON CONFLICT DO NOTHING', TG_TABLE_SCHEMA) USING OLD;
    RETURN NULL;
END
$bury$;

--bun:split

REVOKE EXECUTE ON FUNCTION bunkroom_bury_mount() FROM PUBLIC;

--bun:split

CREATE TRIGGER bunkroom_mounts_bury AFTER DELETE ON bunkroom_mounts FOR EACH ROW EXECUTE FUNCTION bunkroom_bury_mount();

--bun:split

-- To empty either table at one stroke would leave files that nobody knows of.
CREATE FUNCTION bunkroom_keep_mounts() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $keep$
BEGIN
    RAISE EXCEPTION '% must not be truncated: it tells of files that would be forgotten', TG_TABLE_NAME;
END
$keep$;

--bun:split

CREATE TRIGGER bunkroom_mounts_keep BEFORE TRUNCATE ON bunkroom_mounts FOR EACH STATEMENT EXECUTE FUNCTION bunkroom_keep_mounts();

--bun:split

CREATE TRIGGER bunkroom_mount_tombstones_keep BEFORE TRUNCATE ON bunkroom_mount_tombstones FOR EACH STATEMENT EXECUTE FUNCTION bunkroom_keep_mounts();

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 5 AS version;
