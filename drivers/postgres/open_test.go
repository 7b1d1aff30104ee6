package postgres_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
)

// What can't be right is refused by name, and a password is never part of what is said.
func TestOpenRefuses(t *testing.T) {
	for _, bad := range []struct {
		dsn   string
		opts  postgres.Options
		field string
	}{
		{"", postgres.Options{}, "dsn"},
		{"postgres://u:hunter2@host:port/db", postgres.Options{}, "dsn"},
		{"host=h password=hunter2 sslmode=sometimes", postgres.Options{}, "dsn"},
		{"nonsense hunter2", postgres.Options{}, "dsn"},
		{"host=h password=hunter2 default_query_exec_mode=telepathy", postgres.Options{}, "dsn"},
		{"host=/nowhere password=hunter2", postgres.Options{Prefix: "No"}, "Prefix"},
		{"host=/nowhere password=hunter2", postgres.Options{Connections: -1}, "Connections"},
	} {
		_, err := postgres.Open(t.Context(), bad.dsn, &bad.opts)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != bad.field || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v, want a FieldError of %s", bad.dsn, err, bad.field)
		}
	}
	if _, err := postgres.New(t.Context(), nil, nil); !errors.As(err, new(*access.FieldError)) {
		t.Errorf("New without a database: got %v", err)
	}
	host := pool(t, "host=/nowhere")
	if _, err := postgres.New(t.Context(), host, &postgres.Options{Connections: 3}); !errors.As(err, new(*access.FieldError)) {
		t.Errorf("New with connections: got %v", err)
	}
}

// Each way in which there is no connection has its reason, and its cause can be had.
func TestServerErrors(t *testing.T) {
	good := server.DSN(t)
	admin(t, "CREATE ROLE locked NOLOGIN", "CREATE ROLE few LOGIN CONNECTION LIMIT 0")
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mute.Close() // nobody listens there now
	for _, bad := range []struct {
		dsn    string
		reason postgres.ServerReason
		answer bool // the server itself says so
	}{
		{"host=/nowhere user=u dbname=d password=hunter2", postgres.Unreachable, false},
		{"postgres://u:hunter2@" + mute.Addr().String() + "/d?sslmode=disable", postgres.Unreachable, false},
		{strings.Replace(good, "dbname=postgres", "dbname=nothere", 1), postgres.NoAccess, true},
		{strings.Replace(good, "user=postgres", "user=nobody password=hunter2", 1), postgres.NoAccess, true},
		{strings.Replace(good, "user=postgres", "user=locked", 1), postgres.NoAccess, true},
		{strings.Replace(good, "user=postgres", "user=few", 1), postgres.Unready, true},
	} {
		_, err := postgres.Open(t.Context(), bad.dsn, nil)
		e, ok := errors.AsType[*postgres.ServerError](err)
		if !ok || e.Reason != bad.reason || errors.As(err, new(*pgconn.PgError)) != bad.answer || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want reason %v", bad.dsn, err, bad.reason)
			continue
		}
		if !strings.Contains(err.Error(), bad.reason.String()) {
			t.Errorf("%s: the error %q does not tell the reason", bad.dsn, err)
		}
		if status, code, _ := e.Problem(); status != 503 || code != "database_unreachable" {
			t.Errorf("problem %d %s", status, code)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := postgres.Open(ctx, good, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: got %v", err)
	}
}

// A server that can't serve is refused by the name of the setting.
func TestServerSettings(t *testing.T) {
	for _, s := range []struct{ version, encoding, quoting, field string }{
		{"150014", "UTF8", "on", ""},
		{"120000", "UTF8", "on", ""},
		{"110022", "UTF8", "on", "server_version_num"},
		{"150014", "SQL_ASCII", "on", "server_encoding"},
		{"150014", "UTF8", "off", "standard_conforming_strings"},
	} {
		err := postgres.CheckSettings(s.version, s.encoding, s.quoting)
		if e, refused := errors.AsType[*access.FieldError](err); refused != (s.field != "") || refused && e.Field != s.field {
			t.Errorf("%+v: got %v", s, err)
		}
	}
	if err := postgres.CheckSettings("?", "UTF8", "on"); err == nil {
		t.Error("a version that is no number was taken")
	}
	_, err := postgres.Open(t.Context(), server.DSN(t)+" standard_conforming_strings=off", nil)
	if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "standard_conforming_strings" {
		t.Errorf("got %v", err)
	}
}

// Statements go out without being prepared each, unless the data source name
// says otherwise, and the pool has as many connections as asked for.
func TestOpenSettings(t *testing.T) {
	db := opened(t, server.DSN(t), &postgres.Options{Connections: 3})
	if n := db.SQL().Stats().MaxOpenConnections; n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
	prepared := func(db *postgres.DB) int {
		db.SQL().SetMaxOpenConns(1)
		for _, q := range []string{"SELECT 1", "SELECT 2"} {
			if n := count(t, db, q+" + $1::int - $1::int", 1); n == 0 {
				t.Errorf("%s: got %d", q, n)
			}
		}
		return count(t, db, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT _ + %'")
	}
	if n := prepared(db); n != 0 {
		t.Errorf("%d statements were prepared", n)
	}
	if n := prepared(opened(t, server.DSN(t)+" default_query_exec_mode=cache_statement", nil)); n != 2 {
		t.Errorf("in the mode asked for %d statements were prepared, want 2", n)
	}
}

// A host's database stays open when ours is closed; ours is closed, and twice is once.
func TestClose(t *testing.T) {
	host := pool(t, server.DSN(t))
	db, err := postgres.New(t.Context(), host, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Close(), db.Close(), host.PingContext(t.Context())); err != nil {
		t.Errorf("the host's: %v", err)
	}
	own := opened(t, server.DSN(t), nil)
	if err := errors.Join(own.Close(), own.Close()); err != nil {
		t.Errorf("ours: %v", err)
	}
	if own.SQL().PingContext(t.Context()) == nil {
		t.Error("ours is still open")
	}
}
