-- What an account holds is summed up from the index alone: what is open and
-- has not expired yet.
DROP INDEX bunkroom_holds_open;

--bun:split

CREATE INDEX bunkroom_holds_open ON bunkroom_holds (payer, until_at, estimate) WHERE state = 'open';

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 9 AS version;
