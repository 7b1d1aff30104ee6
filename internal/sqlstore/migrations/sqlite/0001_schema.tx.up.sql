-- The schema. "bunkroom_" stands for the table prefix. DDL only; statements are
-- separated by the line that bun/migrate splits at. Moments are UTC, in whole
-- microseconds; NULL is "not set".

CREATE TABLE bunkroom_environments (
    id         TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    version    INTEGER NOT NULL CHECK (version > 0),
    project    TEXT    NOT NULL CHECK (project <> ''),
    created_by TEXT    NOT NULL DEFAULT '',
    name       TEXT    NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    deleted_at INTEGER,      -- the row stays while a session borrows it
    UNIQUE (id, project)     -- what sessions refer to
) STRICT, WITHOUT ROWID;

--bun:split

-- The list of a project, without deleted ones.
CREATE INDEX bunkroom_environments_open ON bunkroom_environments (project, deleted_at, created_at, id);

--bun:split

-- All of a project, to be purged.
CREATE INDEX bunkroom_environments_project ON bunkroom_environments (project, id);

--bun:split

CREATE TABLE bunkroom_sessions (
    id             TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    version        INTEGER NOT NULL CHECK (version > 0),
    project        TEXT    NOT NULL DEFAULT '', -- '' = personal
    owner          TEXT    NOT NULL,
    name           TEXT    NOT NULL DEFAULT '',
    environment_id TEXT,                        -- NULL = a sandbox of its own
    created_at     INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL,
    ended_at       INTEGER,
    UNIQUE (id, project),                       -- what conversations refer to
    -- What it borrows is for good: it is neither unset nor deleted under it.
    FOREIGN KEY (environment_id, project) REFERENCES bunkroom_environments (id, project),
    CHECK (environment_id IS NULL OR project <> '')
) STRICT, WITHOUT ROWID;

--bun:split

-- Lists of an owner or a project, of what is open or of all; the count of what
-- an owner has open. (Partial indexes would be smaller, but without statistics SQLite prefers the whole ones to them.)
CREATE INDEX bunkroom_sessions_open_owner ON bunkroom_sessions (owner, ended_at, project, last_active_at, id);

--bun:split

CREATE INDEX bunkroom_sessions_open_project ON bunkroom_sessions (project, ended_at, last_active_at, id) WHERE project <> '';

--bun:split

CREATE INDEX bunkroom_sessions_owner ON bunkroom_sessions (owner, project, last_active_at, id);

--bun:split

CREATE INDEX bunkroom_sessions_project ON bunkroom_sessions (project, last_active_at, id) WHERE project <> '';

--bun:split

-- Who borrows an environment.
CREATE INDEX bunkroom_sessions_environment ON bunkroom_sessions (environment_id) WHERE environment_id IS NOT NULL;

--bun:split

CREATE TABLE bunkroom_conversations (
    id              TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    session_id      TEXT,                        -- NULL = bound to none
    session_project TEXT,                        -- its session's project, only to refer to it
    project         TEXT    NOT NULL DEFAULT '', -- kept when the session is deleted
    owner           TEXT    NOT NULL,
    agent           TEXT    NOT NULL DEFAULT '', -- '' = the assistant
    title           TEXT    NOT NULL DEFAULT '',
    shared          INTEGER NOT NULL DEFAULT 0 CHECK (shared IN (0, 1)),
    created_at      INTEGER NOT NULL,
    last_active_at  INTEGER NOT NULL,
    closed_at       INTEGER,
    FOREIGN KEY (session_id, session_project) REFERENCES bunkroom_sessions (id, project) ON DELETE SET NULL,
    CHECK ((session_id IS NULL) = (session_project IS NULL)),
    CHECK (session_project IS NULL OR session_project = project)
) STRICT, WITHOUT ROWID;

--bun:split

-- The newest of a session's open conversations and their count, and what a session's deletion unbinds.
CREATE INDEX bunkroom_conversations_session ON bunkroom_conversations (session_id, closed_at, last_active_at DESC, id DESC) WHERE session_id IS NOT NULL;

--bun:split

-- All of a project, and all of an owner, to be purged.
CREATE INDEX bunkroom_conversations_project ON bunkroom_conversations (project, id) WHERE project <> '';

--bun:split

CREATE INDEX bunkroom_conversations_owner ON bunkroom_conversations (owner, id);

--bun:split

CREATE TABLE bunkroom_sandboxes (
    id                   TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    version              INTEGER NOT NULL CHECK (version > 0),
    session_id           TEXT    UNIQUE REFERENCES bunkroom_sessions (id) ON DELETE CASCADE,
    environment_id       TEXT    UNIQUE REFERENCES bunkroom_environments (id) ON DELETE CASCADE,
    provider             TEXT    NOT NULL DEFAULT '',
    sandbox_key          TEXT    NOT NULL DEFAULT '',
    payer                TEXT    NOT NULL DEFAULT '',
    deployment           TEXT    NOT NULL DEFAULT '',
    spec                 TEXT    NOT NULL DEFAULT '{}', -- JSON
    state                TEXT    NOT NULL CHECK (state IN ('none', 'creating', 'live', 'lost', 'destroying')),
    generation           INTEGER NOT NULL DEFAULT 0,
    name                 TEXT    NOT NULL DEFAULT '',
    incarnation          TEXT    NOT NULL DEFAULT '',
    host                 TEXT    NOT NULL DEFAULT '',
    nonce                TEXT    NOT NULL DEFAULT '',
    deadline             INTEGER,
    max_deadline         INTEGER,
    not_before           INTEGER,
    absent_since         INTEGER,
    attempts             INTEGER NOT NULL DEFAULT 0,
    live_at              INTEGER,
    destroyed_at         INTEGER,
    measured_bytes       INTEGER NOT NULL DEFAULT 0,
    measured_at          INTEGER,
    measured_incarnation TEXT    NOT NULL DEFAULT '',
    since                INTEGER NOT NULL, -- when it was last written or looked at: what has waited longest is due first
    CHECK ((session_id IS NULL) <> (environment_id IS NULL)) -- exactly one of both
) STRICT;

--bun:split

CREATE INDEX bunkroom_sandboxes_creating ON bunkroom_sandboxes (since, version, id) WHERE state = 'creating';

--bun:split

CREATE INDEX bunkroom_sandboxes_live ON bunkroom_sandboxes (since, version, id) WHERE state = 'live';

--bun:split

CREATE INDEX bunkroom_sandboxes_destroying ON bunkroom_sandboxes (since, version, id) WHERE state = 'destroying';

--bun:split

-- The machines that count against a payer's limit.
CREATE INDEX bunkroom_sandboxes_machines ON bunkroom_sandboxes (payer) WHERE state IN ('creating', 'live', 'destroying');

--bun:split

-- Machines to destroy. No foreign keys: what is here outlives the row it came from.
CREATE TABLE bunkroom_outbox (
    sandbox_id   TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    incarnation  TEXT    NOT NULL DEFAULT '', -- '' = all of the generation but the row's own
    name         TEXT    NOT NULL,
    provider     TEXT    NOT NULL,
    host         TEXT    NOT NULL DEFAULT '',
    payer        TEXT    NOT NULL,
    deployment   TEXT    NOT NULL,
    not_before   INTEGER,
    absent_since INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,
    last_error   TEXT    NOT NULL DEFAULT '',
    since        INTEGER NOT NULL, -- as of a sandbox
    PRIMARY KEY (sandbox_id, generation, incarnation)
) STRICT, WITHOUT ROWID;

--bun:split

CREATE INDEX bunkroom_outbox_due ON bunkroom_outbox (since, attempts, sandbox_id, generation, incarnation);

--bun:split

CREATE INDEX bunkroom_outbox_payer ON bunkroom_outbox (payer);

--bun:split

-- A deleted sandbox leaves its machine in the outbox, whoever deletes it and
-- however, as sandbox.Row.Buried has it. (REPLACE would skip this.)
CREATE TRIGGER bunkroom_sandboxes_bury AFTER DELETE ON bunkroom_sandboxes FOR EACH ROW WHEN OLD.state <> 'none'
BEGIN
    INSERT INTO bunkroom_outbox (sandbox_id, generation, incarnation, name, provider, host, payer, deployment, not_before, since)
    VALUES (OLD.id, OLD.generation, OLD.incarnation, OLD.name, OLD.provider, OLD.host, OLD.payer, OLD.deployment, OLD.not_before, OLD.since)
    ON CONFLICT DO NOTHING;
END;

--bun:split

-- Kind 1 is work: many holders of one name, which together hold one slot of
-- the payer. Every other kind has one holder.
CREATE TABLE bunkroom_leases (
    kind       INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    holder     TEXT    NOT NULL,
    replica    TEXT    NOT NULL DEFAULT '',
    payer      TEXT    NOT NULL DEFAULT '',
    sandbox_id TEXT    NOT NULL DEFAULT '', -- of work: where
    fence      INTEGER NOT NULL,
    until_at   INTEGER NOT NULL,
    PRIMARY KEY (kind, name, holder)
) STRICT, WITHOUT ROWID;

--bun:split

CREATE UNIQUE INDEX bunkroom_leases_single ON bunkroom_leases (kind, name) WHERE kind <> 1;

--bun:split

CREATE INDEX bunkroom_leases_slots ON bunkroom_leases (payer, name) WHERE kind = 1;

--bun:split

-- The works in a sandbox.
CREATE INDEX bunkroom_leases_sandbox ON bunkroom_leases (sandbox_id) WHERE kind = 1;

--bun:split

CREATE INDEX bunkroom_leases_expiry ON bunkroom_leases (kind, until_at, name, holder);

--bun:split

-- The latest fence of each kind and name. It outlives the leases.
CREATE TABLE bunkroom_fences (
    kind  INTEGER NOT NULL,
    name  TEXT    NOT NULL,
    fence INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

--bun:split

CREATE TABLE bunkroom_mounts (
    id         TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    scope      TEXT    NOT NULL CHECK (scope <> ''),
    slug       TEXT    NOT NULL CHECK (slug <> ''),
    kind       INTEGER NOT NULL,
    agent      TEXT    NOT NULL DEFAULT '',
    name       TEXT    NOT NULL DEFAULT '',
    created_by TEXT    NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (scope, slug)
) STRICT, WITHOUT ROWID;

--bun:split

-- The version of the schema, as DDL: every migration ends by making this anew.
CREATE VIEW bunkroom_schema AS SELECT 1 AS version;
