// Package crash holds no code. Its tests kill a process of the host with
// SIGKILL at every step of what it does, and look from outside at what the
// next one makes of it: rows, machines, processes, leases and books.
//
// The process is [github.com/bunkroom/bunkroom/internal/crash/host]: the real
// session.Service over the real drivers. The tests build it, without the race
// detector, and start it once for each place to die at.
//
// Every call that leaves the process is two places to die at, one before it and
// one after it, when nobody has seen the reply. A call of the ledger that writes has more:
// after each statement that has written, and before the COMMIT. What the books
// must say is reckoned from what each process has told of its works as it went along.
//
// In the story of a turn the next process begins with taking it over, while the work of the
// dead one has its lease: by then nothing may run of what that had started through it.
//
// Transcripts and inboxes have stories of their own, in
// [github.com/bunkroom/bunkroom/internal/crash/talk], which need no machine: what a process
// leaves that dies in a write is compared, to the last row, with what there was
// before that write and after it in a telling that nobody has broken off.
//
// By default every place is tried on SQLite but for those of money, of which a
// sample is, as is of those of transcripts and of all places on Postgres, drawn from a seed that the test
// logs: one of each kind first. What is left out is tried with
//
//	go test ./internal/crash -all
//
// and one seed again with -seed.
package crash
