-- What was lost with its host leaves no tombstone: there is nothing to destroy,
-- and nobody who could prove it gone. As sandbox.Row.Buried has it.

DROP TRIGGER bunkroom_sandboxes_bury ON bunkroom_sandboxes;

--bun:split

CREATE TRIGGER bunkroom_sandboxes_bury AFTER DELETE ON bunkroom_sandboxes FOR EACH ROW WHEN (OLD.state <> 'none' AND NOT (OLD.state = 'lost' AND OLD.incarnation = '')) EXECUTE FUNCTION bunkroom_bury();

--bun:split

-- It buries for whoever deletes, also for one who may not write to the outbox.
-- So nobody else may put it on a table of theirs, where it would write with its owner's rights.
ALTER FUNCTION bunkroom_bury() SECURITY DEFINER;

--bun:split

REVOKE EXECUTE ON FUNCTION bunkroom_bury() FROM PUBLIC;

--bun:split

-- To empty the outbox at one stroke would leave machines that nobody knows of, too.
CREATE FUNCTION bunkroom_keep_outbox() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $keep$
BEGIN
    RAISE EXCEPTION '% must not be truncated: it tells of machines that are still to be destroyed', TG_TABLE_NAME;
END
$keep$;

--bun:split

CREATE TRIGGER bunkroom_outbox_keep BEFORE TRUNCATE ON bunkroom_outbox FOR EACH STATEMENT EXECUTE FUNCTION bunkroom_keep_outbox();

--bun:split

-- The machines of a provider that are missing, and those lost lately.
CREATE INDEX bunkroom_sandboxes_missing ON bunkroom_sandboxes (provider) WHERE state = 'live' AND absent_since IS NOT NULL;

--bun:split

CREATE INDEX bunkroom_sandboxes_lost ON bunkroom_sandboxes (provider, since) WHERE state = 'lost' AND incarnation <> '';

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 2 AS version;
