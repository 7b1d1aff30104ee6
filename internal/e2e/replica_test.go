package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/rpc"
	"os"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// role is what a process of the host is told when it starts.
type role struct {
	Name   string
	DSN    string
	Root   string        // of its machines; empty = it has a provider in memory
	Skew   time.Duration // of its clock
	Broken string        // what is wrong with it; see broken_test.go
	Limits session.Limits
	Serve  bool // it does the Keeper's chores
}

// beReplica serves calls on its standard input until that is closed.
func beReplica(text string) error {
	var as role
	if err := json.Unmarshal([]byte(text), &as); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db, err := postgres.Open(ctx, as.DSN, &postgres.Options{Connections: 6})
	if err != nil {
		return err
	}
	defer db.Close()
	r := &Replica{store: db.Sessions(), leases: db.Leases(), works: newWorks()}
	breakIt(r, as)
	c := session.Config{
		Store: r.store, Leases: r.leases, Directory: access.DirectoryFunc(everybodyMay), Replica: as.Name,
		KeySecret: []byte("0123456789abcdef0123456789abcdef"), Deployment: "bunkroom", CallTimeout: 5 * time.Second, Lease: leaseOfWork,
		Limits: func(access.Plan) session.Limits { return as.Limits },
		Now:    func() time.Time { return time.Now().Add(as.Skew) },
		Log:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if as.Root != "" {
		p, err := local.New(local.Config{Root: as.Root})
		if err != nil {
			return err
		}
		defer p.Close()
		c.Sandboxes = []sandbox.Provider{p}
	} else {
		c.Sandboxes = []sandbox.Provider{memory.NewSandboxes(nil)}
	}
	if r.service, err = session.New(c); err != nil {
		return err
	}
	if as.Serve {
		go r.service.Serve(ctx)
	}
	calls := rpc.NewServer()
	if err := calls.Register(r); err != nil {
		return err
	}
	calls.ServeConn(stdio{os.Stdin, os.Stdout})
	return nil
}

// leaseOfWork is how long a work outlives the process it was in.
const leaseOfWork = 10 * time.Second

// everybodyMay lets everybody do everything that is their own.
func everybodyMay(_ context.Context, q access.Question) (access.Facts, error) {
	return access.Facts{Role: access.RoleOwner, Code: access.Yes, Payer: q.Owner}, nil
}

type stdio struct {
	io.Reader
	io.WriteCloser
}

// Replica is what a process of the host can be asked for.
type Replica struct {
	store   session.Store
	leases  session.Leases
	service *session.Service
	works   *works
}

// Answer is how a call went: Code is that of the refusal, empty where there
// was none. What is no refusal is an error of the call.
type Answer struct {
	Code string
	// What the refusals carry.
	Replica    string // of *session.ElsewhereError
	Host       string
	Generation int64 // of *sandbox.LostError
	Holder     string
	Until      time.Time
	Text       string
}

// refused turns an error that is a refusal into an answer.
func (a *Answer) refused(err error) error {
	if err == nil {
		return nil
	}
	problem, ok := errors.AsType[interface {
		error
		Problem() (int, string, string)
	}](err)
	if !ok {
		return err
	}
	_, a.Code, _ = problem.Problem()
	a.Text = err.Error()
	if e, ok := errors.AsType[*session.HeldError](err); ok {
		a.Holder, a.Until = e.Holder, e.Until
	}
	if e, ok := errors.AsType[*session.ElsewhereError](err); ok {
		a.Replica, a.Host = e.Replica, e.Host
	}
	if e, ok := errors.AsType[*sandbox.LostError](err); ok {
		a.Generation = e.Generation
	}
	return nil
}

// SessionCall is about one session, or about all of an owner's.
type SessionCall struct {
	Owner        access.UserID
	Conversation session.ConversationID
	Session      session.ID
}

// SessionAnswer is what came of it.
type SessionAnswer struct {
	Answer
	Session session.ID
	Ended   bool
	Open    []session.ConversationID // of the open sessions
}

func (r *Replica) Spawn(c SessionCall, a *SessionAnswer) error {
	s, _, err := r.service.Spawn(context.Background(), access.Actor{User: c.Owner}, session.Spawn{Conversation: c.Conversation})
	a.Session = s.ID
	return a.refused(err)
}

func (r *Replica) End(c SessionCall, a *SessionAnswer) error {
	rep, err := r.service.End(context.Background(), access.Actor{User: c.Owner}, c.Session)
	a.Ended = rep.Ended
	return a.refused(err)
}

func (r *Replica) Reopen(c SessionCall, a *SessionAnswer) error {
	_, err := r.service.Reopen(context.Background(), access.Actor{User: c.Owner}, c.Session)
	return a.refused(err)
}

func (r *Replica) List(c SessionCall, a *SessionAnswer) error {
	page, err := r.service.List(context.Background(), access.Actor{User: c.Owner}, session.Query{})
	for _, s := range page.Items {
		for _, v := range s.Conversations {
			a.Open = append(a.Open, v.ID)
		}
	}
	return a.refused(err)
}

// LeaseCall is about one lease, or about all that have expired.
type LeaseCall struct{ Lease session.Lease }

// LeaseAnswer is what came of it.
type LeaseAnswer struct {
	Answer
	Lease   session.Lease
	Expired []session.Lease
}

func (r *Replica) Acquire(c LeaseCall, a *LeaseAnswer) (err error) {
	a.Lease, err = r.leases.Acquire(context.Background(), c.Lease)
	return a.refused(err)
}

func (r *Replica) Renew(c LeaseCall, a *LeaseAnswer) (err error) {
	a.Lease, err = r.leases.Renew(context.Background(), c.Lease)
	return a.refused(err)
}

func (r *Replica) Release(c LeaseCall, a *LeaseAnswer) error {
	return a.refused(r.leases.Release(context.Background(), c.Lease))
}

func (r *Replica) Held(c LeaseCall, a *LeaseAnswer) (err error) {
	a.Lease, err = r.leases.Held(context.Background(), c.Lease.Kind, c.Lease.Name)
	return a.refused(err)
}

func (r *Replica) Expired(_ LeaseCall, a *LeaseAnswer) (err error) {
	a.Expired, err = r.leases.Expired(context.Background(), 1000)
	return a.refused(err)
}
