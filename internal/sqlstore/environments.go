package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

const (
	insertEnvironment = `INSERT INTO bunkroom_environments
		(id, version, project, created_by, name, created_at, deleted_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	updateEnvironment  = `UPDATE bunkroom_environments SET version = ?, name = ?, deleted_at = ? WHERE id = ? AND version = ?`
	environmentProject = `SELECT project FROM bunkroom_environments WHERE id = ? FOR KEY SHARE`
	listEnvironments   = `SELECT ` + environmentColumns + `, b.state
		FROM bunkroom_environments AS e LEFT JOIN bunkroom_sandboxes AS b ON b.environment_id = e.id
		WHERE e.project = ? AND e.deleted_at IS NULL AND (e.created_at, e.id) < (?, ?)
		ORDER BY e.created_at DESC, e.id DESC LIMIT ?`
)

func (w *commit) environment(ctx context.Context, e session.Environment) error {
	if e.Version > 1 {
		n, err := w.exec(ctx, updateEnvironment, e.Version, e.Name, micros(e.DeletedAt), string(e.ID), e.Version-1)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: environment %s has another version than %d, or is not there", session.ErrStale, e.ID, e.Version-1)
		}
		return err
	}
	n, err := w.exec(ctx, insertEnvironment, string(e.ID), e.Version, string(e.Project), string(e.CreatedBy), e.Name, micros(e.CreatedAt), micros(e.DeletedAt))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: environment %s", session.ErrExists, e.ID)
	}
	return err
}

// borrow sees to it that the environment s borrows stands, and is of the same
// project: the schema would refuse another too, but not in the session's words.
func (w *commit) borrow(ctx context.Context, s session.Session) error {
	project, known := w.lent[s.Environment]
	if !known {
		switch err := w.row(ctx, environmentProject, string(s.Environment)).Scan(str(&project)); {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%w: session %s: environment %s is not there", session.ErrStale, s.ID, s.Environment)
		case err != nil:
			return err
		}
	}
	if project != s.Project {
		return fmt.Errorf("%w: session %s: environment %s is another project's", session.ErrStale, s.ID, s.Environment)
	}
	return nil
}

func (s sessions) Environments(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
	if q.Limit < 1 || q.Limit > session.MaxListed {
		return session.EnvironmentPage{}, field("Limit", fmt.Sprintf("must be 1 to %d", session.MaxListed))
	}
	if err := access.CheckID("Project", q.Project); err != nil {
		return session.EnvironmentPage{}, err
	}
	after := token{at: time.UnixMicro(math.MaxInt64)} // before the first page
	if q.After != "" {
		var ok bool
		if after, ok = parseToken(q.After); !ok {
			return session.EnvironmentPage{}, field("After", "must be Next of an earlier page")
		}
	}
	var page session.EnvironmentPage
	err := s.read(ctx, func(ctx context.Context, on place) error {
		rows, err := on.rows(ctx, listEnvironments, string(q.Project), after.at.UnixMicro(), after.id, q.Limit+1) // one more, to know whether there is more
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if len(page.Items) == q.Limit {
				last := page.Items[q.Limit-1].Environment
				page.Next = token{last.CreatedAt, string(last.ID)}.String()
				break
			}
			var item session.EnvironmentSummary
			if err := rows.Scan(append(environmentInto(&item.Environment), state{&item.Machine})...); err != nil {
				return err
			}
			page.Items = append(page.Items, item)
		}
		return rows.Err()
	})
	if err != nil {
		return session.EnvironmentPage{}, err
	}
	return page, nil
}
