package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const whyIDs = "a session is not a conversation (T-01, T-03): where one's id is made from the other's, or compared with it, two threads of one session soon have two machines, or a stranger's thread is taken for one's own"

func TestSessionIDsAreNotConversationIDs(t *testing.T) {
	c := theTypes(t)
	if c.named("access", "SessionID") == nil || c.named("access", "ConversationID") == nil {
		t.Fatal("the two types of ids are not there: did they get other names?")
	}
	report(t, whyIDs, c.each(c.idsRule))
}

// idsRule finds conversions between the two kinds of id, also by way of a
// string, and comparisons of one with the other. Tests and suites make them to
// show that one kind's id finds nothing of the other.
func (c *checker) idsRule(p *typed) []finding {
	if suite(p.Path) {
		return nil
	}
	a, b := c.named("access", "SessionID"), c.named("access", "ConversationID")
	crossed := func(x, y types.Type) bool {
		return types.Identical(x, a) && types.Identical(y, b) || types.Identical(x, b) && types.Identical(y, a)
	}
	var all []finding
	for _, file := range p.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if to := p.Info.Types[n.Fun]; to.IsType() && crossed(to.Type, p.origin(n)) {
					all = append(all, found(p.Fset, n.Pos(), "makes a %s of a %s", display(to.Type), display(p.origin(n))))
				}
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && crossed(p.origin(n.X), p.origin(n.Y)) {
					all = append(all, found(p.Fset, n.Pos(), "compares a %s with a %s", display(p.origin(n.X)), display(p.origin(n.Y))))
				}
			}
			return true
		})
	}
	return all
}

// origin is the type of what e converts, through any number of conversions.
func (p *typed) origin(e ast.Expr) types.Type {
	for {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok || len(call.Args) != 1 || !p.Info.Types[call.Fun].IsType() {
			return p.Info.TypeOf(e)
		}
		e = call.Args[0]
	}
}

func TestIDsRule(t *testing.T) {
	c := theTypes(t)
	p := c.example(t, "session", "x.go", `package session

import "github.com/bunkroom/bunkroom/access"

type ID = access.SessionID

func f(s ID, v access.ConversationID, u access.UserID) bool {
	_ = ID(v)
	_ = access.ConversationID((string(s)))
	_, _, _ = ID("x"), string(v), access.SessionID(string(s))
	_ = s == ID("x") || string(u) == string(s)
	return string(s) == string(v)
}`)
	expect(t, c.idsRule(p),
		"session/x.go:8: makes a access.SessionID of a access.ConversationID",
		"session/x.go:9: makes a access.ConversationID of a access.SessionID",
		"session/x.go:12: compares a access.SessionID with a access.ConversationID")
}

const whyNoThread = "many conversations and agents share a session and its sandbox (S-01): a row that named one of them would tie the room to whoever came first"

// TestSessionRowsNameNoConversation: neither the session nor its sandbox has a
// field for a conversation or an agent.
func TestSessionRowsNameNoConversation(t *testing.T) {
	c := theTypes(t)
	for _, row := range []types.Type{c.named("session", "Session"), c.named("sandbox", "Row")} {
		if row == nil {
			t.Fatal("session.Session or sandbox.Row is not there: did it get another name?")
		}
		report(t, whyNoThread, threadRule(row))
	}
}

func threadRule(row types.Type) []finding {
	fields, ok := row.Underlying().(*types.Struct)
	if !ok {
		return []finding{{display(row), "is no struct"}}
	}
	var all []finding
	for f := range fields.Fields() {
		says := strings.ToLower(f.Name() + " " + display(f.Type()))
		if strings.Contains(says, "conversation") || strings.Contains(says, "agent") {
			all = append(all, finding{display(row), "has the field " + f.Name() + " " + display(f.Type())})
		}
	}
	return all
}

func TestThreadRule(t *testing.T) {
	p := theTypes(t).example(t, "session", "x.go", `package session

import "github.com/bunkroom/bunkroom/access"

type Session struct {
	ID       access.SessionID
	OpenedBy access.ConversationID
	AgentRef string
}`)
	expect(t, threadRule(p.Types.Scope().Lookup("Session").Type()),
		"session.Session: has the field OpenedBy access.ConversationID",
		"session.Session: has the field AgentRef string")
}

// TestSessionTablesNameNoConversation: and their tables have no such column, in any migration.
func TestSessionTablesNameNoConversation(t *testing.T) {
	const below = "internal/sqlstore/migrations"
	names, err := filepath.Glob(filepath.Join(root, below, "*", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var seen int
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if roomTable.Match(text) {
			seen++
		}
		report(t, whyNoThread, columnsRule(filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator))), string(text)))
	}
	if seen == 0 {
		t.Errorf("no migration below %s makes the table of sessions or of sandboxes: did they move?", below)
	}
}

var (
	sqlComment = regexp.MustCompile(`--[^\n]*`)
	roomTable  = regexp.MustCompile(`(?i)\b(?:CREATE|ALTER)\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"?\w*_(?:sessions|sandboxes)\b`)
	threadWord = regexp.MustCompile(`(?i)\b\w*(?:conversation|agent)\w*`)
)

// columnsRule finds the words in statements that make or alter one of the two tables.
func columnsRule(name, text string) []finding {
	var all []finding
	for statement := range strings.SplitSeq(sqlComment.ReplaceAllString(text, ""), ";") {
		if table := roomTable.FindString(statement); table != "" {
			if word := threadWord.FindString(statement); word != "" {
				all = append(all, finding{name, strings.Join(strings.Fields(table), " ") + " has " + word})
			}
		}
	}
	return all
}

func TestColumnsRule(t *testing.T) {
	expect(t, columnsRule("1.sql", `
CREATE TABLE b_sessions (id TEXT, -- not a conversation; nor an agent
    name TEXT);
CREATE TABLE b_conversations (session_id TEXT REFERENCES b_sessions (id), agent TEXT);`))
	expect(t, columnsRule("2.sql", `
CREATE TABLE IF NOT EXISTS b_sandboxes (
    id TEXT,
    first_conversation_id TEXT
);
alter table b_sessions add column agent text;`),
		"2.sql: CREATE TABLE IF NOT EXISTS b_sandboxes has first_conversation_id",
		"2.sql: alter table b_sessions has agent")
}
