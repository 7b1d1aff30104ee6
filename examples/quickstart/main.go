// Command quickstart does Bunkroom's main job once, for real, on embedded
// defaults: a database file, sandboxes as processes of this machine, and
// durable folders as directories.
//
//	go run ./examples/quickstart [-data DIR] [-repo DIR] [-json]
//	go run ./examples/quickstart -mounts s3 -bucket NAME -role ARN [-endpoint URL]
//
// Two agents work in one session on a copy of a source tree; a command that
// would run for ever is stopped; the session ends and its machine is proven
// gone; in a second session one of the agents finds the notes it left in the
// first. At the end the bill is explained, line by line. It exits with 1 if a promise was not kept, and leaves nothing behind
// but the data directory, which the next run uses again.
//
// With -mounts s3 the folders are in a bucket instead: of AWS, or of a store that
// speaks as it does, with STS. The keys of a user who may assume the role are in
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. It proves first that the store
// confines credentials to one folder, mints such, and has the folders mounted by
// geesefs, which must be installed, with fuse3. What is missing it says.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func main() {
	data := flag.String("data", "", "`directory` for the database, the sandboxes and the folders; empty = one in the temporary directory, or with -mounts s3 in the user's cache")
	repo := flag.String("repo", ".", "source tree to copy into the sandbox")
	asJSON := flag.Bool("json", false, "print the result as JSON on standard output, and the story on standard error")
	f := folderFlags()
	flag.Parse()
	given := true
	flag.Visit(func(f *flag.Flag) { given = given && (f.Name != "data" || *data != "") })
	if flag.NArg() > 0 || !given || *repo == "" || !f.valid() {
		flag.Usage()
		os.Exit(2)
	}
	if *data == "" {
		*data = f.dataDir()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt does not wait for the tidying up

	out := io.Writer(os.Stdout)
	if *asJSON {
		out = os.Stderr
	}
	s := &story{out: out, folders: f}
	if err := s.run(ctx, *data, *repo); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // what else went wrong came of it
		}
		s.promise("the run went through", false, err.Error())
	}
	s.Kept = len(s.Promises) > 0
	for _, p := range s.Promises {
		s.Kept = s.Kept && p.Kept
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(s)
	} else {
		s.table()
	}
	if !s.Kept {
		os.Exit(1)
	}
}

// story is what has happened, as it is told at the end.
type story struct {
	out io.Writer

	Confined  bool      `json:"confined"`
	Data      string    `json:"data"`
	Files     int       `json:"files_copied"`
	Made      int       `json:"machines_made"`
	Destroyed int       `json:"machines_proven_gone"`
	Works     int       `json:"works"`
	Seconds   float64   `json:"seconds_used"`
	Bill      bill      `json:"bill"`
	Notes     string    `json:"notes_kept_in"`
	Promises  []promise `json:"promises"`
	Kept      bool      `json:"all_promises_kept"`

	folders  *folders
	rooms    *session.Service
	machines map[sandbox.Incarnation]bool
}

type promise struct {
	What   string `json:"what"`
	Kept   bool   `json:"kept"`
	Detail string `json:"detail,omitempty"`
}

func (s *story) promise(what string, kept bool, detail string) {
	s.Promises = append(s.Promises, promise{what, kept, detail})
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// The cast: one person, one project, two agents. The directory is the host
// application's own; here everybody may do everything in the one project.
const (
	project  = access.ProjectID("demo")
	person   = access.UserID("you")
	reviewer = access.AgentID("reviewer")
	builder  = access.AgentID("builder")
)

func directory(_ context.Context, q access.Question) (access.Facts, error) {
	return access.Facts{
		Project: access.TriOf(q.Project == project), Role: access.RoleOwner, Code: access.Yes,
		Agent: access.TriOf(q.Agent == reviewer || q.Agent == builder), AgentProject: project, AgentCode: access.Yes,
		Payer: person,
	}, nil
}

func (s *story) run(ctx context.Context, data, repo string) error {
	if err := s.folders.usable(); err != nil {
		return err
	}
	repo, err := directoryAt(repo)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	if data, err = directoryAt(data); err != nil {
		return err
	}
	s.Data = data
	lock, err := os.Open(data)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { // or tidy would end the other's session
		return fmt.Errorf("another run uses %s: %w", data, err)
	}
	closeAll, err := s.open(ctx, data)
	if closeAll != nil {
		defer closeAll()
	}
	if err != nil {
		return err
	}
	if err := s.tidy(ctx); err != nil {
		return err
	}

	you := access.Actor{User: person}
	first, review, err := s.rooms.Spawn(ctx, you, session.Spawn{Name: "quickstart", Project: project, Agent: reviewer, Title: "Review"})
	if err != nil {
		return err
	}
	defer s.end(ctx, first.ID) // whatever happens below, nothing is left running
	build, err := s.rooms.AddConversation(ctx, you, session.AddConversation{Session: first.ID, Agent: builder, Title: "Build"})
	if err != nil {
		return err
	}
	s.say("Session %s with two conversations. Nothing runs yet.", first.ID)

	mark := fmt.Sprintf("reviewed in session %s", first.ID)
	var changed, folder string
	if err := s.work(ctx, "reviewer", review.ID, func(ctx context.Context, w *session.Work) error {
		if changed, err = s.review(ctx, w, repo, mark); err != nil {
			return err
		}
		folder = w.Mounts()[0].Path
		note := fmt.Sprintf("%s: %s\n", time.Now().Format(time.DateTime), mark)
		_, err := s.command(ctx, w, "reviewer", sandbox.Cmd{
			Argv: []string{"sh", "-c", `cat >> "$BUNKROOM_AGENT_DIR/notes.md"`}, Stdin: strings.NewReader(note),
		})
		return err
	}); err != nil {
		return err
	}
	if err := s.work(ctx, "builder", build.ID, func(ctx context.Context, w *session.Work) error {
		seen, err := sandbox.ReadFile(ctx, w.Sandbox().FS(), changed)
		s.promise("the builder sees the reviewer's change", strings.Contains(string(seen), mark), changed)
		if err != nil {
			return err
		}
		own := w.Mounts()[0]
		s.promise("each agent has a folder of its own", own.State == mount.Mounted && own.Path != folder, own.Path)
		exit, err := s.command(ctx, w, "builder", sandbox.Cmd{
			Argv: []string{"sh", "-c", "echo building for ever; while :; do sleep 1; done"}, Timeout: time.Second,
		})
		if err != nil {
			return err
		}
		s.promise("a command that never ends is stopped by its deadline", exit.Reason == sandbox.TimedOut, exit.Duration.Round(time.Millisecond).String())
		return nil
	}); err != nil {
		return err
	}
	s.promise("two conversations of one session share one machine", s.Made == 1, fmt.Sprintf("%d made", s.Made))
	s.end(ctx, first.ID)
	if err := s.again(ctx, you, mark, data); err != nil {
		return err
	}
	explained, detail, err := s.Bill.add(ctx)
	s.promise("every line of the bill is a meter event, and they sum to the change of the balance", explained, detail)
	return err
}

// again opens a second session, in which the reviewer finds nothing but its notes.
func (s *story) again(ctx context.Context, you access.Actor, mark, data string) error {
	second, talk, err := s.rooms.Spawn(ctx, you, session.Spawn{Name: "quickstart, later", Project: project, Agent: reviewer})
	if err != nil {
		return err
	}
	defer s.end(ctx, second.ID)
	s.say("Session %s, later.", second.ID)
	if err := s.work(ctx, "reviewer", talk.ID, func(ctx context.Context, w *session.Work) error {
		var left []string
		for f, err := range w.Sandbox().FS().ReadDir(ctx, ".") {
			if err != nil {
				return err
			}
			if f.Kind != sandbox.KindSymlink { // agent-files leads to the folders
				left = append(left, f.Name)
			}
		}
		s.promise("a new session starts with an empty working directory", len(left) == 0, strings.Join(left, " "))
		notes, err := sandbox.ReadFile(ctx, w.Sandbox().FS(), w.Mounts()[0].Path+"/notes.md")
		s.promise("the reviewer finds its notes", strings.Contains(string(notes), mark), fmt.Sprintf("%d lines", strings.Count(string(notes), "\n")))
		return err
	}); err != nil {
		return err
	}
	s.end(ctx, second.ID)
	s.Notes = s.folders.where
	s.promise("every machine that was made is proven gone", s.Made == 2 && s.Destroyed == 2, fmt.Sprintf("%d of %d", s.Destroyed, s.Made))
	left, err := os.ReadDir(filepath.Join(data, "sandboxes", "machines"))
	s.promise("nothing of them is left on disk", err == nil && len(left) == 0, fmt.Sprintf("%d directories", len(left)))
	return nil
}

// open wires the embedded defaults together.
func (s *story) open(ctx context.Context, data string) (closeAll func(), err error) {
	boxes, err := local.New(local.Config{Root: filepath.Join(data, "sandboxes")})
	var unconfined *local.ConfinementError
	if errors.As(err, &unconfined) {
		s.say("UNCONFINED: bubblewrap can't be used here (%v): commands run with all of your rights.", unconfined.Unwrap())
		boxes, err = local.New(local.Config{Root: filepath.Join(data, "sandboxes"), Unconfined: true})
	}
	if err != nil {
		return nil, err
	}
	s.Confined = boxes.Info().Caps.ShellConfined
	if s.Confined {
		s.say("Confined by bubblewrap: commands see their sandbox and nothing else of this machine.")
	}
	db, err := sqlite.Open(ctx, filepath.Join(data, "bunkroom.db"), nil)
	if err != nil {
		return nil, errors.Join(err, boxes.Close())
	}
	mounter, err := s.folders.open(ctx, s, db.Mounts(), data)
	closeAll = func() {
		s.folders.close(s)
		db.Close()
		boxes.Close()
	}
	if err != nil {
		return closeAll, err
	}
	secret, secretErr := keySecret(filepath.Join(data, "secret"))
	if err := errors.Join(db.Migrate(ctx), secretErr); err != nil {
		return closeAll, err
	}
	mounts, err := mount.New(mount.Config{Store: db.Mounts(), Mounter: mounter, Policy: mount.Required})
	if err != nil {
		return closeAll, err
	}
	gate, err := s.Bill.till(ctx, db.Ledger())
	if err != nil {
		return closeAll, err
	}
	s.machines = map[sandbox.Incarnation]bool{}
	s.rooms, err = session.New(session.Config{
		Store: db.Sessions(), Leases: db.Leases(), Directory: access.DirectoryFunc(directory),
		Sandboxes: []sandbox.Provider{boxes}, KeySecret: secret, Deployment: "quickstart", Mounts: mounts,
		Gate: gate,
	})
	return closeAll, err
}

// tidy ends what an earlier run that was killed has left.
func (s *story) tidy(ctx context.Context) error {
	page, err := s.rooms.List(ctx, access.Actor{User: person}, session.Query{Project: project})
	if err != nil {
		return err
	}
	for _, left := range page.Items {
		s.say("Ending session %s, which an earlier run left open.", left.Session.ID)
		if _, err := s.rooms.End(ctx, access.Actor{User: person}, left.Session.ID); err != nil {
			return err
		}
	}
	_, err = s.rooms.Reclaim(ctx, session.ReclaimOptions{})
	return err
}

// work opens work for a conversation and counts what it came to.
func (s *story) work(ctx context.Context, who string, id session.ConversationID, do func(context.Context, *session.Work) error) error {
	rep, err := s.rooms.Run(ctx, access.Actor{User: person, Agent: access.AgentID(who)}, session.WorkRequest{
		Conversation: id, AgentName: who, Ensure: true,
	}, func(ctx context.Context, w *session.Work) error {
		if i := w.Sandbox().Ref().Incarnation; !s.machines[i] {
			s.machines[i] = true
			s.Made++
		}
		s.say("%s works; its folder is %s", who, w.Mounts()[0].Path)
		return do(ctx, w)
	})
	s.Works++
	s.Seconds += rep.Used.Seconds()
	return err
}

// end ends a session; called again it does nothing. It also works when the run was interrupted.
func (s *story) end(ctx context.Context, id session.ID) {
	rep, err := s.rooms.End(context.WithoutCancel(ctx), access.Actor{User: person}, id)
	switch {
	case err != nil:
		s.promise("the session could be ended", false, err.Error())
	case rep.Destroyed:
		s.Destroyed++
		s.say("Session %s ended; its machine is proven gone.", id)
	case rep.Ended && rep.Pending:
		s.say("Session %s ended; its machine is being destroyed.", id)
	}
}

// review copies the source tree into the sandbox, looks at it with real
// commands, and signs a file of it. It returns which.
func (s *story) review(ctx context.Context, w *session.Work, repo, mark string) (string, error) {
	first, err := s.copyTree(ctx, w.Sandbox(), repo)
	if err != nil {
		return "", err
	}
	s.say("Copied %d files from %s.", s.Files, repo)
	commands := [][]string{
		{"sh", "-c", "find . -path ./.git -prune -o -type f -print | wc -l"},
		{"grep", "-rIlE", "--exclude-dir=.git", "--include=*.go", "func main\\(", "."},
		{"wc", "-c", "--", first},
	}
	if info, err := os.Stat(filepath.Join(repo, ".git")); err == nil && info.IsDir() {
		commands = append(commands, []string{"git", "-c", "safe.directory=*", "--no-pager", "log", "--oneline", "-n", "5"})
	}
	if gofmt, err := exec.LookPath("gofmt"); err == nil && strings.HasPrefix(gofmt, "/usr/") { // so that the sandbox has it too
		commands = append(commands, []string{gofmt, "-l", "."})
	}
	for _, argv := range commands {
		if _, err := s.command(ctx, w, "reviewer", sandbox.Cmd{Argv: argv}); err != nil {
			return "", err
		}
	}
	old, err := sandbox.ReadFile(ctx, w.Sandbox().FS(), first)
	if err != nil {
		return "", err
	}
	return first, sandbox.WriteFile(ctx, w.Sandbox().FS(), first, fmt.Appendf(old, "\n%s\n", mark), nil)
}

// command runs a command, shows its output as it comes, and how it ended. A
// command that fails has still run: its exit code is for the agent to read.
func (s *story) command(ctx context.Context, w *session.Work, who string, c sandbox.Cmd) (sandbox.Exit, error) {
	s.say("%s $ %s", who, c.Argv)
	out := &indented{w: s.out}
	exit, err := sandbox.Run(ctx, w.Sandbox(), c, out, out)
	if err == nil {
		s.say("%s   (%v, code %d)", who, exit.Reason, exit.Code)
	}
	return exit, err
}
