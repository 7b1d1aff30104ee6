-- Transcripts: what was said in conversations. A tree has a number of its own,
-- never used twice: what is made anew under the name of a deleted conversation
-- never meets the rows of the old one. Moments are UTC, in microseconds.

-- base_ and what follows is of a fork that reads the rows of its source: where
-- its own begin, and the greatest seq that is not its own. Rows up to there are being copied, and not looked at.
CREATE TABLE bunkroom_transcripts (
    tree             bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation     text COLLATE "C"    NOT NULL CHECK (conversation <> ''),
    status           text COLLATE "C"    NOT NULL CHECK (status IN ('active', 'archived', 'deleted', 'importing')),
    version          bigint NOT NULL CHECK (version > 0),
    last_seq         bigint NOT NULL CHECK (last_seq >= 0),
    fence            bigint NOT NULL DEFAULT 0,
    in_turn          boolean NOT NULL DEFAULT false,
    head_id          text COLLATE "C"    NOT NULL DEFAULT '', -- '' = before the root
    head_was         text COLLATE "C"    NOT NULL DEFAULT '', -- what the newest stretch that was appended at the head follows
    head_tree        bigint NOT NULL DEFAULT 0,  -- whose row it is
    head_branch      bigint NOT NULL DEFAULT 0,
    head_depth       bigint NOT NULL DEFAULT 0,
    head_tip         boolean NOT NULL DEFAULT false,  -- what follows it goes on in its branch
    head_context     bigint NOT NULL DEFAULT 0,  -- as its entry has them
    head_whole       bigint NOT NULL DEFAULT 0,
    head_input       bigint NOT NULL DEFAULT 0,
    head_output      bigint NOT NULL DEFAULT 0,
    head_cache_read  bigint NOT NULL DEFAULT 0,
    head_cache_write bigint NOT NULL DEFAULT 0,
    head_cost        bigint NOT NULL DEFAULT 0,
    entries          bigint NOT NULL DEFAULT 0,
    bytes            bigint NOT NULL DEFAULT 0,
    input            bigint NOT NULL DEFAULT 0,
    output           bigint NOT NULL DEFAULT 0,
    cache_read       bigint NOT NULL DEFAULT 0,
    cache_write      bigint NOT NULL DEFAULT 0,
    cost             bigint NOT NULL DEFAULT 0,
    began_input      bigint NOT NULL DEFAULT 0,  -- of the path that a fork began with
    began_output     bigint NOT NULL DEFAULT 0,
    began_cache_read bigint NOT NULL DEFAULT 0,
    began_cache_write bigint NOT NULL DEFAULT 0,
    began_cost       bigint NOT NULL DEFAULT 0,
    draft            text COLLATE "C"    NOT NULL DEFAULT '', -- the id of the one that is kept
    open_calls       bigint NOT NULL DEFAULT 0 CHECK (open_calls >= 0),
    unfinished       boolean NOT NULL GENERATED ALWAYS AS (in_turn OR open_calls > 0 OR draft <> '') STORED, -- what the index goes by, for it seldom changes
    held             boolean NOT NULL DEFAULT false, -- no input is delivered
    inputs           bigint NOT NULL DEFAULT 0 CHECK (inputs >= 0), -- that wait
    waits            boolean NOT NULL GENERATED ALWAYS AS (inputs > 0) STORED, -- as unfinished
    from_conversation text COLLATE "C"   NOT NULL DEFAULT '', -- '' = it is no fork
    from_entry       text COLLATE "C"    NOT NULL DEFAULT '', -- '' = before the root
    from_seq         bigint NOT NULL DEFAULT 0,
    by_reference     boolean NOT NULL DEFAULT false,
    base_tree        bigint,
    base_branch      bigint,
    base_depth       bigint,
    base_seq         bigint NOT NULL DEFAULT 0,
    created_at       bigint NOT NULL,
    updated_at       bigint NOT NULL,
    CHECK ((head_id = '') = (head_depth = 0))
) WITH (fillfactor = 70);

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
    tree        bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    source      bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    through_seq bigint NOT NULL,
    PRIMARY KEY (tree, source)
);

--bun:split

CREATE INDEX bunkroom_transcript_reads_source ON bunkroom_transcript_reads (source, tree);

--bun:split

-- A branch is a stretch of entries of consecutive depths, each of which follows
-- the one before it. Its number is the seq of its first, which follows the
-- parent: an entry whose rows the tree reads, or none. origin is the tree in which it was written: copies keep it.
CREATE TABLE bunkroom_transcript_branches (
    tree          bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    branch        bigint NOT NULL,
    origin        bigint NOT NULL,
    parent_tree   bigint,
    parent_branch bigint,
    parent_depth  bigint NOT NULL DEFAULT 0, -- 0 = it begins at a root
    PRIMARY KEY (tree, branch),
    CHECK ((parent_tree IS NULL) = (parent_depth = 0) AND (parent_tree IS NULL) = (parent_branch IS NULL)),
    CHECK (parent_branch < branch),
    FOREIGN KEY (tree, parent_tree) REFERENCES bunkroom_transcript_reads (tree, source)
);

--bun:split

CREATE INDEX bunkroom_transcript_branches_parent ON bunkroom_transcript_branches (parent_tree, parent_branch, parent_depth, tree, branch) WHERE parent_tree IS NOT NULL;

--bun:split

CREATE INDEX bunkroom_transcript_branches_root ON bunkroom_transcript_branches (tree, parent_depth, branch);

--bun:split

-- What follows calls is of the whole path that ends with the entry: the depth
-- from which on a model is given it, that from which on its state changes count, and what it took.
CREATE TABLE bunkroom_transcript_entries (
    tree        bigint NOT NULL,
    seq         bigint NOT NULL CHECK (seq > 0),
    id          text COLLATE "C"    NOT NULL CHECK (id <> ''),
    branch      bigint,          -- NULL = it is a draft that was given up
    depth       bigint NOT NULL CHECK (depth > 0),
    parent      text COLLATE "C"    NOT NULL, -- '' = it stands at a root
    kind        text COLLATE "C"    NOT NULL CHECK (kind <> ''),
    turn        text COLLATE "C"    NOT NULL DEFAULT '',
    actor       text COLLATE "C"    NOT NULL DEFAULT '',
    hash        text COLLATE "C"    NOT NULL,
    bytes       bigint NOT NULL CHECK (bytes >= 0),
    calls       bigint NOT NULL DEFAULT 0,
    context     bigint NOT NULL,
    whole       bigint NOT NULL,
    input       bigint NOT NULL,
    output      bigint NOT NULL,
    cache_read  bigint NOT NULL,
    cache_write bigint NOT NULL,
    cost        bigint NOT NULL,
    created_at  bigint NOT NULL,
    preview     text COLLATE "C"    NOT NULL,
    body        text COLLATE "C"    NOT NULL,
    PRIMARY KEY (tree, seq),
    UNIQUE (tree, id),
    UNIQUE (tree, branch, depth),
    FOREIGN KEY (tree, branch) REFERENCES bunkroom_transcript_branches (tree, branch)
);

--bun:split

ALTER TABLE bunkroom_transcripts ADD FOREIGN KEY (base_tree, base_branch, base_depth) REFERENCES bunkroom_transcript_entries (tree, branch, depth) DEFERRABLE INITIALLY DEFERRED;

--bun:split

ALTER TABLE bunkroom_transcript_branches ADD FOREIGN KEY (parent_tree, parent_branch, parent_depth) REFERENCES bunkroom_transcript_entries (tree, branch, depth) DEFERRABLE INITIALLY DEFERRED;

--bun:split

CREATE INDEX bunkroom_transcript_entries_turn ON bunkroom_transcript_entries (tree, turn, seq) WHERE turn <> '';

--bun:split

-- Of the kinds that there are few of.
CREATE INDEX bunkroom_transcript_entries_kind ON bunkroom_transcript_entries (tree, kind, seq) WHERE kind NOT IN ('user', 'assistant');

--bun:split

CREATE INDEX bunkroom_transcript_entries_state ON bunkroom_transcript_entries (tree, branch, depth) WHERE kind = 'state';

--bun:split

CREATE TABLE bunkroom_transcript_calls (
    tree       bigint NOT NULL,
    seq        bigint NOT NULL, -- of the entry
    call_id    text COLLATE "C"    NOT NULL CHECK (call_id <> ''),
    status     text COLLATE "C"    NOT NULL CHECK (status IN ('pending', 'running', 'succeeded', 'failed', 'denied', 'interrupted')),
    settled_at bigint,          -- the seq of what settled it
    late       bigint NOT NULL DEFAULT 0, -- the bytes that came with that, where it was not the entry itself
    hash       text COLLATE "C"    NOT NULL DEFAULT '', -- of a result that is a blob
    size       bigint NOT NULL DEFAULT 0,
    result     text COLLATE "C",
    PRIMARY KEY (tree, seq, call_id),
    CHECK ((settled_at IS NULL) = (status IN ('pending', 'running'))),
    FOREIGN KEY (tree, seq) REFERENCES bunkroom_transcript_entries (tree, seq)
);

--bun:split

CREATE INDEX bunkroom_transcript_calls_id ON bunkroom_transcript_calls (tree, call_id, seq);

--bun:split

CREATE INDEX bunkroom_transcript_calls_open ON bunkroom_transcript_calls (tree, seq) WHERE settled_at IS NULL;

--bun:split

-- A label may be on an entry of the source.
CREATE TABLE bunkroom_transcript_labels (
    tree  bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    seq   bigint NOT NULL,
    label text COLLATE "C"    NOT NULL CHECK (label <> ''),
    PRIMARY KEY (tree, seq, label)
);

--bun:split

CREATE INDEX bunkroom_transcript_labels_label ON bunkroom_transcript_labels (tree, label, seq);

--bun:split

CREATE TABLE bunkroom_transcript_refs (
    tree    bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    name    text COLLATE "C"    NOT NULL CHECK (name <> ''),
    entry   text COLLATE "C"    NOT NULL, -- '' = before the root
    version bigint NOT NULL CHECK (version > 0),
    PRIMARY KEY (tree, name)
);

--bun:split

-- Entries are facts themselves, and not here.
CREATE TABLE bunkroom_transcript_facts (
    tree    bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    seq     bigint NOT NULL,
    kind    text COLLATE "C"    NOT NULL CHECK (kind <> ''),
    entry   text COLLATE "C"    NOT NULL DEFAULT '', -- that it is about, or is at
    at_root boolean NOT NULL DEFAULT false,
    call_id text COLLATE "C"    NOT NULL DEFAULT '',
    name    text COLLATE "C"    NOT NULL DEFAULT '', -- of the ref, or the label
    status  text COLLATE "C"    NOT NULL DEFAULT '', -- that the call, or the transcript, has since
    fence   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tree, seq)
);

--bun:split

CREATE TABLE bunkroom_transcript_drafts (
    tree  bigint NOT NULL PRIMARY KEY REFERENCES bunkroom_transcripts (tree),
    draft text COLLATE "C"    NOT NULL
);

--bun:split

CREATE TABLE bunkroom_transcript_blobs (
    tree bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    hash text COLLATE "C"    NOT NULL CHECK (hash <> ''),
    size bigint NOT NULL,
    data bytea   NOT NULL,
    PRIMARY KEY (tree, hash)
);

--bun:split

-- Which entries have a blob, and since when.
CREATE TABLE bunkroom_transcript_uses (
    tree  bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    hash  text COLLATE "C"    NOT NULL,
    seq   bigint NOT NULL, -- of the entry
    since bigint NOT NULL, -- the seq that wrote it
    PRIMARY KEY (tree, hash, seq, since)
);

--bun:split

CREATE INDEX bunkroom_transcript_uses_seq ON bunkroom_transcript_uses (tree, seq);

--bun:split

-- The inbox. What has been promoted is an entry of the same id.
CREATE TABLE bunkroom_transcript_inputs (
    tree         bigint NOT NULL REFERENCES bunkroom_transcripts (tree),
    id           text COLLATE "C"    NOT NULL CHECK (id <> ''),
    state        text COLLATE "C"    NOT NULL CHECK (state IN ('pending', 'claimed', 'promoted', 'cancelled', 'expired', 'dead')),
    version      bigint NOT NULL CHECK (version > 0),
    lane         text COLLATE "C"    NOT NULL CHECK (lane IN ('steer', 'follow_up', 'synthetic', 'barrier')),
    place        bigint NOT NULL, -- its order
    admitted     bigint NOT NULL, -- the seq at which it came
    promoted     bigint NOT NULL DEFAULT 0, -- the seq of its entry
    fence        bigint NOT NULL DEFAULT 0, -- of the turn that claims it
    cancel_asked boolean NOT NULL DEFAULT false,
    attempts     bigint NOT NULL DEFAULT 0,
    last_error   text COLLATE "C"    NOT NULL DEFAULT '',
    not_before   bigint,          -- NULL = at once
    expires      bigint,          -- NULL = never
    created_at   bigint NOT NULL,
    after_entry  text COLLATE "C"    NOT NULL DEFAULT '', -- what it is to follow
    after_root   boolean NOT NULL DEFAULT false,
    ref          text COLLATE "C"    NOT NULL DEFAULT '',
    wait         bigint NOT NULL DEFAULT 0, -- in nanoseconds, as life
    life         bigint NOT NULL DEFAULT 0,
    billing      text COLLATE "C"    NOT NULL DEFAULT '',
    hash         text COLLATE "C"    NOT NULL, -- of the content as it came
    entry        text COLLATE "C"    NOT NULL,
    PRIMARY KEY (tree, id),
    CHECK ((state = 'claimed') = (fence > 0))
);

--bun:split

CREATE INDEX bunkroom_transcript_inputs_place ON bunkroom_transcript_inputs (tree, place, admitted);

--bun:split

CREATE INDEX bunkroom_transcript_inputs_waiting ON bunkroom_transcript_inputs (tree, place, admitted) WHERE state IN ('pending', 'claimed');

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 10 AS version;
