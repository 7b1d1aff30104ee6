// Package e2e holds no code. Its tests start several real processes of a host
// on one Postgres, kill some of them, and check what they were answered; others
// put the deciders of package access beside an engine for policies, and local
// terminals beside a library's.
//
// It is a module of its own, so that what it needs stands in no host's module graph.
package e2e
