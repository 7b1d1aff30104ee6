package local

import (
	"fmt"
	"log/slog"
)

// name is the provider's name in stored rows.
const name = "local"

// Config says where a provider keeps its machines and how it confines them.
type Config struct {
	// Root is the directory that holds everything. Required; it is made
	// absolute, and created with mode 0700 where it isn't there. It must not
	// lie below a directory that sandboxes see (/usr, and System).
	Root string
	// Unconfined runs commands as ordinary processes of the host, without any
	// confinement. See the package comment.
	Unconfined bool
	// Bwrap is the path of the bubblewrap program, 0.8 or later; empty looks for bwrap on PATH.
	Bwrap string
	// System are further directories of the host that confined processes see,
	// read-only, at the same path; /usr and what belongs to it they always see.
	// Toolchains outside /usr go here. What a sandbox has of its own, such as /tmp and /etc, can't be had from the host.
	System []string
	// Proxy says how what restricted machines may reach is reached; see [Provider.Restrict].
	Proxy Proxy
	// Log receives what goes wrong behind the caller's back; nil discards it.
	Log *slog.Logger
}

// ConfinementError says that sandboxes can't be confined on this host, and
// that [Config].Unconfined was not asked for.
type ConfinementError struct {
	// Bwrap is the path of the bubblewrap program that was tried, empty where none was found.
	Bwrap string
	// Err is what went wrong.
	Err error
}

func (e *ConfinementError) Error() string {
	if e.Bwrap == "" {
		return fmt.Sprintf("local: sandboxes can't be confined: %v", e.Err)
	}
	return fmt.Sprintf("local: sandboxes can't be confined with %s: %v", e.Bwrap, e.Err)
}

func (e *ConfinementError) Unwrap() error { return e.Err }

// Problem is the same for every host.
func (e *ConfinementError) Problem() (status int, code, sentence string) {
	return 501, "confinement_unavailable", "This host can't confine sandboxes."
}
