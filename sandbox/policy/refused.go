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

// Problem is the same for every refusal of one reason. Hint says more, to an agent.
func (e *RefusedError) Problem() (status int, code, sentence string) {
	switch e.Reason {
	case EmptyCommand:
		return 422, "empty_command", "The command is empty."
	case CommandTooLarge:
		return 422, "command_too_large", "The command is too long."
	case MetadataAddress:
		return 422, "blocked_metadata_access", "The command names the address of the cloud's metadata service, which can't be used from here."
	case UseToolInstead:
		return 422, "use_tool_instead", "There is a tool for what the command does."
	case EmptyPath:
		return 422, "empty_path", "The path is empty."
	case AbsolutePath:
		return 422, "absolute_path", "The path is absolute and does not lie in the working directory."
	case PathClimbs:
		return 422, "path_climbs", `The path has a part "." or "..".`
	case PathEncoding:
		return 422, "path_encoding", "The path is encoded in a way that can't be read."
	case HostNotAllowed:
		return 422, "host_not_allowed", "The sandbox may not connect to this host."
	case AddressInternal:
		return 422, "address_internal", "The sandbox may not connect to internal addresses."
	case HostNotAHostname:
		return 422, "host_not_a_hostname", "This is not the name of a host."
	}
	return 422, "refused", "This is not allowed here."
}

// refused says no more than the reason.
func refused(r Reason) error {
	e := &RefusedError{Reason: r}
	_, _, e.Hint = e.Problem()
	return e
}
