package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Bad input is a *access.FieldError that names the field, and nothing is
// written, asked of the host, or told the audit.
func TestBadInput(t *testing.T) {
	type call = func(ctx context.Context, r *replica, a access.Actor, bad string) error
	spawn := func(q session.Spawn) call {
		return func(ctx context.Context, r *replica, a access.Actor, _ string) error {
			_, _, err := r.Spawn(ctx, a, q)
			return err
		}
	}
	ids := map[string]string{
		"oversize": strings.Repeat("x", access.MaxID+1), "not UTF-8": "a\xffb", "with a NUL": "a\x00b",
	}
	names := map[string]string{"oversize": strings.Repeat("ü", access.MaxName+1), "not UTF-8": "a\xffb", "with a NUL": "a\x00b"}
	notUUIDs := map[string]string{
		"no UUID": "conversation-1", "in upper case": strings.ToUpper(string(callersID)), "without dashes": strings.ReplaceAll(string(callersID), "-", ""),
		"in braces": "{" + string(callersID) + "}", "a urn": "urn:uuid:" + string(callersID), "with a space": string(callersID) + " ",
		"oversize": ids["oversize"], "not UTF-8": ids["not UTF-8"], "with a NUL": string(callersID[:35]) + "\x00",
	}
	empty := map[string]string{"empty": ""}
	merge := func(sets ...map[string]string) map[string]string {
		all := map[string]string{}
		for _, s := range sets {
			for k, v := range s {
				all[k] = v
			}
		}
		return all
	}
	for _, c := range []struct {
		what  string
		field string
		bad   map[string]string
		call  call
	}{
		{"Spawn's project", "Project", ids, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return spawn(session.Spawn{Project: access.ProjectID(bad), Agent: "builder"})(ctx, r, a, bad)
		}},
		{"Spawn's agent", "Agent", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return spawn(session.Spawn{Project: "p", Agent: access.AgentID(bad)})(ctx, r, a, bad)
		}},
		{"Spawn's name", "Name", names, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return spawn(session.Spawn{Project: "p", Agent: "builder", Name: bad})(ctx, r, a, bad)
		}},
		{"Spawn's title", "Title", names, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return spawn(session.Spawn{Project: "p", Agent: "builder", Title: bad})(ctx, r, a, bad)
		}},
		{"Spawn's conversation", "Conversation", notUUIDs, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return spawn(session.Spawn{Project: "p", Agent: "builder", Conversation: session.ConversationID(bad)})(ctx, r, a, bad)
		}},
		{"who spawns", "actor.User", ids, func(ctx context.Context, r *replica, _ access.Actor, bad string) error {
			return spawn(session.Spawn{})(ctx, r, access.Actor{User: access.UserID(bad)}, bad)
		}},
		{"Spawn's environment", "Environment", ids, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return spawn(session.Spawn{Project: "p", Agent: "builder", Environment: session.EnvironmentID(bad)})(ctx, r, a, bad)
		}},
		{"CreateEnvironment's project", "Project", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.CreateEnvironment(ctx, a, session.NewEnvironment{Project: access.ProjectID(bad)}))
		}},
		{"CreateEnvironment's name", "Name", names, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.CreateEnvironment(ctx, a, session.NewEnvironment{Project: "p", Name: bad}))
		}},
		{"Environment's id", "environment", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.Environment(ctx, a, session.EnvironmentID(bad)))
		}},
		{"RenameEnvironment's id", "environment", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return r.RenameEnvironment(ctx, a, session.EnvironmentID(bad), "x")
		}},
		{"RenameEnvironment's name", "name", names, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return r.RenameEnvironment(ctx, a, "e", bad)
		}},
		{"DeleteEnvironment's id", "environment", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.DeleteEnvironment(ctx, a, session.EnvironmentID(bad)))
		}},
		{"Environments' project", "Project", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.Environments(ctx, a, session.EnvironmentQuery{Project: access.ProjectID(bad)}))
		}},
		{"who makes an environment", "actor.User", ids, func(ctx context.Context, r *replica, _ access.Actor, bad string) error {
			return second(r.CreateEnvironment(ctx, access.Actor{User: access.UserID(bad)}, session.NewEnvironment{Project: "p"}))
		}},
		{"who deletes one", "actor.Agent", ids, func(ctx context.Context, r *replica, _ access.Actor, bad string) error {
			return second(r.DeleteEnvironment(ctx, access.Actor{User: "ann", Agent: access.AgentID(bad)}, "e"))
		}},
		{"NewConversation's project", "Project", ids, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.NewConversation(ctx, a, session.NewConversation{Project: access.ProjectID(bad)}))
		}},
		{"NewConversation's agent", "Agent", ids, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.NewConversation(ctx, a, session.NewConversation{Project: "p", Agent: access.AgentID(bad)}))
		}},
		{"NewConversation's conversation", "Conversation", notUUIDs, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.NewConversation(ctx, a, session.NewConversation{Project: "p", Conversation: session.ConversationID(bad)}))
		}},
		{"AddConversation's session", "Session", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.AddConversation(ctx, a, session.AddConversation{Session: session.ID(bad)}))
		}},
		{"AddConversation's agent", "Agent", ids, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.AddConversation(ctx, a, session.AddConversation{Session: "s", Agent: access.AgentID(bad)}))
		}},
		{"AddConversation's title", "Title", names, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.AddConversation(ctx, a, session.AddConversation{Session: "s", Title: bad}))
		}},
		{"AddConversation's conversation", "Conversation", notUUIDs, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.AddConversation(ctx, a, session.AddConversation{Session: "s", Conversation: session.ConversationID(bad)}))
		}},
		{"Rename's session", "session", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return r.Rename(ctx, a, session.ID(bad), "x")
		}},
		{"Rename's name", "name", names, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return r.Rename(ctx, a, "s", bad)
		}},
		{"Reopen's session", "session", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.Reopen(ctx, a, session.ID(bad)))
		}},
		{"Get's session", "session", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.Get(ctx, a, session.ID(bad)))
		}},
		{"Conversation's id", "conversation", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.Conversation(ctx, a, session.ConversationID(bad)))
		}},
		{"List's project", "Project", ids, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.List(ctx, a, session.Query{Project: access.ProjectID(bad)}))
		}},
		{"who lists", "actor.User", ids, func(ctx context.Context, r *replica, _ access.Actor, bad string) error {
			return second(r.List(ctx, access.Actor{User: access.UserID(bad)}, session.Query{}))
		}},
		{"End's session", "session", merge(ids, empty), func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.End(ctx, a, session.ID(bad)))
		}},
		{"Open's session", "Session", ids, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.work(ctx, a, inSession(session.ID(bad))))
		}},
		{"Open's conversation", "Conversation", ids, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.work(ctx, a, inConversation(session.ConversationID(bad))))
		}},
		{"Open's either", "Conversation", map[string]string{"neither": "", "both": "x"}, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.work(ctx, a, session.WorkRequest{Session: session.ID(bad), Conversation: session.ConversationID(bad), Ensure: true}))
		}},
		{"Run's either", "Conversation", map[string]string{"neither": "", "both": "x"}, func(ctx context.Context, r *replica, a access.Actor, bad string) error {
			return second(r.Run(ctx, a, session.WorkRequest{Session: session.ID(bad), Conversation: session.ConversationID(bad)}, mustNotRun(r.w)))
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := newWorld(t, immediate)
			r := w.replica()
			for kind, bad := range c.bad {
				err := c.call(t.Context(), r, ann, bad)
				wantField(t, kind, err, c.field)
				if status, code, sentence := problem(t, err); status != 400 || code != "invalid_input" || bad != "" && strings.Contains(sentence, bad) {
					t.Errorf("%s: Problem %d %s %q", kind, status, code, sentence)
				}
			}
			if calls := r.calls(); len(calls) > 0 || len(w.audited()) > 0 {
				t.Errorf("called %v", calls)
			}
		})
	}
}

func TestGoodInput(t *testing.T) {
	w := newWorld(t, immediate)
	r := w.replica()
	longest := strings.Repeat("ü", access.MaxName)
	s, v, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Name: "\t " + longest + " \n", Title: "  "})
	if err != nil || s.Name != longest || v.Title != "" {
		t.Errorf("a name of just %d characters, and white space: %+v %+v %v", access.MaxName, s, v, err)
	}
	if err := r.Rename(t.Context(), bob, s.ID, "  a name\t"); err != nil {
		t.Errorf("Rename by a member: %v", err)
	}
	if got := w.snap(s.ID).Session; got.Name != "a name" || got.Version != 2 {
		t.Errorf("renamed to %+v", got)
	}
	r.meddle(nil)
	if err := r.Rename(t.Context(), ann, s.ID, "a name"); err != nil || r.count("commit") > 0 {
		t.Errorf("the same name again: %v, %v", err, r.calls())
	}
	_, err = r.List(t.Context(), ann, session.Query{Project: "p", Limit: session.MaxListed + 1})
	wantField(t, "List of too many", err, "Limit")
	_, err = r.List(t.Context(), ann, session.Query{Project: "p", After: "not a token"})
	wantField(t, "List after nothing", err, "After")
	_, err = r.Environments(t.Context(), ann, session.EnvironmentQuery{Project: "p", Limit: session.MaxListed + 1})
	wantField(t, "Environments of too many", err, "Limit")
	_, err = r.Environments(t.Context(), ann, session.EnvironmentQuery{Project: "p", After: "not a token"})
	wantField(t, "Environments after nothing", err, "After")
}

// A request whose context has ended writes nothing and says so.
func TestCancelledRequests(t *testing.T) {
	for method, ways := range waysIn {
		for _, way := range ways {
			inWorld(t, method+" by "+way.takes, immediate, func(t *testing.T, w *world) {
				r := w.replica()
				s, v := r.spawn(ann)
				id := map[string]string{
					"session": string(s.ID), "conversation": string(v.ID), "project": "p", "environment": string(r.newEnvironment(ann)),
				}[way.takes]
				before := w.snap(s.ID)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := way.ask(ctx, r, ann, id)
				// What the host can't be asked under the same context is unknown, and unknown hides.
				if !errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrNotFound) && !(way.empty && err == nil) {
					t.Errorf("%v", err)
				}
				if after := w.snap(s.ID); after.Session != before.Session || after.Sandbox.Version != before.Sandbox.Version || len(w.all()) != 1 {
					t.Errorf("%+v, was %+v", after, before)
				}
				w.gate.wantEndedOnce(t)
			})
		}
	}
}

func TestConfig(t *testing.T) {
	good := func() session.Config {
		db := memory.New(nil)
		return session.Config{
			Store: db.Sessions(), Leases: db.Leases(), Directory: memory.NewDirectory(),
			Sandboxes: []sandbox.Provider{memory.NewSandboxes(nil)}, KeySecret: secret, Deployment: "bunkroom",
		}
	}
	if _, err := session.New(good()); err != nil {
		t.Fatalf("New: %v", err)
	}
	for _, c := range []struct {
		field, what string
		change      func(*session.Config)
	}{
		{"Store", "missing", func(c *session.Config) { c.Store = nil }},
		{"Leases", "missing", func(c *session.Config) { c.Leases = nil }},
		{"Directory", "missing", func(c *session.Config) { c.Directory = nil }},
		{"KeySecret", "missing", func(c *session.Config) { c.KeySecret = nil }},
		{"KeySecret", "T-12: a byte short", func(c *session.Config) { c.KeySecret = secret[:sandbox.MinSecret-1] }},
		{"Sandboxes", "nil", func(c *session.Config) { c.Sandboxes = append(c.Sandboxes, nil) }},
		{"Sandboxes", "two of one name", func(c *session.Config) { c.Sandboxes = append(c.Sandboxes, memory.NewSandboxes(nil)) }},
		{"Sandboxes", "without a name", func(c *session.Config) { c.Sandboxes = append(c.Sandboxes, odd{sandbox.Info{}}) }},
		{"Sandboxes", "bound to no host", func(c *session.Config) {
			c.Sandboxes = append(c.Sandboxes, odd{sandbox.Info{Provider: "x", Caps: sandbox.Caps{HostBound: true}}})
		}},
		{"Sandboxes", "unbound with a host", func(c *session.Config) {
			c.Sandboxes = append(c.Sandboxes, odd{sandbox.Info{Provider: "x", Host: "h"}})
		}},
		{"Deployment", "missing: two installations would share a default, and sweep each other's machines", func(c *session.Config) { c.Deployment = "" }},
		{"Deployment", "oversize", func(c *session.Config) { c.Deployment = strings.Repeat("x", access.MaxID+1) }},
		{"Deployment", "with a NUL", func(c *session.Config) { c.Deployment = "a\x00" }},
		{"Replica", "not UTF-8", func(c *session.Config) { c.Replica = "\xff" }},
		{"Replica", "empty from NewID", func(c *session.Config) { c.NewID = func() string { return "" } }},
		{"Lease", "too short", func(c *session.Config) { c.Lease = time.Second - 1 }},
		{"Lease", "negative", func(c *session.Config) { c.Lease = -time.Minute }},
		{"CallTimeout", "negative", func(c *session.Config) { c.CallTimeout = -1 }},
	} {
		conf := good()
		c.change(&conf)
		s, err := session.New(conf)
		wantField(t, c.field+" "+c.what, err, c.field)
		if s != nil {
			t.Errorf("%s %s: a Service all the same", c.field, c.what)
		}
	}
	rows := good()
	rows.Sandboxes, rows.KeySecret, rows.Deployment = nil, nil, ""
	if _, err := session.New(rows); err != nil {
		t.Errorf("New for rows alone: %v", err)
	}
}

// odd is a provider that tells odd things of itself.
type odd struct{ info sandbox.Info }

func (o odd) Info() sandbox.Info { return o.info }
func (odd) Create(context.Context, sandbox.CreateRequest) (sandbox.Machine, error) {
	return sandbox.Machine{}, sandbox.ErrUnsupported
}
func (odd) Inspect(context.Context, sandbox.Ref) ([]sandbox.Found, error) {
	return nil, sandbox.ErrUnsupported
}
func (odd) Attach(context.Context, sandbox.Ref) (sandbox.Sandbox, error) {
	return nil, sandbox.ErrUnsupported
}
func (odd) Destroy(context.Context, sandbox.Ref) error { return sandbox.ErrUnsupported }

// Who asks is checked by every method, the agent as well as the user.
func TestBadActors(t *testing.T) {
	const id = "0199ffff-0000-7000-8000-00000000000a"
	for what, bad := range map[string]string{"too long": strings.Repeat("x", 257), "NUL": "a\x00b", "not UTF-8": "a\xff"} {
		for field, a := range map[string]access.Actor{
			"actor.User":  {User: access.UserID(bad)},
			"actor.Agent": {User: "ann", Agent: access.AgentID(bad)},
		} {
			for method, ways := range waysIn {
				for _, way := range ways {
					w := newWorld(t, immediate)
					r := w.replica()
					_, err := way.ask(t.Context(), r, a, id)
					wantField(t, method+" by "+way.takes+", "+what, err, field)
					if calls := r.calls(); len(calls) > 0 || len(w.audited()) > 0 {
						t.Errorf("%s: called %v", method, calls)
					}
				}
			}
		}
	}
}
