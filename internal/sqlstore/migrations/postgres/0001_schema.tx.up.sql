-- The schema. "bunkroom_" stands for the table prefix. DDL only; statements are
-- separated by the line that bun/migrate splits at. Moments are UTC, in whole
-- microseconds; NULL is "not set". Text is compared byte by byte, whatever the
-- database's collation.

CREATE TABLE bunkroom_environments (
    id         text   COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
    version    bigint NOT NULL CHECK (version > 0),
    project    text   COLLATE "C" NOT NULL CHECK (project <> ''),
    created_by text   COLLATE "C" NOT NULL DEFAULT '',
    name       text   COLLATE "C" NOT NULL DEFAULT '',
    created_at bigint NOT NULL,
    deleted_at bigint,       -- the row stays while a session borrows it
    UNIQUE (id, project)     -- what sessions refer to
);

--bun:split

-- The list of a project, without deleted ones.
CREATE INDEX bunkroom_environments_open ON bunkroom_environments (project, created_at, id) WHERE deleted_at IS NULL;

--bun:split

-- All of a project, to be purged.
CREATE INDEX bunkroom_environments_project ON bunkroom_environments (project, id);

--bun:split

CREATE TABLE bunkroom_sessions (
    id             text   COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
    version        bigint NOT NULL CHECK (version > 0),
    project        text   COLLATE "C" NOT NULL DEFAULT '', -- '' = personal
    owner          text   COLLATE "C" NOT NULL,
    name           text   COLLATE "C" NOT NULL DEFAULT '',
    environment_id text   COLLATE "C",                     -- NULL = a sandbox of its own
    created_at     bigint NOT NULL,
    last_active_at bigint NOT NULL,
    ended_at       bigint,
    UNIQUE (id, project),                                  -- what conversations refer to
    -- What it borrows is for good: it is neither unset nor deleted under it.
    FOREIGN KEY (environment_id, project) REFERENCES bunkroom_environments (id, project),
    CHECK (environment_id IS NULL OR project <> '')
);

--bun:split

-- Lists of an owner or a project, of what is open or of all; the count of what an owner has open.
CREATE INDEX bunkroom_sessions_open_owner ON bunkroom_sessions (owner, project, last_active_at, id) WHERE ended_at IS NULL;

--bun:split

CREATE INDEX bunkroom_sessions_open_project ON bunkroom_sessions (project, last_active_at, id) WHERE ended_at IS NULL AND project <> '';

--bun:split

CREATE INDEX bunkroom_sessions_owner ON bunkroom_sessions (owner, project, last_active_at, id);

--bun:split

CREATE INDEX bunkroom_sessions_project ON bunkroom_sessions (project, last_active_at, id) WHERE project <> '';

--bun:split

-- Who borrows an environment.
CREATE INDEX bunkroom_sessions_environment ON bunkroom_sessions (environment_id) WHERE environment_id IS NOT NULL;

--bun:split

CREATE TABLE bunkroom_conversations (
    id              text    COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
    session_id      text    COLLATE "C",                     -- NULL = bound to none
    session_project text    COLLATE "C",                     -- its session's project, only to refer to it
    project         text    COLLATE "C" NOT NULL DEFAULT '', -- kept when the session is deleted
    owner           text    COLLATE "C" NOT NULL,
    agent           text    COLLATE "C" NOT NULL DEFAULT '', -- '' = the assistant
    title           text    COLLATE "C" NOT NULL DEFAULT '',
    shared          boolean NOT NULL DEFAULT false,
    created_at      bigint  NOT NULL,
    last_active_at  bigint  NOT NULL,
    closed_at       bigint,
    FOREIGN KEY (session_id, session_project) REFERENCES bunkroom_sessions (id, project) ON DELETE SET NULL,
    CHECK ((session_id IS NULL) = (session_project IS NULL)),
    CHECK (session_project IS NULL OR session_project = project)
);

--bun:split

-- What a session's deletion unbinds.
CREATE INDEX bunkroom_conversations_session ON bunkroom_conversations (session_id) WHERE session_id IS NOT NULL;

--bun:split

-- The newest of a session's open conversations and their count.
CREATE INDEX bunkroom_conversations_open ON bunkroom_conversations (session_id, last_active_at DESC, id DESC) WHERE session_id IS NOT NULL AND closed_at IS NULL;

--bun:split

-- All of a project, and all of an owner, to be purged.
CREATE INDEX bunkroom_conversations_project ON bunkroom_conversations (project, id) WHERE project <> '';

--bun:split

CREATE INDEX bunkroom_conversations_owner ON bunkroom_conversations (owner, id);

--bun:split

CREATE TABLE bunkroom_sandboxes (
    id                   text   COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
    version              bigint NOT NULL CHECK (version > 0),
    session_id           text   COLLATE "C" UNIQUE REFERENCES bunkroom_sessions (id) ON DELETE CASCADE,
    environment_id       text   COLLATE "C" UNIQUE REFERENCES bunkroom_environments (id) ON DELETE CASCADE,
    provider             text   COLLATE "C" NOT NULL DEFAULT '',
    sandbox_key          text   COLLATE "C" NOT NULL DEFAULT '',
    payer                text   COLLATE "C" NOT NULL DEFAULT '',
    deployment           text   COLLATE "C" NOT NULL DEFAULT '',
    spec                 text   COLLATE "C" NOT NULL DEFAULT '{}', -- JSON
    state                text   COLLATE "C" NOT NULL CHECK (state IN ('none', 'creating', 'live', 'lost', 'destroying')),
    generation           bigint NOT NULL DEFAULT 0,
    name                 text   COLLATE "C" NOT NULL DEFAULT '',
    incarnation          text   COLLATE "C" NOT NULL DEFAULT '',
    host                 text   COLLATE "C" NOT NULL DEFAULT '',
    nonce                text   COLLATE "C" NOT NULL DEFAULT '',
    deadline             bigint,
    max_deadline         bigint,
    not_before           bigint,
    absent_since         bigint,
    attempts             bigint NOT NULL DEFAULT 0,
    live_at              bigint,
    destroyed_at         bigint,
    measured_bytes       bigint NOT NULL DEFAULT 0,
    measured_at          bigint,
    measured_incarnation text   COLLATE "C" NOT NULL DEFAULT '',
    since                bigint NOT NULL, -- when it was last written or looked at: what has waited longest is due first
    CHECK ((session_id IS NULL) <> (environment_id IS NULL)) -- exactly one of both
);

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
    sandbox_id   text   COLLATE "C" NOT NULL,
    generation   bigint NOT NULL,
    incarnation  text   COLLATE "C" NOT NULL DEFAULT '', -- '' = all of the generation but the row's own
    name         text   COLLATE "C" NOT NULL,
    provider     text   COLLATE "C" NOT NULL,
    host         text   COLLATE "C" NOT NULL DEFAULT '',
    payer        text   COLLATE "C" NOT NULL,
    deployment   text   COLLATE "C" NOT NULL,
    not_before   bigint,
    absent_since bigint,
    attempts     bigint NOT NULL DEFAULT 0,
    last_error   text   COLLATE "C" NOT NULL DEFAULT '',
    since        bigint NOT NULL, -- as of a sandbox
    PRIMARY KEY (sandbox_id, generation, incarnation)
);

--bun:split

CREATE INDEX bunkroom_outbox_due ON bunkroom_outbox (since, attempts, sandbox_id, generation, incarnation);

--bun:split

CREATE INDEX bunkroom_outbox_payer ON bunkroom_outbox (payer);

--bun:split

-- A deleted sandbox leaves its machine in the outbox of the same schema,
-- whoever deletes it, however, and whatever is on their search path.
CREATE FUNCTION bunkroom_bury() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $bury$
BEGIN
    EXECUTE format('INSERT INTO %I.bunkroom_outbox
        (sandbox_id, generation, incarnation, name, provider, host, payer, deployment, not_before, since)
        SELECT $1.id, $1.generation, $1.incarnation, $1.name, $1.provider, $1.host, $1.payer, $1.deployment, $1.not_before, $1.since
        ON CONFLICT DO NOTHING', TG_TABLE_SCHEMA) USING OLD;
    RETURN NULL;
END
$bury$;

--bun:split

-- As sandbox.Row.Buried has it.
CREATE TRIGGER bunkroom_sandboxes_bury AFTER DELETE ON bunkroom_sandboxes FOR EACH ROW WHEN (OLD.state <> 'none') EXECUTE FUNCTION bunkroom_bury();

--bun:split

-- To empty the table at one stroke would skip that, and leave machines that nobody knows of.
CREATE FUNCTION bunkroom_keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $keep$
BEGIN
    RAISE EXCEPTION '% must not be truncated: delete its rows, so that their machines go to the outbox', TG_TABLE_NAME;
END
$keep$;

--bun:split

CREATE TRIGGER bunkroom_sandboxes_keep BEFORE TRUNCATE ON bunkroom_sandboxes FOR EACH STATEMENT EXECUTE FUNCTION bunkroom_keep();

--bun:split

-- Kind 1 is work: many holders of one name, which together hold one slot of
-- the payer. Every other kind has one holder.
CREATE TABLE bunkroom_leases (
    kind       bigint NOT NULL,
    name       text   COLLATE "C" NOT NULL,
    holder     text   COLLATE "C" NOT NULL,
    replica    text   COLLATE "C" NOT NULL DEFAULT '',
    payer      text   COLLATE "C" NOT NULL DEFAULT '',
    sandbox_id text   COLLATE "C" NOT NULL DEFAULT '', -- of work: where
    fence      bigint NOT NULL,
    until_at   bigint NOT NULL,
    PRIMARY KEY (kind, name, holder)
);

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
    kind  bigint NOT NULL,
    name  text   COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

--bun:split

CREATE TABLE bunkroom_mounts (
    id         text   COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
    scope      text   COLLATE "C" NOT NULL CHECK (scope <> ''),
    slug       text   COLLATE "C" NOT NULL CHECK (slug <> ''),
    kind       bigint NOT NULL,
    agent      text   COLLATE "C" NOT NULL DEFAULT '',
    name       text   COLLATE "C" NOT NULL DEFAULT '',
    created_by text   COLLATE "C" NOT NULL DEFAULT '',
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    UNIQUE (scope, slug)
);

--bun:split

-- The version of the schema, as DDL: every migration ends by making this anew.
CREATE VIEW bunkroom_schema AS SELECT 1 AS version;
