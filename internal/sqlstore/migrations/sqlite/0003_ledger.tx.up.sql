-- The ledger. Amounts are millionths of the host's unit of currency. Who pays
-- is locked by whoever writes, so nothing here refers to anything by a foreign key.

CREATE TABLE bunkroom_accounts (
    payer   TEXT    NOT NULL PRIMARY KEY CHECK (payer <> ''),
    debt    INTEGER NOT NULL CHECK (debt >= 0),
    day     INTEGER NOT NULL, -- of UTC, counted from 1970, that spent is about
    spent   INTEGER NOT NULL CHECK (spent >= 0),
    entries INTEGER NOT NULL CHECK (entries >= 0),
    version INTEGER NOT NULL DEFAULT 1 -- raised by whatever is written about this payer
) STRICT, WITHOUT ROWID;

--bun:split

CREATE TABLE bunkroom_grants (
    id         TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    payer      TEXT    NOT NULL CHECK (payer <> ''),
    amount     INTEGER NOT NULL CHECK (amount > 0),
    source     TEXT    NOT NULL CHECK (source <> ''),
    priority   INTEGER NOT NULL,
    granted_at INTEGER NOT NULL,
    expires_at INTEGER,
    repay      INTEGER NOT NULL,
    remaining  INTEGER NOT NULL CHECK (remaining BETWEEN 0 AND amount),
    used_up    INTEGER NOT NULL GENERATED ALWAYS AS (remaining = 0) STORED -- what indexes go by, for it seldom changes
) STRICT, WITHOUT ROWID;

--bun:split

CREATE INDEX bunkroom_grants_left ON bunkroom_grants (payer, id) WHERE NOT used_up;

--bun:split

CREATE INDEX bunkroom_grants_expiring ON bunkroom_grants (expires_at, id) WHERE NOT used_up AND expires_at IS NOT NULL;

--bun:split

CREATE TABLE bunkroom_holds (
    id         TEXT    NOT NULL PRIMARY KEY CHECK (id <> ''),
    payer      TEXT    NOT NULL CHECK (payer <> ''),
    meter      TEXT    NOT NULL CHECK (meter <> ''),
    class      TEXT    NOT NULL DEFAULT '',
    resource   TEXT    NOT NULL CHECK (resource <> ''),
    session_id TEXT    NOT NULL DEFAULT '', -- '' = of an environment
    project    TEXT    NOT NULL DEFAULT '', -- '' = personal
    estimate   INTEGER NOT NULL CHECK (estimate >= 0),
    state      TEXT    NOT NULL CHECK (state IN ('open', 'settled', 'released', 'expired')),
    opened_at  INTEGER NOT NULL,
    until_at   INTEGER NOT NULL,
    closed_at  INTEGER,
    CHECK ((state = 'open') = (closed_at IS NULL))
) STRICT, WITHOUT ROWID;

--bun:split

-- What an account has reserved. (The next one says the same in other words, so
-- that nobody takes it for this one while a table is new and small.)
CREATE INDEX bunkroom_holds_open ON bunkroom_holds (payer) WHERE state = 'open';

--bun:split

CREATE INDEX bunkroom_holds_expiring ON bunkroom_holds (until_at, id) WHERE closed_at IS NULL;

--bun:split

CREATE INDEX bunkroom_holds_resource ON bunkroom_holds (resource, opened_at, id);

--bun:split

CREATE TABLE bunkroom_marks (
    resource   TEXT    NOT NULL CHECK (resource <> ''),
    meter      TEXT    NOT NULL CHECK (meter <> ''),
    version    INTEGER NOT NULL CHECK (version > 0), -- it moves on by compare-and-set
    through_at INTEGER NOT NULL,
    total      INTEGER NOT NULL CHECK (total >= 0),
    left_n     INTEGER NOT NULL CHECK (left_n >= 0), -- of left_per: the part of a micro that was not charged yet
    left_per   INTEGER NOT NULL CHECK (left_n = 0 OR left_n < left_per),
    closed     INTEGER NOT NULL,
    PRIMARY KEY (resource, meter)
) STRICT, WITHOUT ROWID;

--bun:split

-- Only exported_at is ever changed.
CREATE TABLE bunkroom_entries (
    payer       TEXT    NOT NULL CHECK (payer <> ''),
    n           INTEGER NOT NULL CHECK (n > 0),
    id          TEXT    NOT NULL CHECK (id <> ''),
    kind        TEXT    NOT NULL CHECK (kind IN ('usage', 'grant', 'expiry')),
    amount      INTEGER NOT NULL CHECK (amount >= 0),
    posted_at   INTEGER NOT NULL,
    grant_id    TEXT    NOT NULL DEFAULT '', -- of a grant or an expiry
    meter       TEXT    NOT NULL DEFAULT '', -- and all that follows: of usage
    class       TEXT    NOT NULL DEFAULT '',
    resource    TEXT    NOT NULL DEFAULT '',
    session_id  TEXT    NOT NULL DEFAULT '',
    project     TEXT    NOT NULL DEFAULT '',
    from_at     INTEGER,
    to_at       INTEGER,
    quantity    INTEGER NOT NULL DEFAULT 0 CHECK (quantity >= 0),
    price       INTEGER NOT NULL DEFAULT 0,
    per         INTEGER NOT NULL DEFAULT 0,
    carried_n   INTEGER NOT NULL DEFAULT 0,
    carried_per INTEGER NOT NULL DEFAULT 0,
    exported_at INTEGER,
    PRIMARY KEY (payer, n),
    CHECK ((kind = 'usage') = (from_at IS NOT NULL)),
    CHECK ((kind = 'usage') = (to_at IS NOT NULL)),
    CHECK (kind = 'usage' OR grant_id <> ''),
    CHECK (to_at > from_at)
) STRICT, WITHOUT ROWID;

--bun:split

CREATE UNIQUE INDEX bunkroom_entries_id ON bunkroom_entries (id);

--bun:split

CREATE INDEX bunkroom_entries_unexported ON bunkroom_entries (posted_at, payer, n) WHERE kind = 'usage' AND exported_at IS NULL;

--bun:split

CREATE TABLE bunkroom_postings (
    payer   TEXT    NOT NULL,
    n       INTEGER NOT NULL,     -- of the entry
    place   INTEGER NOT NULL,     -- in the entry
    account TEXT    NOT NULL CHECK (account <> ''),
    amount  INTEGER NOT NULL,
    PRIMARY KEY (payer, n, place)
) STRICT, WITHOUT ROWID;

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 3 AS version;
