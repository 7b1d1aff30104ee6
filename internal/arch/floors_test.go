package arch

import (
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// room is one line of the house.
type room struct {
	Path  string // below the module; "/..." at the end: and every folder below
	Floor int
	// Only, where it is not nil, names the rooms it imports, of all on lower floors.
	Only []string
	// Links are the modules that it may link, by itself or through others, beyond google/uuid.
	Links []string
}

// The highest floor that tests and suites import, and the one of the drivers.
const (
	lobby   = 8
	drivers = 7
)

// house is every folder's place. See doc.go before you add one.
var house = []room{
	{Path: ".", Floor: 0, Only: []string{}},
	{Path: "access", Floor: 0, Only: []string{}},
	{Path: "internal/id", Floor: 0, Only: []string{}, Links: []string{"github.com/google/uuid"}},
	{Path: "internal/host", Floor: 1, Only: []string{"access"}},
	{Path: "internal/need", Floor: 0, Only: []string{}},
	{Path: "internal/mutanttest", Floor: 0, Only: []string{"internal/need"}},
	{Path: "internal/filetest", Floor: 0, Only: []string{}},
	{Path: "internal/pgtest", Floor: 0},
	{Path: "internal/weedtest", Floor: 0},
	{Path: "internal/arch", Floor: 0, Only: []string{}},
	{Path: "internal/lab", Floor: 0, Only: []string{}}, // tests only, which import the drivers
	{Path: "internal/sim", Floor: 0, Only: []string{}}, // tests only, which import the drivers
	{Path: "billing", Floor: 1, Only: []string{"access"}},
	{Path: "sandbox", Floor: 1, Only: []string{"access"}},
	{Path: "internal/changes", Floor: 2, Only: []string{"sandbox"}},
	{Path: "sandbox/policy", Floor: 2, Only: []string{"sandbox"}},
	{Path: "mount", Floor: 2, Only: []string{"access", "internal/host", "sandbox"}},
	{Path: "session", Floor: 3, Only: []string{"access", "billing", "internal/host", "sandbox", "mount"}},
	{Path: "session/transcript", Floor: 4},
	{Path: "session/shell", Floor: 4},
	{Path: "session/layout", Floor: 4},
	{Path: "mount/files", Floor: 4, Links: gocloud},
	{Path: "mount/files/filestest", Floor: 5, Links: gocloud}, // its checks go through mount/files
	{Path: "session/agenttool", Floor: 5},
	{Path: "session/transcript/pijsonl", Floor: 5, Only: []string{"access", "session/transcript"}},
	{Path: "internal/crash/talk", Floor: 5, Only: []string{"access", "session/transcript"}},
	{Path: "internal/sqlstore", Floor: 6, Links: bun},
	{Path: "drivers/memory", Floor: drivers},
	{Path: "drivers/cloudevents", Floor: drivers},
	{Path: "drivers/dir", Floor: drivers},
	{Path: "drivers/geesefs", Floor: drivers},
	{Path: "drivers/local/...", Floor: drivers, Links: []string{"golang.org/x/sys"}},
	{Path: "drivers/sqlite", Floor: drivers, Links: slices.Concat(bun, sqlite)},
	{Path: "drivers/postgres", Floor: drivers, Links: slices.Concat(bun, postgres)},
	{Path: "drivers/s3", Floor: drivers, Links: slices.Concat(gocloud, aws)},
	{Path: "examples/...", Floor: lobby, Links: slices.Concat(bun, sqlite)},
	{Path: "internal/crash/...", Floor: lobby, Links: slices.Concat(bun, sqlite, postgres)},
}

// gocloud is what gocloud.dev/blob links, the greater part for its traces and metrics.
var gocloud = []string{
	"gocloud.dev",
	"github.com/cespare/xxhash/v2",
	"github.com/go-logr/logr",
	"github.com/go-logr/stdr",
	"github.com/googleapis/gax-go/v2",
	"go.opentelemetry.io/auto/sdk",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/log",
	"go.opentelemetry.io/otel/metric",
	"go.opentelemetry.io/otel/sdk",
	"go.opentelemetry.io/otel/sdk/metric",
	"go.opentelemetry.io/otel/trace",
	"golang.org/x/net",
	"golang.org/x/sys",
	"golang.org/x/text",
	"golang.org/x/xerrors",
	"google.golang.org/api",
	"google.golang.org/genproto/googleapis/rpc",
	"google.golang.org/grpc",
	"google.golang.org/protobuf",
}

// aws is what the SDK's clients of S3 and STS link, and gocloud.dev's bucket
// of S3, which brings the rest of the SDK's configuration.
var aws = []string{
	"github.com/aws/aws-sdk-go-v2",
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream",
	"github.com/aws/aws-sdk-go-v2/config",
	"github.com/aws/aws-sdk-go-v2/credentials",
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds",
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager",
	"github.com/aws/aws-sdk-go-v2/internal/configsources",
	"github.com/aws/aws-sdk-go-v2/internal/endpoints/v2",
	"github.com/aws/aws-sdk-go-v2/internal/v4a",
	"github.com/aws/aws-sdk-go-v2/service/internal/accept-encoding",
	"github.com/aws/aws-sdk-go-v2/service/internal/checksum",
	"github.com/aws/aws-sdk-go-v2/service/internal/presigned-url",
	"github.com/aws/aws-sdk-go-v2/service/internal/s3shared",
	"github.com/aws/aws-sdk-go-v2/service/s3",
	"github.com/aws/aws-sdk-go-v2/service/signin",
	"github.com/aws/aws-sdk-go-v2/service/sso",
	"github.com/aws/aws-sdk-go-v2/service/ssooidc",
	"github.com/aws/aws-sdk-go-v2/service/sts",
	"github.com/aws/smithy-go",
	"github.com/google/wire",
}

// bun is what uptrace/bun links.
var bun = []string{
	"github.com/jinzhu/inflection",
	"github.com/puzpuzpuz/xsync/v3",
	"github.com/tmthrgd/go-hex",
	"github.com/uptrace/bun",
	"github.com/vmihailenco/msgpack/v5",
	"github.com/vmihailenco/tagparser/v2",
	"golang.org/x/sys",
}

// sqlite is what modernc.org/sqlite links, and bun's dialect for it.
var sqlite = []string{
	"github.com/dustin/go-humanize",
	"github.com/mattn/go-isatty",
	"github.com/ncruces/go-strftime",
	"github.com/remyoudompheng/bigfft",
	"github.com/uptrace/bun/dialect/sqlitedialect",
	"golang.org/x/sys",
	"modernc.org/libc",
	"modernc.org/mathutil",
	"modernc.org/memory",
	"modernc.org/sqlite",
}

// postgres is what the parts of jackc/pgx that database/sql needs link, and bun's dialect for it.
var postgres = []string{
	"github.com/jackc/pgpassfile",
	"github.com/jackc/pgservicefile",
	"github.com/jackc/pgx/v5",
	"github.com/jackc/puddle/v2",
	"github.com/uptrace/bun/dialect/pgdialect",
	"golang.org/x/sync",
	"golang.org/x/text",
}

// placeOf is the room of a folder. A suite's is one above its subject, which
// is the room it stands in or beside.
func placeOf(dir string) (room, bool) {
	for _, r := range house {
		if below, all := strings.CutSuffix(r.Path, "/..."); below == dir || all && strings.HasPrefix(dir, below+"/") {
			r.Path = dir
			return r, true
		}
	}
	if subject, ok := strings.CutSuffix(path.Base(dir), "test"); ok && subject != "" {
		above := path.Dir(dir)
		if path.Base(above) != subject {
			above = path.Join(above, subject)
		}
		if r, ok := placeOf(above); ok {
			return room{Path: dir, Floor: r.Floor + 1}, true
		}
	}
	return room{}, false
}

// driver is the driver a folder belongs to; empty where it belongs to none.
func driver(dir string) string {
	if below, ok := strings.CutPrefix(dir, "drivers/"); ok {
		name, _, _ := strings.Cut(below, "/")
		return name
	}
	return ""
}

const whyFloors = "a room that imports only lower ones can be understood, tested and replaced without those above it, and an import never brings more than its name says (internal/arch/doc.go)"

func TestFloors(t *testing.T) {
	report(t, whyFloors, theModule(t).each(floorsRule))
}

func floorsRule(fset *token.FileSet, f *folder) []finding {
	here, ok := placeOf(f.Path)
	if !ok {
		return []finding{{f.Path, "this folder has no floor: give it a line in house (internal/arch/floors_test.go), on the lowest floor above everything it imports, and say in the commit why the house needs the room"}}
	}
	var all []finding
	for _, s := range f.Files {
		if f.Path == "." && !s.Test && len(s.Decls) > 0 {
			all = append(all, found(fset, s.Decls[0].Pos(), "the package at the root is a map and holds no code"))
		}
		for _, spec := range s.Imports {
			target, ok := ours(imported(spec))
			if !ok || target == f.Path {
				continue
			}
			there, ok := placeOf(target)
			if !ok {
				continue // its own folder is reported
			}
			if what := mayImport(here, there, s.Test || suite(f.Path)); what != "" {
				all = append(all, found(fset, spec.Pos(), "imports %s: %s", target, what))
			}
		}
	}
	return all
}

// mayImport says what is wrong with an import, if anything is.
func mayImport(here, there room, test bool) string {
	one := driver(here.Path) != "" && driver(here.Path) == driver(there.Path)
	switch {
	case test && there.Floor < lobby:
		return ""
	case test:
		return "tests and suites import nothing from floor 8"
	case suite(there.Path):
		return "a suite is for tests: it links package testing"
	case there.Path == "internal/need":
		return "it is for tests: it links package testing"
	case one:
		return ""
	case driver(here.Path) != "" && driver(there.Path) != "":
		return "a driver never imports another: hosts choose one without the other"
	case there.Floor >= here.Floor:
		return "it is not on a lower floor"
	case here.Only != nil && !slices.Contains(here.Only, there.Path) && there.Path != "internal/id":
		return "this room imports only " + strings.Join(append([]string{"internal/id"}, here.Only...), ", ")
	}
	return ""
}

func TestFloorsRule(t *testing.T) {
	const m = "import _ \"" + modulePath + "/"
	for _, c := range []struct {
		rule, dir, file, imports string
		want                     []string
	}{
		{"a lower floor may be imported", "session", "x.go", m + `sandbox"`, nil},
		{"internal/id may be imported from any floor above it", "mount", "x.go", m + `internal/id"`, nil},
		{"what is not ours is of no concern here", "access", "x.go", `import "github.com/google/uuid"`, nil},
		{"a higher floor may not", "sandbox", "x.go", m + `session"`, []string{"sandbox/x.go:2: imports session: it is not on a lower floor"}},
		{"nor the same floor", "billing", "x.go", m + `sandbox"`, []string{"not on a lower floor"}},
		{"a room with a list keeps to it", "mount", "x.go", m + `billing"`, []string{"imports only internal/id, access, internal/host, sandbox"}},
		{"a driver may import a room", "drivers/local", "x.go", m + `sandbox"`, nil},
		{"a driver may import a folder of its own", "drivers/local", "x.go", m + `drivers/local/inner"`, nil},
		{"a driver never imports another", "drivers/sqlite", "x.go", m + `drivers/memory"`, []string{"never imports another"}},
		{"a test may import any floor below 8", "access", "x_test.go", m + `drivers/memory"`, nil},
		{"a suite may too", "sandbox/sandboxtest", "x.go", m + `session"`, nil},
		{"nothing but tests may import a suite", "session", "x.go", m + `sandbox/sandboxtest"`, []string{"links package testing"}},
		{"nor internal/need", "drivers/local", "x.go", m + `internal/need"`, []string{"links package testing"}},
		{"tests don't import examples", "session", "x_test.go", m + `examples/quickstart"`, []string{"nothing from floor 8"}},
		{"the root holds no code", ".", "x.go", "const x = 1", []string{"x.go:2: the package at the root is a map"}},
		{"every folder has a floor", "attic", "x.go", "", []string{"attic: this folder has no floor"}},
		{"a suite needs a subject", "session/attictest", "x.go", "", []string{"has no floor"}},
		{"a suite may stand beside its subject", "sandboxtest", "x.go", "", nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			fset, f := example(t, c.dir, c.file, "package x\n"+c.imports+"\n")
			expect(t, floorsRule(fset, f), c.want...)
		})
	}
}
