package postgres

import (
	"strings"

	"github.com/bunkroom/bunkroom/internal/sqlstore"
)

// words are kept as lexemes, which nothing has made of a language's words. An
// index of them finds all that there is of one, and not the newest first:
// therefore they are asked for by a few thousand seqs. What is found is looked
// up one by one, whatever there is known about the tables.
func words() sqlstore.Words {
	return sqlstore.Words{
		Block: 4096,
		Put: `INSERT INTO bunkroom_search_words (tree, seq, words) VALUES (?, ?, array_to_tsvector(string_to_array(CAST(? AS text), ' ')))
			ON CONFLICT DO NOTHING`,
		Find: `WITH m AS MATERIALIZED (SELECT w.tree, w.seq FROM bunkroom_search_words AS w WHERE w.words @@ CAST(? AS tsquery))
			SELECT e.branch, e.seq, e.depth, e.kind FROM m JOIN LATERAL (SELECT * FROM bunkroom_transcript_entries AS e
				WHERE e.tree = m.tree AND e.seq = m.seq LIMIT 1) AS e ON true
			WHERE m.tree = ? AND m.seq < ? ORDER BY m.seq DESC`,
		Remove: `DELETE FROM bunkroom_search_words WHERE (tree, seq) IN (SELECT x.tree, x.seq FROM bunkroom_search_words AS x WHERE x.tree = ? LIMIT ?)`,
		All: func(words []string, prefix string) string {
			var all []string
			for _, word := range words {
				all = append(all, "'"+word+"'")
			}
			if prefix != "" {
				all = append(all, "'"+prefix+"':*")
			}
			return "(" + strings.Join(all, " & ") + ")"
		},
		Any: func(all []string) string { return strings.Join(all, " | ") },
	}
}
