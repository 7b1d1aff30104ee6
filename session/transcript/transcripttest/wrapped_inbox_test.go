package transcripttest

import (
	"context"
	"io"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func inMemory() transcript.Store { return memory.New(nil).Transcripts() }

// committing is a sound store whose commits go another way.
type committing struct {
	transcript.Store
	commit func(context.Context, transcript.Change) (transcript.Committed, error)
}

func (s committing) Commit(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
	return s.commit(ctx, c)
}

// reading is a sound store in which something happens before headers are read.
type reading struct {
	transcript.Store
	before func()
}

func (s reading) Headers(ctx context.Context, q transcript.HeaderQuery) (transcript.HeaderPage, error) {
	s.before()
	return s.Store.Headers(ctx, q)
}

// cutOff is a reader that fails once all is read.
type cutOff struct {
	io.Reader
	err error
}

func (r cutOff) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		err = r.err
	}
	return n, err
}

// left reports whether there is anything of a conversation.
func (b *bench) left(c access.ConversationID) bool {
	_, err := b.store.Load(b.Context(), c)
	return err == nil
}
