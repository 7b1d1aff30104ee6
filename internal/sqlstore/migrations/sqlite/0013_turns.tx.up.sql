-- What a work is for: its conversation, and the fence of the turn that it was opened for; 0 = of
-- no turn, or an earlier program has opened it, which knows of none.
ALTER TABLE bunkroom_leases ADD COLUMN conversation TEXT NOT NULL DEFAULT '';

--bun:split

ALTER TABLE bunkroom_leases ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;

--bun:split

-- The works for the turns of a conversation.
CREATE INDEX bunkroom_leases_turns ON bunkroom_leases (conversation, turn, name, holder) WHERE kind = 1 AND turn > 0;

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 13 AS version;
