package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
)

// statements are the fixed statements that have been used, by the text they
// have in the source.
type statements struct{ all sync.Map } // string → *statement

// statement is one of them.
type statement struct {
	text     string // as the database knows it
	prepared atomic.Pointer[sql.Stmt]
}

func (s *statements) get(text string, said func(string) string) *statement {
	if st, ok := s.all.Load(text); ok {
		return st.(*statement)
	}
	st, _ := s.all.LoadOrStore(text, &statement{text: said(text)})
	return st.(*statement)
}

// prepare returns the prepared statement, preparing it the first time. It
// returns nil where that fails: then the statement runs as text, and tells why.
func (st *statement) prepare(ctx context.Context, db *sql.DB) *sql.Stmt {
	if p := st.prepared.Load(); p != nil {
		return p
	}
	p, err := db.PrepareContext(ctx, st.text)
	if err != nil {
		return nil
	}
	if !st.prepared.CompareAndSwap(nil, p) { // somebody else was first
		_ = p.Close()
	}
	return st.prepared.Load()
}

// close closes what is prepared. Statements that are used afterwards are prepared anew.
func (s *statements) close() error {
	var errs []error
	for _, st := range s.all.Range {
		if p := st.(*statement).prepared.Swap(nil); p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}
