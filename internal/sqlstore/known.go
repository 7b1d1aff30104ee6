package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// knownKeys asks of each key what there is under it: it reads no row of any other.
const knownKeys = `SELECT NOW(), k.n, ` + sandboxColumns + `,
		EXISTS (SELECT 1 FROM bunkroom_outbox AS o WHERE o.sandbox_id = k.sandbox_id AND o.generation = k.generation AND o.incarnation IN (k.incarnation, '')),
		(SELECT count(*) FROM bunkroom_outbox AS o WHERE o.sandbox_id = k.sandbox_id)
	FROM (KEYS(?)) AS k LEFT JOIN bunkroom_sandboxes AS b ON b.id = k.sandbox_id`

func (s sessions) Known(ctx context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
	if len(keys) > session.MaxKnown {
		return nil, field("keys", fmt.Sprintf("must be at most %d", session.MaxKnown))
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	asked, err := keysJSON(keys)
	if err != nil {
		return nil, err
	}
	all := make([]session.Known, len(keys))
	var now time.Time
	err = s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, knownKeys, asked)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int64
			var k session.Known
			into := append([]any{moment{&now}, &n}, sandboxInto(&k.Sandbox)...)
			var count int64
			if err := rows.Scan(append(into, flag{&k.Buried}, &count)...); err != nil {
				return err
			}
			k.Outbox = int(count)
			all[n] = k
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	now = s.store.at(now)
	for i := range all {
		all[i].Now = now
	}
	return all, nil
}

// keysJSON are the keys as the statement takes them: [[0,"sandbox",1,"incarnation"], ...].
// What is not text, or holds NUL, is left empty: no row has it.
func keysJSON(keys []sandbox.TombstoneKey) (string, error) {
	all := make([][4]any, len(keys))
	for i, k := range keys {
		id, incarnation := string(k.Sandbox), string(k.Incarnation)
		if !textual(id) {
			id = ""
		}
		if !textual(incarnation) { // then it is in the outbox only with all of its generation
			incarnation = ""
		}
		all[i] = [4]any{i, id, k.Generation, incarnation}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

func textual(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// What is counted is in an index of its own each, in which there is little.
const countMissing = `SELECT count(*) FROM
	(SELECT 1 FROM bunkroom_sandboxes WHERE provider = ? AND state = 'live' AND absent_since IS NOT NULL
	UNION ALL SELECT 1 FROM bunkroom_sandboxes WHERE provider = ? AND state = 'lost' AND incarnation <> '' AND since > COALESCE(NOW(), ?) - ?
	LIMIT ?) AS n`

func (s sessions) Missing(ctx context.Context, q session.MissingQuery) (n int, err error) {
	switch {
	case q.Limit < 1:
		return 0, field("Limit", "must be at least 1")
	case q.Provider == "" || !textual(q.Provider):
		return 0, field("Provider", "must be set")
	}
	err = s.read(ctx, func(ctx context.Context, on place) error {
		return on.row(ctx, countMissing, q.Provider, q.Provider, s.store.own(), max(q.Lately, 0).Microseconds(), min(q.Limit, math.MaxInt32)).Scan(&n)
	})
	return n, err
}
