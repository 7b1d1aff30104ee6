// Package crash holds no code. Its tests kill a process of the host with
// SIGKILL at every step of what it does, and look from outside at what the
// next one makes of it: rows, machines, processes and leases.
//
// The process is [github.com/bunkroom/bunkroom/internal/crash/host]: the real
// session.Service over the real drivers. The tests build it, without the race
// detector, and start it once for each place to die at.
//
// By default every place is tried on SQLite, and a sample on Postgres, drawn
// from a seed that the test logs. What is left out is tried with
//
//	go test ./internal/crash -all
//
// and one seed again with -seed.
package crash
