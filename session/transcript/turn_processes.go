package transcript

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// TagOf is the sandbox.Cmd.Tag of what a turn starts. It has the digits of a
// hash in place of the conversation, whose id may be longer than a tag.
func TagOf(conversation access.ConversationID, fence int64) string {
	digest := sha256.Sum256([]byte(conversation))
	return fmt.Sprintf("turn-%s-%d", hex.EncodeToString(digest[:16]), fence)
}

// EndOlder ends what a conversation's turn of that fence has started in a
// machine under [TagOf]; it is what [TurnsConfig].EndProcesses does for each machine that the conversation's turns use and that is not
// worked in through sessions. What was started through a session's work has the work's tag instead, and is not found by
// this: where the work was opened for the turn, session.Keeper.EndTurns ends it, in whichever machine that is. Else it ends with
// the work, or is ended once the work's lease has run out.
//
// Of a transcript that was deleted and made anew it may be asked with another fence than that which the last turn had: what is
// Detached is ended before such a one is deleted.
func EndOlder(ctx context.Context, r sandbox.Reaper, machine sandbox.Ref, conversation access.ConversationID, last int64) error {
	return r.Reap(ctx, machine, TagOf(conversation, last))
}

// Sandbox is sb as the turn uses it: what is started bears the turn's tag, and
// is stopped, unless it is Detached, as the turn's context ends. Nothing is started any more then: ErrFenced.
// Where sb gives processes a tag of its own, as that of a session's work does, it is that by which they are found: open such a work for
// the turn, and by its context, and use it by way of the turn, so that nothing is started once the turn is lost, though the work is not.
//
//	work, err := sessions.Open(turn.Context(), actor, session.WorkRequest{Conversation: turn.Conversation(), Turn: turn.Fence()})
//	sb := turn.Sandbox(work.Sandbox())
func (t *Turn) Sandbox(sb sandbox.Sandbox) sandbox.Sandbox { return turnSandbox{sb, t} }

type turnSandbox struct {
	sandbox.Sandbox
	turn *Turn
}

func (s turnSandbox) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	return turnStart(ctx, s.turn, c, s.Sandbox.Start)
}

// acts is nil while the turn may act.
func (t *Turn) acts() error {
	if err := t.mayAct(); err != nil {
		return err
	}
	if cause := context.Cause(t.ctx); cause != nil {
		return fmt.Errorf("transcript: %s: turn %d: %w", t.conversation, t.fence, cause)
	}
	return nil
}

// turnStart has start start what the turn is to start, as long as that lasts.
func turnStart[P any](ctx context.Context, t *Turn, c sandbox.Cmd, start func(context.Context, sandbox.Cmd) (P, error)) (p P, err error) {
	if err := t.acts(); err != nil {
		return p, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	c.Tag = TagOf(t.conversation, t.fence)
	if p, err = start(ctx, c); err != nil {
		unhook()
		cancel(nil)
	}
	return p, err
}

// As passes on the powers that start nothing, and has terminals start as processes do.
func (s turnSandbox) As(target any) bool {
	switch t := target.(type) {
	case *sandbox.ProcessLister:
		of, has := sandbox.As[sandbox.ProcessLister](s.Sandbox)
		if has {
			*t = turnLister{of, s.turn}
		}
		return has
	case *sandbox.TerminalStarter:
		of, has := sandbox.As[sandbox.TerminalStarter](s.Sandbox)
		if has {
			*t = turnTerminals{s.turn, of}
		}
		return has
	}
	return sandbox.PassOnFiles(s.Sandbox, target)
}

type turnTerminals struct {
	turn *Turn
	of   sandbox.TerminalStarter
}

func (s turnTerminals) StartTerminal(ctx context.Context, c sandbox.Cmd, size sandbox.TerminalSize) (sandbox.Terminal, error) {
	return turnStart(ctx, s.turn, c, func(ctx context.Context, c sandbox.Cmd) (sandbox.Terminal, error) {
		return s.of.StartTerminal(ctx, c, size)
	})
}

// turnLister finds processes, and has what is on a terminal typed to while the turn may act: who types may start anything.
type turnLister struct {
	sandbox.ProcessLister
	turn *Turn
}

func (s turnLister) Process(ctx context.Context, id string) (sandbox.Process, error) {
	p, err := s.ProcessLister.Process(ctx, id)
	if t, is := p.(sandbox.Terminal); is && err == nil {
		return turnTerminal{t, s.turn}, nil
	}
	return p, err
}

type turnTerminal struct {
	sandbox.Terminal
	turn *Turn
}

func (t turnTerminal) Write(b []byte) (int, error) {
	if err := t.turn.acts(); err != nil {
		return 0, err
	}
	return t.Terminal.Write(b)
}
