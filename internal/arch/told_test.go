package arch

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const whyTold = "of every refusal it is decided what a client is told and whether the audit hears of it: a denial of what exists makes one event, and nothing else makes any"

// kind is why a host's client is refused. It decides about the audit.
type kind string

const (
	denial kind = "denial" // of what exists, by package access: one event
	ended  kind = "ended"  // of what was allowed before, by package access: one event, and none where nobody could say for too long
	absent kind = "absent" // what is not there, and what is and is hidden: an event in the second case
	lacks  kind = "lacks"  // what is not there, among what nobody is denied: no event
	input  kind = "input"  // what was asked can't be: no event
	state  kind = "state"  // not as things stand: no event
	limit  kind = "limit"  // not so much, or not without money: no event
	fault  kind = "fault"  // nobody's doing: no event
)

// audited reports whether a refusal of the kind may make an event.
func (k kind) audited() bool { return k == denial || k == ended || k == absent }

// fits are the statuses of each kind.
var fits = map[kind][]int{
	denial: nil, // the reason's, which is looked at in package access
	ended:  {403},
	absent: {404},
	lacks:  {404},
	input:  {400, 411, 413, 422, 501},
	state:  {409, 410, 412, 421},
	limit:  {402, 429, 507},
	fault:  {500, 501, 502, 503},
}

// told is what is decided about one refusal.
type told struct {
	kind    kind
	answers []string // each a status and a code, sorted; none where they are another's
}

// refusals is every sentinel and every error type with a method Problem.
var refusals = map[string]told{
	"access.DeniedError": {denial, nil}, // as its reason
	"access.FieldError":  {input, nil},  // computed: 400 invalid_input

	"billing.ErrClosed":     {state, []string{"409 closed"}},
	"billing.ErrConflict":   {state, []string{"409 conflict"}},
	"billing.ErrNotFound":   {lacks, []string{"404 not_found"}},
	"billing.ErrUnknown":    {fault, []string{"503 unknown_outcome"}},
	"billing.MarkError":     {state, []string{"409 conflict"}},
	"billing.NoTariffError": {fault, []string{"503 unavailable"}},
	"billing.OverflowError": {input, []string{"400 out_of_range"}},
	"billing.RefusedError":  {limit, []string{"402 payment_required", "429 work_limit"}},

	"drivers/s3.ErrUnconfined": {fault, []string{"503 storage_unconfined"}},
	"drivers/s3.NameError":     {input, []string{"422 invalid_path"}},

	"mount.ErrExists":        {state, []string{"409 mount_exists"}}, // what has the slug can be seen by who asked: no slug that is asked for is a protected one's
	"mount.ErrNotFound":      {absent, []string{"404 not_found"}},
	"mount.ErrTakenOver":     {state, []string{"409 folder_taken_over"}},
	"mount.ErrTaken":         {state, []string{"409 mount_taken"}},
	"mount.ErrUndecided":     {fault, []string{"503 unavailable"}},
	"mount.ErrUnavailable":   {fault, []string{"503 mount_unavailable"}},
	"mount.InUseError":       {state, []string{"409 folder_in_use"}},
	"mount.MountError":       {fault, []string{"501 folder_unsupported", "501 workdir_unsupported", "503 folder_unavailable", "503 workdir_unavailable"}},
	"mount.UnreachableError": {fault, []string{"501 storage_unreachable"}},
	"mount.VersionError":     {state, []string{"409 conflict"}},

	"mount/files.ConflictError":     {state, []string{"409 exists", "412 precondition_failed"}},
	"mount/files.ErrExpired":        {state, []string{"409 upload_expired"}},
	"mount/files.ErrIncomplete":     {input, []string{"400 incomplete_body"}},
	"mount/files.ErrKeyReused":      {state, []string{"409 idempotency_key_reused"}},
	"mount/files.ErrLengthRequired": {input, []string{"411 length_required"}},
	"mount/files.ErrLockLost":       {state, []string{"409 folder_taken_over"}},
	"mount/files.ErrNotFound":       {lacks, []string{"404 not_found"}},
	"mount/files.FullError":         {limit, []string{"507 folder_full"}},
	"mount/files.InFlightError":     {state, []string{"409 upload_in_flight"}},
	"mount/files.LockedError":       {state, []string{"409 folder_in_use"}},
	"mount/files.PartialError":      {fault, []string{"503 partly_done"}},
	"mount/files.PathError":         {input, []string{"422 invalid_path"}},
	"mount/files.QuotaError":        {limit, []string{"429 attachment_limit"}},
	"mount/files.TooLargeError":     {input, []string{"413 too_large"}},
	"mount/files.UnsupportedError":  {input, []string{"501 unsupported"}},

	"sandbox.AttemptsError":     {fault, []string{"503 start_failed"}},
	"sandbox.ErrArchive":        {input, []string{"400 invalid_archive"}},
	"sandbox.ErrAsleep":         {state, []string{"409 asleep"}},
	"sandbox.ErrClosed":         {state, []string{"409 handle_closed"}},
	"sandbox.ErrCrossDevice":    {input, []string{"400 cross_device"}},
	"sandbox.ErrEnded":          {state, []string{"409 ended"}},
	"sandbox.ErrEscapes":        {input, []string{"400 path_escapes"}},
	"sandbox.ErrGone":           {state, []string{"410 machine_gone"}},
	"sandbox.ErrInvalid":        {input, []string{"400 invalid_argument"}},
	"sandbox.ErrIsDir":          {input, []string{"400 is_a_directory"}},
	"sandbox.ErrLost":           {fault, []string{"502 outcome_lost"}},
	"sandbox.ErrNotAllowed":     {state, []string{"409 not_allowed"}},
	"sandbox.ErrNotDir":         {input, []string{"400 not_a_directory"}},
	"sandbox.ErrNotEmpty":       {state, []string{"409 not_empty"}},
	"sandbox.ErrNotLink":        {input, []string{"400 not_a_link"}},
	"sandbox.ErrNotSent":        {fault, []string{"503 not_sent"}},
	"sandbox.ErrNotStarted":     {input, []string{"400 not_started"}},
	"sandbox.ErrStale":          {state, []string{"410 machine_replaced"}},
	"sandbox.ErrStarting":       {fault, []string{"503 starting"}},
	"sandbox.ErrTooManyWatches": {limit, []string{"507 watch_limit"}},
	"sandbox.ErrUnavailable":    {fault, []string{"503 unavailable"}},
	"sandbox.ErrUnsupported":    {input, []string{"501 unsupported"}},
	"sandbox.ErrWorking":        {state, []string{"409 working"}},
	"sandbox.ErrWrongHost":      {state, []string{"421 wrong_host"}},
	"sandbox.LimitError":        {input, []string{"501 limit_unsupported"}},
	"sandbox.ErrNoProcess":      {lacks, []string{"404 not_found"}},
	"sandbox.ErrOutputLost":     {fault, []string{"502 output_lost"}},
	"sandbox.ErrPrecondition":   {state, []string{"412 precondition_failed"}},
	"sandbox.LostError":         {state, []string{"409 lost"}},
	"sandbox.TarLimitError":     {input, []string{"413 archive_too_large"}},
	"sandbox.ProvisioningError": {fault, []string{"503 provisioning"}},

	"sandbox/policy.RefusedError": {input, []string{
		"422 absolute_path", "422 address_internal", "422 blocked_metadata_access", "422 command_too_large", "422 empty_command", "422 empty_path",
		"422 host_not_a_hostname", "422 host_not_allowed", "422 path_climbs", "422 path_encoding", "422 refused", "422 use_tool_instead",
	}},

	"session.ElsewhereError":        {state, []string{"421 elsewhere"}},
	"session.ErrClaimed":            {state, []string{"409 machine_claimed"}},
	"session.ErrClosed":             {state, []string{"409 work_closed"}},
	"session.ErrConversationClosed": {state, []string{"409 conversation_closed"}},
	"session.ErrConversationTaken":  {state, []string{"409 conversation_unavailable"}}, // whoever has it: an id is no secret, what it stands for is
	"session.ErrDraining":           {fault, []string{"503 draining"}},
	"session.ErrEnded":              {state, []string{"409 ended"}},
	"session.ErrEnvironmentGone":    {state, []string{"410 environment_gone"}}, // another project's too, as if there were none
	"session.ErrExists":             {state, []string{"409 exists"}},
	"session.ErrFenced":             {state, []string{"409 lease_lost"}},
	"session.ErrNoMachine":          {state, []string{"409 no_machine"}},
	"session.ErrNoSession":          {state, []string{"409 no_session"}},
	"session.ErrNotFound":           {absent, []string{"404 not_found"}},
	"session.ErrOutOfCredit":        {limit, []string{"402 payment_required"}},
	"session.ErrRevoked":            {ended, []string{"403 revoked"}},
	"session.ErrStale":              {state, []string{"409 conflict"}},
	"session.ErrUnavailable":        {fault, []string{"503 unavailable"}},
	"session.ErrUnknown":            {fault, []string{"503 unknown_outcome"}},
	"session.HeldError":             {state, []string{"409 held"}},
	"session.LimitError":            {limit, []string{"429 conversation_limit", "429 session_limit", "429 work_limit"}},
	"session.WorkdirError":          {fault, []string{"501 workdir_unsupported"}},
	"session.errElsewhere":          {fault, []string{"503 unavailable"}},
	"session.errMute":               {fault, []string{"503 unavailable"}},
	"session.errStalled":            {fault, []string{"503 unavailable"}},
	"session.errUnconfigured":       {fault, []string{"503 unavailable"}},
	"session.errUnsure":             {fault, []string{"503 unavailable"}},

	"session/transcript.EntryConflictError": {state, []string{"409 entry_conflict"}},
	"session/transcript.ErrArchived":        {state, []string{"409 archived"}},
	"session/transcript.ErrBusy":            {fault, []string{"503 busy"}},
	"session/transcript.ErrExists":          {state, []string{"409 exists"}},
	"session/transcript.ErrFenced":          {state, []string{"409 turn_lost"}},
	"session/transcript.ErrHeld":            {state, []string{"409 inputs_held"}},
	"session/transcript.ErrInTurn":          {state, []string{"409 in_turn"}},
	"session/transcript.ErrNotFound":        {lacks, []string{"404 not_found"}}, // who may see the conversation was asked before
	"session/transcript.ErrUnknown":         {fault, []string{"503 unknown_outcome"}},
	"session/transcript.ErrWaiting":         {state, []string{"409 inputs_waiting"}},
	"session/transcript.HeadError":          {state, []string{"409 head_moved"}},
	"session/transcript.InputConflictError": {state, []string{"409 input_conflict"}},
	"session/transcript.LimitError":         {input, []string{"413 too_large"}},
	"session/transcript.PathError":          {input, []string{"422 wrong_place"}},
	"session/transcript.LineError":          {input, []string{"422 bad_line"}},
	"session/transcript.PromotedError":      {state, []string{"409 promoted"}},
	"session/transcript.SettledError":       {state, []string{"409 settled"}},
	"session/transcript.TooLateError":       {state, []string{"409 being_delivered", "409 too_late"}},
	"session/transcript.VersionError":       {state, []string{"409 conflict"}},

	"session/transcript/pijsonl.ErrVersion": {input, []string{"422 unknown_version"}},

	"drivers/cloudevents.EventError":  {fault, []string{"500 metering_unusable"}},
	"drivers/cloudevents.ExportError": {fault, []string{"503 metering_unavailable"}},
	"drivers/geesefs.refusedError":    {fault, nil}, // as mount.ErrUnavailable
	"drivers/local.ConfinementError":  {fault, []string{"501 confinement_unavailable"}},
	"drivers/memory.ErrNoReply":       {fault, []string{"503 no_reply"}},
	"drivers/postgres.ServerError":    {fault, []string{"503 database_unreachable"}},
	"drivers/sqlite.BusyError":        {fault, []string{"503 busy"}},
	"drivers/sqlite.FileError":        {fault, []string{"500 database_unusable"}},
	"internal/sqlstore.SchemaError":   {fault, []string{"503 schema"}},
}

// The table is total, says what the code says, and holds nothing that is gone.
func TestWhatEveryRefusalTells(t *testing.T) { // T-44, T-45
	c := theTypes(t)
	seen := map[string]bool{}
	report(t, whyTold, c.each(func(p *typed) []finding { return toldRule(p, refusals, seen) }))
	for name := range refusals {
		if dir, _, _ := strings.Cut(name, "."); !seen[name] && c.done[dir] != nil {
			t.Errorf("%s is in the table refusals, and nowhere else", name)
		}
	}
	events := 0
	for _, r := range refusals {
		if r.kind.audited() {
			events++
		}
	}
	if events != 4 { // a denial that shows, one that comes while work goes on, and the two not-founds that hide one
		t.Errorf("%d refusals may be in the audit", events)
	}
}

// toldRule compares the refusals of a package with a table, and notes which it saw.
func toldRule(p *typed, table map[string]told, seen map[string]bool) []finding {
	if strings.HasPrefix(p.Path, "examples/") || suite(p.Path) {
		return nil
	}
	var all []finding
	check := func(n ast.Node, name string, problems []problem) {
		name = p.Path + "." + name
		seen[name] = true
		want, ok := table[name]
		if !ok {
			all = append(all, found(p.Fset, n.Pos(), "%s has no line in the table refusals, in told_test.go", name))
			return
		}
		var answers []string
		for _, made := range problems {
			answers = append(answers, strconv.Itoa(made.status)+" "+made.code)
			if !slices.Contains(fits[want.kind], made.status) {
				all = append(all, found(p.Fset, n.Pos(), "%s is said to be of the kind %s, and has the status %d", name, want.kind, made.status))
			}
			if (made.status == 404 || made.code == "not_found") && made != (problem{404, "not_found", "Not found."}) {
				all = append(all, found(p.Fset, n.Pos(), "%s is told as %d %s %q: what is not found is told in one way", name, made.status, made.code, made.sentence))
			}
		}
		slices.Sort(answers)
		if answers = slices.Compact(answers); !slices.Equal(answers, want.answers) {
			all = append(all, found(p.Fset, n.Pos(), "%s answers %q, in the table refusals it is %q", name, answers, want.answers))
		}
	}
	methods := map[string]*ast.FuncDecl{}
	for _, file := range p.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, x := range n.Values {
					if call, ok := x.(*ast.CallExpr); ok && i < len(n.Names) && p.isFunc(call.Fun, "access", "NewSentinel") {
						check(n.Names[i], n.Names[i].Name, p.problems([][]ast.Expr{call.Args[1:]}))
					}
				}
			case *ast.FuncDecl:
				if f, ok := p.Info.Defs[n.Name].(*types.Func); ok && n.Recv != nil && isProblem(f) && types.Implements(f.Signature().Recv().Type(), errorType) {
					methods[strings.TrimPrefix(types.TypeString(f.Signature().Recv().Type(), func(*types.Package) string { return "" }), "*")] = n
				}
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if p.Path == "access" && name == "Sentinel" {
			continue // each is looked at where it is made
		}
		var results [][]ast.Expr
		ast.Inspect(methods[name].Body, func(n ast.Node) bool {
			if ret, ok := n.(*ast.ReturnStmt); ok && len(ret.Results) == 3 {
				results = append(results, ret.Results)
			}
			return true
		})
		check(methods[name], name, p.problems(results))
	}
	return all
}

// problems are those that are constant; the others are looked at by sentenceRule and sentinelRule.
func (p *typed) problems(results [][]ast.Expr) (all []problem) {
	for _, exprs := range results {
		if made, ok := p.constants(exprs); ok {
			all = append(all, made)
		}
	}
	return all
}

func TestToldRule(t *testing.T) {
	p := theTypes(t).example(t, "session", "x.go", `package session

import "github.com/bunkroom/bunkroom/access"

var (
	ErrFine  = access.NewSentinel("x", 409, "fine", "Fine.")
	ErrNew   = access.NewSentinel("x", 409, "new", "New.")
	ErrOther = access.NewSentinel("x", 409, "other", "Other.")
	ErrGone  = access.NewSentinel("x", 404, "not_found", "No session 7.")
	ErrFault = access.NewSentinel("x", 503, "down", "Down.")
)

type FineError struct{ full bool }

func (*FineError) Error() string { return "" }
func (e *FineError) Problem() (status int, code, sentence string) {
	if e.full {
		return 429, "full", "Full."
	}
	return 402, "poor", "Poor."
}

type NewError struct{}

func (NewError) Error() string                                   { return "" }
func (NewError) Problem() (status int, code, sentence string)    { return 400, "new", "New." }
`)
	seen := map[string]bool{}
	got := toldRule(p, map[string]told{
		"session.ErrFine":   {state, []string{"409 fine"}},
		"session.ErrOther":  {state, []string{"409 another"}},
		"session.ErrGone":   {absent, []string{"404 not_found"}},
		"session.ErrFault":  {limit, []string{"503 down"}},
		"session.FineError": {limit, []string{"402 poor", "429 full"}},
	}, seen)
	expect(t, got,
		"x.go:7: session.ErrNew has no line",
		`x.go:8: session.ErrOther answers ["409 other"], in the table refusals it is ["409 another"]`,
		`x.go:9: session.ErrGone is told as 404 not_found "No session 7."`,
		"x.go:10: session.ErrFault is said to be of the kind limit, and has the status 503",
		"x.go:26: session.NewError has no line")
	if len(seen) != 7 {
		t.Errorf("saw %v", seen)
	}
}
