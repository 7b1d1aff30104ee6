package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// works are those open in a replica, by their ids.
type works struct {
	mu   sync.Mutex
	open map[string]*session.Work
}

func newWorks() *works { return &works{open: map[string]*session.Work{}} }

func (w *works) add(wk *session.Work) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[wk.ID()] = wk
}

func (w *works) find(id string) (*session.Work, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wk := w.open[id]; wk != nil {
		return wk, nil
	}
	return nil, fmt.Errorf("no work %s", id)
}

// WorkCall is about work in a session.
type WorkCall struct {
	Owner      access.UserID
	Session    session.ID
	AcceptLoss int64
	Work       string
	Script     string
	Patience   time.Duration
}

// WorkAnswer is what came of it.
type WorkAnswer struct {
	Answer
	Work     string
	Output   string
	Replaced int64
	Cause    string // the code of what ended the work
}

func (r *Replica) Open(c WorkCall, a *WorkAnswer) error {
	wk, err := r.service.Open(context.Background(), access.Actor{User: c.Owner}, session.WorkRequest{Session: c.Session, Ensure: true, AcceptLoss: c.AcceptLoss})
	if err != nil {
		return a.refused(err)
	}
	a.Work = wk.ID()
	r.works.add(wk)
	return nil
}

// Run runs a script to its end, or to that of the work.
func (r *Replica) Run(c WorkCall, a *WorkAnswer) error {
	wk, err := r.works.find(c.Work)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	exit, err := sandbox.Run(wk.Context(), wk.Sandbox(), sandbox.Cmd{Argv: []string{"sh", "-c", c.Script}}, &out, &out)
	a.Output = out.String()
	if cause := context.Cause(wk.Context()); cause != nil {
		return a.refused(cause)
	}
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("%+v: %s", exit, a.Output)
	}
	return err
}

// Wait returns when the work has ended, with the reason.
func (r *Replica) Wait(c WorkCall, a *WorkAnswer) error {
	wk, err := r.works.find(c.Work)
	if err != nil {
		return err
	}
	<-wk.Context().Done()
	return a.refused(context.Cause(wk.Context()))
}

func (r *Replica) Close(c WorkCall, a *WorkAnswer) error {
	wk, err := r.works.find(c.Work)
	if err != nil {
		return err
	}
	rep, err := wk.Close(context.Background())
	a.Replaced = rep.Replaced
	if rep.Cause != nil {
		var why Answer
		err = errors.Join(err, why.refused(rep.Cause))
		a.Cause = why.Code
	}
	return err
}

// Drain ends the process in good order.
func (r *Replica) Drain(c WorkCall, a *WorkAnswer) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.Patience)
	defer cancel()
	err := r.service.Drain(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		a.Cause = "stopped"
		return nil
	}
	return err
}
