-- Transcripts: what was said in conversations. A tree has a number of its own,
-- never used twice: what is made anew under the name of a deleted conversation
-- never meets the rows of the old one. Moments are UTC, in microseconds.

-- base_ and what follows is of a fork that reads the rows of its source: where
-- its own begin, and the greatest seq that is not its own. Rows up to there are being copied, and not looked at.
CREATE TABLE bunkroom_transcripts (
    tree             INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    conversation     TEXT    NOT NULL CHECK (conversation <> ''),
    status           TEXT    NOT NULL CHECK (status IN ('active', 'archived', 'deleted', 'importing')),
    version          INTEGER NOT NULL CHECK (version > 0),
    last_seq         INTEGER NOT NULL CHECK (last_seq >= 0),
    fence            INTEGER NOT NULL DEFAULT 0,
    in_turn          INTEGER NOT NULL DEFAULT 0,
    head_id          TEXT    NOT NULL DEFAULT '', -- '' = before the root
    head_was         TEXT    NOT NULL DEFAULT '', -- what the newest stretch that was appended at the head follows
    head_tree        INTEGER NOT NULL DEFAULT 0,  -- whose row it is
    head_branch      INTEGER NOT NULL DEFAULT 0,
    head_depth       INTEGER NOT NULL DEFAULT 0,
    head_tip         INTEGER NOT NULL DEFAULT 0,  -- what follows it goes on in its branch
    head_context     INTEGER NOT NULL DEFAULT 0,  -- as its entry has them
    head_whole       INTEGER NOT NULL DEFAULT 0,
    head_input       INTEGER NOT NULL DEFAULT 0,
    head_output      INTEGER NOT NULL DEFAULT 0,
    head_cache_read  INTEGER NOT NULL DEFAULT 0,
    head_cache_write INTEGER NOT NULL DEFAULT 0,
    head_cost        INTEGER NOT NULL DEFAULT 0,
    entries          INTEGER NOT NULL DEFAULT 0,
    bytes            INTEGER NOT NULL DEFAULT 0,
    input            INTEGER NOT NULL DEFAULT 0,
    output           INTEGER NOT NULL DEFAULT 0,
    cache_read       INTEGER NOT NULL DEFAULT 0,
    cache_write      INTEGER NOT NULL DEFAULT 0,
    cost             INTEGER NOT NULL DEFAULT 0,
    began_input      INTEGER NOT NULL DEFAULT 0,  -- of the path that a fork began with
    began_output     INTEGER NOT NULL DEFAULT 0,
    began_cache_read INTEGER NOT NULL DEFAULT 0,
    began_cache_write INTEGER NOT NULL DEFAULT 0,
    began_cost       INTEGER NOT NULL DEFAULT 0,
    draft            TEXT    NOT NULL DEFAULT '', -- the id of the one that is kept
    open_calls       INTEGER NOT NULL DEFAULT 0 CHECK (open_calls >= 0),
    unfinished       INTEGER NOT NULL GENERATED ALWAYS AS (in_turn <> 0 OR open_calls > 0 OR draft <> '') STORED, -- what the index goes by, for it seldom changes
    held             INTEGER NOT NULL DEFAULT 0, -- no input is delivered
    inputs           INTEGER NOT NULL DEFAULT 0 CHECK (inputs >= 0), -- that wait
    waits            INTEGER NOT NULL GENERATED ALWAYS AS (inputs > 0) STORED, -- as unfinished
    from_conversation TEXT   NOT NULL DEFAULT '', -- '' = it is no fork
    from_entry       TEXT    NOT NULL DEFAULT '', -- '' = before the root
    from_seq         INTEGER NOT NULL DEFAULT 0,
    by_reference     INTEGER NOT NULL DEFAULT 0,
    base_tree        INTEGER,
    base_branch      INTEGER,
    base_depth       INTEGER,
    base_seq         INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    CHECK ((head_id = '') = (head_depth = 0)),
    FOREIGN KEY (base_tree, base_branch, base_depth) REFERENCES bunkroom_transcript_entries (tree, branch, depth) DEFERRABLE INITIALLY DEFERRED
) STRICT;

--bun:split

CREATE UNIQUE INDEX bunkroom_transcripts_conversation ON bunkroom_transcripts (conversation) WHERE status <> 'deleted';

--bun:split

CREATE INDEX bunkroom_transcripts_deleted ON bunkroom_transcripts (tree) WHERE status = 'deleted';

--bun:split

CREATE INDEX bunkroom_transcripts_unfinished ON bunkroom_transcripts (conversation) WHERE unfinished AND status <> 'deleted';

--bun:split

CREATE INDEX bunkroom_transcripts_waits ON bunkroom_transcripts (conversation) WHERE waits AND status <> 'deleted';

--bun:split

CREATE INDEX bunkroom_transcripts_base ON bunkroom_transcripts (base_tree, base_branch, base_depth) WHERE base_tree IS NOT NULL;

--bun:split

-- Whose rows a tree reads: its own, and those of what it is a fork of by
-- reference, as they were when the newest seq was through_seq.
CREATE TABLE bunkroom_transcript_reads (
    tree        INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    source      INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    through_seq INTEGER NOT NULL,
    PRIMARY KEY (tree, source)
) STRICT, WITHOUT ROWID;

--bun:split

CREATE INDEX bunkroom_transcript_reads_source ON bunkroom_transcript_reads (source, tree);

--bun:split

-- A branch is a stretch of entries of consecutive depths, each of which follows
-- the one before it. Its number is the seq of its first, which follows the
-- parent: an entry whose rows the tree reads, or none. origin is the tree in which it was written: copies keep it.
CREATE TABLE bunkroom_transcript_branches (
    tree          INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    branch        INTEGER NOT NULL,
    origin        INTEGER NOT NULL,
    parent_tree   INTEGER,
    parent_branch INTEGER,
    parent_depth  INTEGER NOT NULL DEFAULT 0, -- 0 = it begins at a root
    PRIMARY KEY (tree, branch),
    CHECK ((parent_tree IS NULL) = (parent_depth = 0) AND (parent_tree IS NULL) = (parent_branch IS NULL)),
    CHECK (parent_branch < branch),
    FOREIGN KEY (tree, parent_tree) REFERENCES bunkroom_transcript_reads (tree, source),
    FOREIGN KEY (parent_tree, parent_branch, parent_depth) REFERENCES bunkroom_transcript_entries (tree, branch, depth) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

--bun:split

CREATE INDEX bunkroom_transcript_branches_parent ON bunkroom_transcript_branches (parent_tree, parent_branch, parent_depth, tree, branch) WHERE parent_tree IS NOT NULL;

--bun:split

CREATE INDEX bunkroom_transcript_branches_root ON bunkroom_transcript_branches (tree, parent_depth, branch);

--bun:split

-- What follows calls is of the whole path that ends with the entry: the depth
-- from which on a model is given it, that from which on its state changes count, and what it took.
CREATE TABLE bunkroom_transcript_entries (
    tree        INTEGER NOT NULL,
    seq         INTEGER NOT NULL CHECK (seq > 0),
    id          TEXT    NOT NULL CHECK (id <> ''),
    branch      INTEGER,          -- NULL = it is a draft that was given up
    depth       INTEGER NOT NULL CHECK (depth > 0),
    parent      TEXT    NOT NULL, -- '' = it stands at a root
    kind        TEXT    NOT NULL CHECK (kind <> ''),
    turn        TEXT    NOT NULL DEFAULT '',
    actor       TEXT    NOT NULL DEFAULT '',
    hash        TEXT    NOT NULL,
    bytes       INTEGER NOT NULL CHECK (bytes >= 0),
    calls       INTEGER NOT NULL DEFAULT 0,
    context     INTEGER NOT NULL,
    whole       INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cost        INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    preview     TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    PRIMARY KEY (tree, seq),
    UNIQUE (tree, id),
    UNIQUE (tree, branch, depth),
    FOREIGN KEY (tree, branch) REFERENCES bunkroom_transcript_branches (tree, branch)
) STRICT;

--bun:split

CREATE INDEX bunkroom_transcript_entries_turn ON bunkroom_transcript_entries (tree, turn, seq) WHERE turn <> '';

--bun:split

-- Of the kinds that there are few of.
CREATE INDEX bunkroom_transcript_entries_kind ON bunkroom_transcript_entries (tree, kind, seq) WHERE kind NOT IN ('user', 'assistant');

--bun:split

CREATE INDEX bunkroom_transcript_entries_state ON bunkroom_transcript_entries (tree, branch, depth) WHERE kind = 'state';

--bun:split

CREATE TABLE bunkroom_transcript_calls (
    tree       INTEGER NOT NULL,
    seq        INTEGER NOT NULL, -- of the entry
    call_id    TEXT    NOT NULL CHECK (call_id <> ''),
    status     TEXT    NOT NULL CHECK (status IN ('pending', 'running', 'succeeded', 'failed', 'denied', 'interrupted')),
    settled_at INTEGER,          -- the seq of what settled it
    late       INTEGER NOT NULL DEFAULT 0, -- the bytes that came with that, where it was not the entry itself
    hash       TEXT    NOT NULL DEFAULT '', -- of a result that is a blob
    size       INTEGER NOT NULL DEFAULT 0,
    result     TEXT,
    PRIMARY KEY (tree, seq, call_id),
    CHECK ((settled_at IS NULL) = (status IN ('pending', 'running'))),
    FOREIGN KEY (tree, seq) REFERENCES bunkroom_transcript_entries (tree, seq)
) STRICT;

--bun:split

CREATE INDEX bunkroom_transcript_calls_id ON bunkroom_transcript_calls (tree, call_id, seq);

--bun:split

CREATE INDEX bunkroom_transcript_calls_open ON bunkroom_transcript_calls (tree, seq) WHERE settled_at IS NULL;

--bun:split

-- A label may be on an entry of the source.
CREATE TABLE bunkroom_transcript_labels (
    tree  INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    seq   INTEGER NOT NULL,
    label TEXT    NOT NULL CHECK (label <> ''),
    PRIMARY KEY (tree, seq, label)
) STRICT, WITHOUT ROWID;

--bun:split

CREATE INDEX bunkroom_transcript_labels_label ON bunkroom_transcript_labels (tree, label, seq);

--bun:split

CREATE TABLE bunkroom_transcript_refs (
    tree    INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    name    TEXT    NOT NULL CHECK (name <> ''),
    entry   TEXT    NOT NULL, -- '' = before the root
    version INTEGER NOT NULL CHECK (version > 0),
    PRIMARY KEY (tree, name)
) STRICT, WITHOUT ROWID;

--bun:split

-- Entries are facts themselves, and not here.
CREATE TABLE bunkroom_transcript_facts (
    tree    INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    seq     INTEGER NOT NULL,
    kind    TEXT    NOT NULL CHECK (kind <> ''),
    entry   TEXT    NOT NULL DEFAULT '', -- that it is about, or is at
    at_root INTEGER NOT NULL DEFAULT 0,
    call_id TEXT    NOT NULL DEFAULT '',
    name    TEXT    NOT NULL DEFAULT '', -- of the ref, or the label
    status  TEXT    NOT NULL DEFAULT '', -- that the call, or the transcript, has since
    fence   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tree, seq)
) STRICT, WITHOUT ROWID;

--bun:split

CREATE TABLE bunkroom_transcript_drafts (
    tree  INTEGER NOT NULL PRIMARY KEY REFERENCES bunkroom_transcripts (tree),
    draft TEXT    NOT NULL
) STRICT;

--bun:split

CREATE TABLE bunkroom_transcript_blobs (
    tree INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    hash TEXT    NOT NULL CHECK (hash <> ''),
    size INTEGER NOT NULL,
    data BLOB    NOT NULL,
    PRIMARY KEY (tree, hash)
) STRICT;

--bun:split

-- Which entries have a blob, and since when.
CREATE TABLE bunkroom_transcript_uses (
    tree  INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    hash  TEXT    NOT NULL,
    seq   INTEGER NOT NULL, -- of the entry
    since INTEGER NOT NULL, -- the seq that wrote it
    PRIMARY KEY (tree, hash, seq, since)
) STRICT, WITHOUT ROWID;

--bun:split

CREATE INDEX bunkroom_transcript_uses_seq ON bunkroom_transcript_uses (tree, seq);

--bun:split

-- The inbox. What has been promoted is an entry of the same id.
CREATE TABLE bunkroom_transcript_inputs (
    tree         INTEGER NOT NULL REFERENCES bunkroom_transcripts (tree),
    id           TEXT    NOT NULL CHECK (id <> ''),
    state        TEXT    NOT NULL CHECK (state IN ('pending', 'claimed', 'promoted', 'cancelled', 'expired', 'dead')),
    version      INTEGER NOT NULL CHECK (version > 0),
    lane         TEXT    NOT NULL CHECK (lane IN ('steer', 'follow_up', 'synthetic', 'barrier')),
    place        INTEGER NOT NULL, -- its order
    admitted     INTEGER NOT NULL, -- the seq at which it came
    promoted     INTEGER NOT NULL DEFAULT 0, -- the seq of its entry
    fence        INTEGER NOT NULL DEFAULT 0, -- of the turn that claims it
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    attempts     INTEGER NOT NULL DEFAULT 0,
    last_error   TEXT    NOT NULL DEFAULT '',
    not_before   INTEGER,          -- NULL = at once
    expires      INTEGER,          -- NULL = never
    created_at   INTEGER NOT NULL,
    after_entry  TEXT    NOT NULL DEFAULT '', -- what it is to follow
    after_root   INTEGER NOT NULL DEFAULT 0,
    ref          TEXT    NOT NULL DEFAULT '',
    wait         INTEGER NOT NULL DEFAULT 0, -- in nanoseconds, as life
    life         INTEGER NOT NULL DEFAULT 0,
    billing      TEXT    NOT NULL DEFAULT '',
    hash         TEXT    NOT NULL, -- of the content as it came
    entry        TEXT    NOT NULL,
    PRIMARY KEY (tree, id),
    CHECK ((state = 'claimed') = (fence > 0))
) STRICT;

--bun:split

CREATE INDEX bunkroom_transcript_inputs_place ON bunkroom_transcript_inputs (tree, place, admitted);

--bun:split

CREATE INDEX bunkroom_transcript_inputs_waiting ON bunkroom_transcript_inputs (tree, place, admitted) WHERE state IN ('pending', 'claimed');

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 10 AS version;
