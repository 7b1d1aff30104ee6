package mount

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// The not-found errors. They are made from what was asked for, so that what is
// absent, somebody else's or protected gives the same bytes.
func noMount(id ID) error                 { return fmt.Errorf("%w: %s", ErrNotFound, id) }
func noProject(id access.ProjectID) error { return fmt.Errorf("%w: project %s", ErrNotFound, id) }
func noAgent(id access.AgentID) error     { return fmt.Errorf("%w: agent %s", ErrNotFound, id) }
func noFolder(agent access.AgentID) error {
	return fmt.Errorf("%w: folder of agent %s", ErrNotFound, agent)
}
