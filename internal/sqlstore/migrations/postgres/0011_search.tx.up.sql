-- What entries are found by. All of it can be made again from the entries, and
-- is brought up to date by whoever searches.

-- How far the words of a tree are kept: those of its entries after from_seq, up to through_seq.
CREATE TABLE bunkroom_search (
    tree        bigint NOT NULL PRIMARY KEY REFERENCES bunkroom_transcripts (tree),
    from_seq    bigint NOT NULL,
    through_seq bigint NOT NULL,
    CHECK (from_seq <= through_seq)
);

--bun:split

-- The words of an entry, each behind the number of its tree and of a stretch of
-- its seqs, so that nothing is looked at for the sake of another tree, nor a long history for a page.
CREATE TABLE bunkroom_search_words (
    tree  bigint   NOT NULL,
    seq   bigint   NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (tree, seq),
    FOREIGN KEY (tree, seq) REFERENCES bunkroom_transcript_entries (tree, seq)
);

--bun:split

CREATE INDEX bunkroom_search_words_words ON bunkroom_search_words USING gin (words) WITH (fastupdate = off);

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 11 AS version;
