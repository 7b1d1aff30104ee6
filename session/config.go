package session

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/internal/host"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Config is what the host hands to [New].
type Config struct {
	// Store and Leases keep the rows; a database driver has both. Required.
	Store  Store
	Leases Leases
	// Directory answers what the host knows of users, projects and agents. Required.
	Directory access.Directory

	// Sandboxes are the providers of machines, by the name each has in its
	// Info. Without any, no work can be opened.
	Sandboxes []sandbox.Provider
	// KeySecret is what the keys of sandboxes are derived from, at least
	// sandbox.MinSecret bytes. Required with Sandboxes. A key is stored once
	// derived, so that another secret concerns new sandboxes only.
	KeySecret []byte
	// Place chooses the provider and spec of a session's machine. nil: the first provider, the zero Spec.
	Place func(Placing) (Placement, error)
	// Mounts carries the agents' durable folders into the sandbox, and where it has
	// a Locker those of sessions whose working directory is one (Spawn.DurableWorkdir). nil: there are none.
	Mounts *mount.Manager
	// Gate admits and accounts for work. nil: everything is free, and reports say so.
	Gate billing.Gate
	// Purgers delete what other rooms keep of what is purged; see [Keeper.Purge].
	Purgers []Purger
	// Limits are the ceilings of a plan, asked anew for every decision. nil: the defaults for everybody.
	Limits func(access.Plan) Limits

	// Deployment labels every machine, so that two installations with one
	// account at a provider leave each other's alone: a sweep takes what bears
	// its own label, and no row of its own names, for forgotten, and has it destroyed.
	// It has no default, which two installations would share unawares; give each
	// one that no other has, and keep it, or what bears the old one is swept no
	// more. Required with Sandboxes.
	Deployment string
	// Replica is this process: it shows in leases, and in the *ElsewhereError
	// of another, so that the address at which other processes reach this one
	// does well. No two processes may have the same at once; one that is
	// restarted under the name it had is found again at once. Default: a new random id.
	Replica string

	// Lease is how long a work lease lasts unless it is renewed; it is renewed
	// three times in that time. Default 1 minute.
	Lease time.Duration
	// Hold is how long what a work reserves with the Gate lasts unless it is
	// renewed; what the work used is accounted for, and the hold renewed, three times in that
	// time, as far as leases are renewed that often. At least as long as Lease. Default 15 minutes, or Lease where that is longer.
	Hold time.Duration
	// CallTimeout bounds one call to a provider. Default 1 minute.
	CallTimeout time.Duration

	// IdleAfter is how long nobody must have worked in a session for its
	// machine to be destroyed, as [Keeper.Serve] does; at least 1 minute. Its files are lost,
	// and the next work starts in a new machine without being told, so that it
	// is for sessions whose working directory is durable, or worth nothing. It is measured
	// from the activity noted last, which may be a minute before the last work
	// ended. What an environment's sessions borrow is never idle. 0: no machine is ever destroyed for that.
	IdleAfter time.Duration

	// Audit is told of every refusal of something that exists. nil: nobody is.
	Audit func(context.Context, access.Event)
	// Log receives what the host's operators should know. nil: nothing is logged.
	Log *slog.Logger
	// Now and NewID are for tests: the clock of reports and local timers, and
	// new ids (UUIDs). nil: the real ones. The rows are dated by the store's clock.
	Now   func() time.Time
	NewID func() string
}

// Service is all that a host needs of sessions: rows ([Catalog]), work
// ([Runner]) and upkeep ([Keeper]) under one name. It has nothing of its own.
// All methods may be called concurrently.
type Service struct {
	*Catalog
	*Runner
	*Keeper
}

// New checks c and returns a Service. The error is a [*access.FieldError] that names the field.
// Nothing runs until it is asked to; start [Keeper.Serve] for upkeep.
func New(c Config) (*Service, error) {
	if c.Gate == nil {
		c.Gate = billing.Free{}
	}
	if c.Limits == nil {
		c.Limits = func(access.Plan) Limits { return Limits{} }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = id.New
	}
	if c.Replica == "" {
		c.Replica = c.NewID()
	}
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if c.Hold == 0 {
		c.Hold = max(15*time.Minute, c.Lease)
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = time.Minute
	}
	providers, err := c.check()
	if err != nil {
		return nil, err
	}
	var first string
	if len(c.Sandboxes) > 0 {
		first = c.Sandboxes[0].Info().Provider
	}
	if c.Place == nil && first != "" {
		c.Place = func(Placing) (Placement, error) { return Placement{}, nil }
	}

	// A name may be that of a process which has died, whose works are not this one's.
	process := c.Replica + "/" + id.New()
	rows := rows{store: c.Store, host: host.Host{Directory: c.Directory, Audit: c.Audit, Log: c.Log, Unavailable: ErrUnavailable}, limits: c.Limits}
	machines := &machines{
		rows: rows, leases: c.Leases, providers: providers, first: first, place: c.Place, secret: c.KeySecret, deployment: c.Deployment,
		timeout: c.CallTimeout, newID: c.NewID, log: c.Log,
	}
	runner := &Runner{
		rows: rows, machines: machines, leases: c.Leases, gate: c.Gate, mounts: c.Mounts, process: process, replica: c.Replica,
		lease: c.Lease, holding: c.Hold, now: c.Now, newID: c.NewID, log: c.Log, works: map[string]*Work{}, unsettled: map[string]*Work{}, late: make(chan struct{}, 1), doubts: new(doubts),
	}
	return &Service{
		Catalog: &Catalog{rows: rows, newID: c.NewID, workdirs: c.Mounts != nil && c.Mounts.Workdirs()},
		Runner:  runner,
		Keeper: &Keeper{
			machines: machines, leases: c.Leases, accounts: accounts{c.Gate, c.Lease, new(sync.Map)}, mine: runner.has, doubts: runner.doubts, settleLate: runner.settleLate, fence: runner.fence, draining: runner.isDraining,
			replica: c.Replica, process: process, idleAfter: c.IdleAfter, log: c.Log,
			purging: purging{c.Purgers, runner.cancel},
		},
	}, nil
}

func (c *Config) check() (map[string]sandbox.Provider, error) {
	field := func(name, rule string) error { return &access.FieldError{Field: name, Rule: rule} }
	switch {
	case c.Store == nil:
		return nil, field("Store", "must be set")
	case c.Leases == nil:
		return nil, field("Leases", "must be set")
	case c.Directory == nil:
		return nil, field("Directory", "must be set")
	case c.Lease < minLease:
		return nil, field("Lease", fmt.Sprintf("must be at least %v", minLease))
	case c.Hold < c.Lease:
		return nil, field("Hold", "must be at least as long as Lease")
	case slices.Contains(c.Purgers, nil):
		return nil, field("Purgers", "must not hold nil")
	case c.CallTimeout < 0:
		return nil, field("CallTimeout", "must not be negative")
	case c.IdleAfter < 0 || 0 < c.IdleAfter && c.IdleAfter < minIdle:
		return nil, field("IdleAfter", fmt.Sprintf("must be 0, or at least %v", minIdle))
	case len(c.Sandboxes) > 0 && len(c.KeySecret) < sandbox.MinSecret:
		return nil, field("KeySecret", fmt.Sprintf("must have at least %d bytes, has %d", sandbox.MinSecret, len(c.KeySecret)))
	case len(c.Sandboxes) > 0 && c.Deployment == "":
		return nil, field("Deployment", "must be set where Sandboxes are, and be this installation's alone")
	}
	if c.Deployment != "" {
		if err := access.CheckID("Deployment", c.Deployment); err != nil {
			return nil, err
		}
	}
	if err := access.CheckID("Replica", c.Replica); err != nil {
		return nil, err
	}
	providers := map[string]sandbox.Provider{}
	for _, p := range c.Sandboxes {
		if p == nil {
			return nil, field("Sandboxes", "must not hold nil")
		}
		info := p.Info()
		switch _, twice := providers[info.Provider]; {
		case info.Provider == "" || twice:
			return nil, field("Sandboxes", fmt.Sprintf("must have different names, %q is empty or there twice", info.Provider))
		case info.Caps.HostBound != (info.Host != ""):
			return nil, field("Sandboxes", fmt.Sprintf("provider %q must tell its host exactly where it is bound to one", info.Provider))
		}
		providers[info.Provider] = p
	}
	return providers, nil
}
