-- What of a sandbox's storage was charged for, up to which there is nothing to
-- charge any more, and why the machines in the outbox are there.

ALTER TABLE bunkroom_sandboxes ADD COLUMN stored_charged bigint NOT NULL DEFAULT 0;

--bun:split

-- What is to be charged for, and no more.
DROP INDEX bunkroom_sandboxes_stored;

--bun:split

CREATE INDEX bunkroom_sandboxes_stored ON bunkroom_sandboxes (id) WHERE (state = 'live' AND measured_bytes > 0) OR stored_used > stored_charged;

--bun:split

-- Why a machine is there: 'lost' = its provider did not show it, 'torn down' = that
-- was decided, '' = an earlier program wrote it.
ALTER TABLE bunkroom_outbox ADD COLUMN origin text COLLATE "C" NOT NULL DEFAULT '';

--bun:split

-- As sandbox.Row.Buried has it.
DROP TRIGGER bunkroom_sandboxes_bury ON bunkroom_sandboxes;

--bun:split

DROP FUNCTION bunkroom_bury();

--bun:split

CREATE FUNCTION bunkroom_bury() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $bury$
BEGIN
    EXECUTE format('INSERT INTO %I.bunkroom_outbox
        (sandbox_id, generation, incarnation, name, provider, host, payer, deployment, not_before, since, origin)
        SELECT $1.id, $1.generation, $1.incarnation, $1.name, $1.provider, $1.host, $1.payer, $1.deployment, $1.not_before, $1.since,
            CASE $1.state WHEN ''lost'' THEN ''lost'' ELSE ''torn down'' END
        ON CONFLICT DO NOTHING', TG_TABLE_SCHEMA) USING OLD;
    RETURN NULL;
END
$bury$;

--bun:split

REVOKE EXECUTE ON FUNCTION bunkroom_bury() FROM PUBLIC;

--bun:split

CREATE TRIGGER bunkroom_sandboxes_bury AFTER DELETE ON bunkroom_sandboxes FOR EACH ROW WHEN (OLD.state <> 'none' AND NOT (OLD.state = 'lost' AND OLD.incarnation = '')) EXECUTE FUNCTION bunkroom_bury();

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 6 AS version;
