-- What entries are found by. All of it can be made again from the entries, and
-- is brought up to date by whoever searches.

-- How far the words of a tree are kept: those of its entries after from_seq, up to through_seq.
CREATE TABLE bunkroom_search (
    tree        INTEGER NOT NULL PRIMARY KEY REFERENCES bunkroom_transcripts (tree),
    from_seq    INTEGER NOT NULL,
    through_seq INTEGER NOT NULL,
    CHECK (from_seq <= through_seq)
) STRICT;

--bun:split

-- The words of an entry, each behind the number of its tree and of a stretch of
-- its seqs, so that nothing is looked at for the sake of another tree, nor a long history for a page. The rowid is the tree's number, and in its lower 32 bits the seq.
CREATE VIRTUAL TABLE bunkroom_search_words USING fts5 (words, content = '', contentless_delete = 1, detail = none, tokenize = "ascii tokenchars '_'");

--bun:split

DROP VIEW bunkroom_schema;

--bun:split

CREATE VIEW bunkroom_schema AS SELECT 11 AS version;
