-- What was lost with its host leaves no tombstone: there is nothing to destroy,
-- and nobody who could prove it gone. As sandbox.Row.Buried has it.

DROP TRIGGER bunkroom_sandboxes_bury;

--bun:split

CREATE TRIGGER bunkroom_sandboxes_bury AFTER DELETE ON bunkroom_sandboxes FOR EACH ROW WHEN OLD.state <> 'none' AND NOT (OLD.state = 'lost' AND OLD.incarnation = '')
BEGIN
    INSERT INTO bunkroom_outbox (sandbox_id, generation, incarnation, name, provider, host, payer, deployment, not_before, since)
    VALUES (OLD.id, OLD.generation, OLD.incarnation, OLD.name, OLD.provider, OLD.host, OLD.payer, OLD.deployment, OLD.not_before, OLD.since)
    ON CONFLICT DO NOTHING;
END;

--bun:split

-- The machines of a provider that are missing, and those lost lately.
CREATE INDEX bunkroom_sandboxes_missing ON bunkroom_sandboxes (provider) WHERE state = 'live' AND absent_since IS NOT NULL;

--bun:split

CREATE INDEX bunkroom_sandboxes_lost ON bunkroom_sandboxes (provider, since) WHERE state = 'lost' AND incarnation <> '';

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 2 AS version;
