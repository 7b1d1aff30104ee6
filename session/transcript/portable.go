package transcript

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// portableLine is one line of the portable form: one of its parts.
type portableLine struct {
	Transcript *portableHead  `json:"transcript,omitempty"` // the first
	Entry      *portableEntry `json:"entry,omitempty"`      // in the order of Seq
	Ref        *portableRef   `json:"ref,omitempty"`
	End        *portableEnd   `json:"end,omitempty"` // the last
}

// The version of the form, which only what can't be left out by old readers changes.
const portableVersion = 1

type portableHead struct {
	Version      int                   `json:"version"`
	Conversation access.ConversationID `json:"conversation"` // where it is from
	Exported     time.Time             `json:"exported"`
}

type portableEntry struct {
	ID         EntryID         `json:"id"`
	Parent     EntryID         `json:"parent,omitempty"` // empty: a root
	Kind       Kind            `json:"kind"`
	Turn       TurnID          `json:"turn,omitempty"`
	Actor      access.UserID   `json:"actor,omitempty"`
	Created    time.Time       `json:"created"`
	Aborted    bool            `json:"aborted,omitempty"`
	Parts      []Part          `json:"parts,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Usage      *Usage          `json:"usage,omitempty"`
	Compaction *Compaction     `json:"compaction,omitempty"`
	State      *StateDelta     `json:"state,omitempty"`
	Labels     []string        `json:"labels,omitempty"`
}

type portableRef struct {
	Name string  `json:"name"`
	At   EntryID `json:"at,omitempty"` // empty: before the root
}

type portableEnd struct {
	Entries int64   `json:"entries"`
	Head    EntryID `json:"head,omitempty"` // empty: before the root
}

// Export writes a transcript as lines of JSON: all branches, labels, refs and
// where the head is; neither drafts nor inputs. What is written meanwhile may be missing, but what is there
// is whole. at dates it.
func Export(ctx context.Context, s Store, conversation access.ConversationID, w io.Writer, at time.Time) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for l, err := range portable(ctx, s, conversation, at) {
		if err == nil {
			err = enc.Encode(l)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// portable are the lines of a transcript, up to the first error.
func portable(ctx context.Context, s Store, conversation access.ConversationID, at time.Time) iter.Seq2[portableLine, error] {
	return func(yield func(portableLine, error) bool) {
		refs, err := s.Refs(ctx, conversation) // before the entries, so that those are all there
		if err != nil {
			yield(portableLine{}, err)
			return
		}
		t, err := s.Load(ctx, conversation)
		if err != nil {
			yield(portableLine{}, err)
			return
		}
		if !yield(portableLine{Transcript: &portableHead{portableVersion, conversation, at.UTC()}}, nil) {
			return
		}
		var n int64
		for e, err := range portableEntries(ctx, s, t) {
			if !yield(portableLine{Entry: e}, err) || err != nil {
				return
			}
			n++
		}
		for _, r := range refs {
			if !yield(portableLine{Ref: &portableRef{r.Name, r.At.Entry}}, nil) {
				return
			}
		}
		yield(portableLine{End: &portableEnd{n, t.Head.Entry}}, nil)
	}
}

// portableEntries are all entries of a transcript as it was when its row was read.
func portableEntries(ctx context.Context, s Store, t Transcript) iter.Seq2[*portableEntry, error] {
	return func(yield func(*portableEntry, error) bool) {
		for q := (HeaderQuery{Conversation: t.Conversation, Limit: exportPage}); ; {
			page, err := s.Headers(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			entries, err := wholes(ctx, s, t.Conversation, page.Headers)
			if err != nil {
				yield(nil, err)
				return
			}
			for i, e := range entries {
				if page.Headers[i].Seq > t.LastSeq || !yield(e, nil) { // it came since
					return
				}
			}
			if q.After = page.Next; q.After == 0 || q.After >= t.LastSeq {
				return
			}
		}
	}
}

// exportPage is small: each of its entries may be large.
const exportPage = 100

// wholes are entries with all there is to them.
func wholes(ctx context.Context, s Store, conversation access.ConversationID, headers []Header) ([]*portableEntry, error) {
	ids := make([]EntryID, len(headers))
	for i, h := range headers {
		ids[i] = h.ID
	}
	entries, err := s.Get(ctx, conversation, ids...)
	if err != nil {
		return nil, err
	}
	if len(entries) != len(ids) {
		return nil, fmt.Errorf("%w: entries of %s", ErrNotFound, conversation)
	}
	out := make([]*portableEntry, len(entries))
	for i, e := range entries {
		for j := range e.Parts {
			p := &e.Parts[j]
			if err := fill(ctx, s, conversation, &p.Data, &p.Blob); err != nil {
				return nil, err
			}
			if p.Call == nil {
				continue
			}
			if err := fill(ctx, s, conversation, &p.Call.Result, &p.Call.Blob); err != nil {
				return nil, err
			}
		}
		out[i] = &portableEntry{
			ID: e.ID, Parent: e.Parent.Entry, Kind: e.Kind, Turn: e.Turn, Actor: e.Actor, Created: e.CreatedAt, Aborted: e.Aborted,
			Parts: e.Parts, Payload: e.Payload, Compaction: e.Compaction, State: e.State, Labels: headers[i].Labels,
		}
		if e.Usage != (Usage{}) {
			out[i].Usage = &e.Usage
		}
	}
	return out, nil
}

// fill puts what a blob stands for in its place.
func fill(ctx context.Context, s Store, conversation access.ConversationID, data *json.RawMessage, blob **Blob) error {
	if *blob == nil {
		return nil
	}
	r, err := s.OpenBlob(ctx, conversation, (*blob).Hash)
	if err != nil {
		return err
	}
	all, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	*data, *blob = all, nil
	return nil
}
