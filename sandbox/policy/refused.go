package policy

import "fmt"

// Reason is why something is refused. Reasons are stable, for programs.
type Reason string

// The reasons.
const (
	EmptyCommand     Reason = "empty_command"
	CommandTooLarge  Reason = "command_too_large"
	MetadataAddress  Reason = "blocked_metadata_access"
	UseToolInstead   Reason = "use_tool_instead"
	EmptyPath        Reason = "empty_path"
	AbsolutePath     Reason = "absolute_path"
	PathClimbs       Reason = "path_climbs"
	PathEncoding     Reason = "path_encoding"
	HostNotAllowed   Reason = "host_not_allowed"
	AddressInternal  Reason = "address_internal"
	HostNotAHostname Reason = "host_not_a_hostname"
)

// RefusedError says that a policy refuses something. Nothing was done.
type RefusedError struct {
	Reason Reason
	// Hint is what to do instead, in a sentence of the host's or this package's own, never of who asked.
	Hint string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("policy: %s: %s", e.Reason, e.Hint) }

// Problem tells the reason and the hint.
func (e *RefusedError) Problem() (status int, code, sentence string) {
	return 422, string(e.Reason), e.Hint
}

func refused(r Reason, hint string) error { return &RefusedError{Reason: r, Hint: hint} }
