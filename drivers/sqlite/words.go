package sqlite

import (
	"strings"

	"github.com/bunkroom/bunkroom/internal/sqlstore"
)

// words are kept by FTS5, which takes them as they are: they have no capitals,
// and of what is ASCII only letters, digits and "_". What begins with something it puts together
// before it finds any: therefore they are asked for by some seqs.
func words() sqlstore.Words {
	return sqlstore.Words{
		Block: 1024,
		Put:   `INSERT INTO bunkroom_search_words (rowid, words) VALUES (? << 32 | ?, ?)`,
		Find: `SELECT e.branch, e.seq, e.depth, e.kind FROM bunkroom_search_words AS w
			JOIN bunkroom_transcript_entries AS e ON e.tree = ?2 AND e.seq = w.rowid & 4294967295
			WHERE w.bunkroom_search_words MATCH ?1 AND w.rowid < (?2 << 32 | min(?3, 4294967295)) ORDER BY w.rowid DESC`,
		Remove: `DELETE FROM bunkroom_search_words WHERE rowid IN (SELECT x.rowid FROM bunkroom_search_words AS x
			WHERE x.rowid BETWEEN ?1 << 32 AND ?1 << 32 | 4294967295 LIMIT ?2)`,
		All: func(words []string, prefix string) string {
			var all []string
			for _, word := range words {
				all = append(all, `"`+word+`"`)
			}
			if prefix != "" {
				all = append(all, `"`+prefix+`" *`)
			}
			return "(" + strings.Join(all, " AND ") + ")"
		},
		Any: func(all []string) string { return strings.Join(all, " OR ") },
	}
}
