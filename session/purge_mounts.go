package session

import (
	"context"

	"github.com/bunkroom/bunkroom/mount"
)

// MountPurger is a [Purger] for Config.Purgers that deletes durable folders
// with what they hold: those of a session, attachments too; all of a project's;
// or a user's own, outside of projects. A folder is the session's and not the
// conversation's, so that it makes no difference whether the history is purged. Folders of agents stay where just a
// session is purged. The folders of sessions that a user opened in projects
// are left to a [mount.Collector], which finds them without a session.
func MountPurger(p *mount.Purger) Purger { return mountPurger{p} }

type mountPurger struct{ mounts *mount.Purger }

func (m mountPurger) Purge(ctx context.Context, t PurgeTarget, limit int) (int, error) {
	if t.Session != "" {
		return m.mounts.DeleteSession(ctx, t.Session, limit)
	}
	scope, err := mount.ScopeOf(t.Project, t.User)
	if err != nil {
		return 0, err
	}
	return m.mounts.DeleteScope(ctx, scope, limit)
}
