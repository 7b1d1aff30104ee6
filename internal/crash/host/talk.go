package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/crash/talk"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// tell tells a story of transcripts. There is no machine in it, and no money.
func tell(ctx context.Context, o options) (err error) {
	story, ok := talk.Stories()[o.talk]
	if !ok {
		return fmt.Errorf("no story %q", o.talk)
	}
	store, inbox, closed, err := openTalk(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed()) }()
	p := &places{clock: time.Now}
	desk := talk.Watched(talk.Desk{Store: store, Inbox: inbox}, func(ctx context.Context, call string, do func(context.Context) error) error {
		_, err := write(ctx, p, call, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
		return err
	})
	if err := story.Arrange(ctx, desk); err != nil {
		return fmt.Errorf("arranging %s: %w", o.talk, err)
	}
	say(message{Scene: &scene{}})
	p.arm(o.die)
	for i, step := range story.Steps {
		if err := step.Do(ctx, desk); err != nil {
			return fmt.Errorf("step %d of %s: %w", i, o.talk, err)
		}
	}
	say(message{Done: true})
	return nil
}

// openTalk opens the database, which was migrated, as the drivers' Open does.
func openTalk(ctx context.Context, o options) (_ transcript.Store, _ transcript.Inbox, closed func() error, err error) {
	if o.sqlite == "" {
		pool, err := openPostgres(o.postgres)
		if err != nil {
			return nil, nil, nil, err
		}
		db, err := postgres.New(ctx, pool, nil)
		if err != nil {
			return nil, nil, nil, errors.Join(err, pool.Close())
		}
		return db.Transcripts(), db.Inbox(), func() error { return errors.Join(db.Close(), pool.Close()) }, nil
	}
	var pools [2]*sql.DB
	for i, connections := range []int{8, 1} {
		if pools[i], err = openSQLite(o.sqlite); err != nil {
			return nil, nil, nil, err
		}
		pools[i].SetMaxOpenConns(connections)
	}
	db, err := sqlite.New(ctx, pools[0], &sqlite.Options{Writer: pools[1]})
	if err != nil {
		return nil, nil, nil, errors.Join(err, pools[0].Close(), pools[1].Close())
	}
	return db.Transcripts(), db.Inbox(), func() error { return errors.Join(db.Close(), pools[1].Close(), pools[0].Close()) }, nil
}
