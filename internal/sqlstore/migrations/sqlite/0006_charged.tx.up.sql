-- What of a sandbox's storage was charged for, up to which there is nothing to
-- charge any more, and why the machines in the outbox are there.

ALTER TABLE bunkroom_sandboxes ADD COLUMN stored_charged INTEGER NOT NULL DEFAULT 0;

--bun:split

-- What is to be charged for, and no more.
DROP INDEX bunkroom_sandboxes_stored;

--bun:split

CREATE INDEX bunkroom_sandboxes_stored ON bunkroom_sandboxes (id) WHERE (state = 'live' AND measured_bytes > 0) OR stored_used > stored_charged;

--bun:split

-- Why a machine is there: 'lost' = its provider did not show it, 'torn down' = that
-- was decided, '' = an earlier program wrote it.
ALTER TABLE bunkroom_outbox ADD COLUMN origin TEXT NOT NULL DEFAULT '';

--bun:split

-- As sandbox.Row.Buried has it.
DROP TRIGGER bunkroom_sandboxes_bury;

--bun:split

CREATE TRIGGER bunkroom_sandboxes_bury AFTER DELETE ON bunkroom_sandboxes FOR EACH ROW WHEN OLD.state <> 'none' AND NOT (OLD.state = 'lost' AND OLD.incarnation = '')
BEGIN
    INSERT INTO bunkroom_outbox (sandbox_id, generation, incarnation, name, provider, host, payer, deployment, not_before, since, origin)
    VALUES (OLD.id, OLD.generation, OLD.incarnation, OLD.name, OLD.provider, OLD.host, OLD.payer, OLD.deployment, OLD.not_before, OLD.since,
        CASE OLD.state WHEN 'lost' THEN 'lost' ELSE 'torn down' END)
    ON CONFLICT DO NOTHING;
END;

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 6 AS version;
