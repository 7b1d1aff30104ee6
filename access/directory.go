package access

import "context"

// Directory is what the host implements: its users, projects and agents.
type Directory interface {
	// Facts answers q. An error means that nothing could be found out, and
	// nothing is then allowed; a single fact that could not be found out is
	// left at its zero value instead, so that the rest can still be used.
	//
	// Bunkroom calls Facts at most once per request and never caches the
	// answer: a removed member loses use with the next request. It is called
	// from many goroutines at once.
	Facts(ctx context.Context, q Question) (Facts, error)
}

// DirectoryFunc is a function that is a [Directory].
type DirectoryFunc func(ctx context.Context, q Question) (Facts, error)

// Facts calls f.
func (f DirectoryFunc) Facts(ctx context.Context, q Question) (Facts, error) { return f(ctx, q) }
