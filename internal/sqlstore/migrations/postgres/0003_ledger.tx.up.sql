-- The ledger. Amounts are millionths of the host's unit of currency. Who pays
-- is locked by whoever writes, so nothing here refers to anything by a foreign key.

-- Rows that are updated where they lie have room beside them.
CREATE TABLE bunkroom_accounts (
    payer   text   COLLATE "C" NOT NULL PRIMARY KEY CHECK (payer <> ''),
    debt    bigint NOT NULL CHECK (debt >= 0),
    day     bigint NOT NULL, -- of UTC, counted from 1970, that spent is about
    spent   bigint NOT NULL CHECK (spent >= 0),
    entries bigint NOT NULL CHECK (entries >= 0),
    version bigint NOT NULL DEFAULT 1 -- raised by whatever is written about this payer
) WITH (fillfactor = 70);

--bun:split

CREATE TABLE bunkroom_grants (
    id         text    COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
    payer      text    COLLATE "C" NOT NULL CHECK (payer <> ''),
    amount     bigint  NOT NULL CHECK (amount > 0),
    source     text    COLLATE "C" NOT NULL CHECK (source <> ''),
    priority   bigint  NOT NULL,
    granted_at bigint  NOT NULL,
    expires_at bigint,
    repay      boolean NOT NULL,
    remaining  bigint  NOT NULL CHECK (remaining BETWEEN 0 AND amount),
    used_up    boolean NOT NULL GENERATED ALWAYS AS (remaining = 0) STORED -- what indexes go by, for it seldom changes
) WITH (fillfactor = 70);

--bun:split

CREATE INDEX bunkroom_grants_left ON bunkroom_grants (payer, id) WHERE NOT used_up;

--bun:split

CREATE INDEX bunkroom_grants_expiring ON bunkroom_grants (expires_at, id) WHERE NOT used_up AND expires_at IS NOT NULL;

--bun:split

CREATE TABLE bunkroom_holds (
    id         text   COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
    payer      text   COLLATE "C" NOT NULL CHECK (payer <> ''),
    meter      text   COLLATE "C" NOT NULL CHECK (meter <> ''),
    class      text   COLLATE "C" NOT NULL DEFAULT '',
    resource   text   COLLATE "C" NOT NULL CHECK (resource <> ''),
    session_id text   COLLATE "C" NOT NULL DEFAULT '', -- '' = of an environment
    project    text   COLLATE "C" NOT NULL DEFAULT '', -- '' = personal
    estimate   bigint NOT NULL CHECK (estimate >= 0),
    state      text   COLLATE "C" NOT NULL CHECK (state IN ('open', 'settled', 'released', 'expired')),
    opened_at  bigint NOT NULL,
    until_at   bigint NOT NULL,
    closed_at  bigint,
    CHECK ((state = 'open') = (closed_at IS NULL))
) WITH (fillfactor = 70);

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
    resource   text    COLLATE "C" NOT NULL CHECK (resource <> ''),
    meter      text    COLLATE "C" NOT NULL CHECK (meter <> ''),
    version    bigint  NOT NULL CHECK (version > 0), -- it moves on by compare-and-set
    through_at bigint  NOT NULL,
    total      bigint  NOT NULL CHECK (total >= 0),
    left_n     bigint  NOT NULL CHECK (left_n >= 0), -- of left_per: the part of a micro that was not charged yet
    left_per   bigint  NOT NULL CHECK (left_n = 0 OR left_n < left_per),
    closed     boolean NOT NULL,
    PRIMARY KEY (resource, meter)
) WITH (fillfactor = 70);

--bun:split

-- Only exported_at is ever changed.
CREATE TABLE bunkroom_entries (
    payer       text   COLLATE "C" NOT NULL CHECK (payer <> ''),
    n           bigint NOT NULL CHECK (n > 0),
    id          text   COLLATE "C" NOT NULL CHECK (id <> ''),
    kind        text   COLLATE "C" NOT NULL CHECK (kind IN ('usage', 'grant', 'expiry')),
    amount      bigint NOT NULL CHECK (amount >= 0),
    posted_at   bigint NOT NULL,
    grant_id    text   COLLATE "C" NOT NULL DEFAULT '', -- of a grant or an expiry
    meter       text   COLLATE "C" NOT NULL DEFAULT '', -- and all that follows: of usage
    class       text   COLLATE "C" NOT NULL DEFAULT '',
    resource    text   COLLATE "C" NOT NULL DEFAULT '',
    session_id  text   COLLATE "C" NOT NULL DEFAULT '',
    project     text   COLLATE "C" NOT NULL DEFAULT '',
    from_at     bigint,
    to_at       bigint,
    quantity    bigint NOT NULL DEFAULT 0 CHECK (quantity >= 0),
    price       bigint NOT NULL DEFAULT 0,
    per         bigint NOT NULL DEFAULT 0,
    carried_n   bigint NOT NULL DEFAULT 0,
    carried_per bigint NOT NULL DEFAULT 0,
    exported_at bigint,
    PRIMARY KEY (payer, n),
    CHECK ((kind = 'usage') = (from_at IS NOT NULL)),
    CHECK ((kind = 'usage') = (to_at IS NOT NULL)),
    CHECK (kind = 'usage' OR grant_id <> ''),
    CHECK (to_at > from_at)
);

--bun:split

CREATE UNIQUE INDEX bunkroom_entries_id ON bunkroom_entries (id);

--bun:split

CREATE INDEX bunkroom_entries_unexported ON bunkroom_entries (posted_at, payer, n) WHERE kind = 'usage' AND exported_at IS NULL;

--bun:split

CREATE TABLE bunkroom_postings (
    payer   text   COLLATE "C" NOT NULL,
    n       bigint NOT NULL,     -- of the entry
    place   bigint NOT NULL,     -- in the entry
    account text   COLLATE "C" NOT NULL CHECK (account <> ''),
    amount  bigint NOT NULL,
    PRIMARY KEY (payer, n, place)
);

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 3 AS version;
